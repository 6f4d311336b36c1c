use super::{Result, RunKey};
use async_trait::async_trait;
use conveyor_domain::Run;
use conveyor_domain::Timestamp;
use conveyor_domain::proof::{RowCounts, Sums};
use std::collections::HashMap;

/// A run's rows against its counters, both as they were at one moment, although workers go on (SPEC 6.14).
#[derive(Clone, Debug)]
pub struct Tally {
    pub run: Run,
    pub rows: RowCounts,
    pub counters: Sums,
    /// Moves with every correction: whoever corrects names the one that it saw.
    pub revision: u64,
    /// How many results are in each object, by the object's name; and how many need none. Empty unless asked for.
    pub objects: HashMap<String, u32>,
    pub without_object: u32,
}

/// Counting what is there.
#[async_trait]
pub trait ProofStore: Send + Sync {
    /// Counts the rows of a run. `None` if there is no such run. `Unavailable` if it cannot be told for now.
    async fn tally(&self, key: RunKey, with_objects: bool) -> Result<Option<Tally>>;

    /// Adds what is missing to the counters, unless they were corrected since the revision that was seen: then nothing is
    /// done, and the answer is false.
    async fn correct(&self, key: RunKey, missing: Sums, seen: u64, now: Timestamp) -> Result<bool>;
}
