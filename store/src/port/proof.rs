use super::{Result, RunKey};
use async_trait::async_trait;
use conveyor_domain::proof::{RowCounts, Sums};
use conveyor_domain::{Run, Timestamp};
use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A run's rows against its counters, both as they were at one moment, although workers go on (SPEC 6.14).
#[derive(Clone, Debug)]
pub struct Tally {
    pub run: Run,
    pub rows: RowCounts,
    pub counters: Sums,
    /// Moves with every correction: whoever corrects names the one that it saw.
    pub revision: u64,
    /// Where results are. Empty unless asked for.
    pub objects: NamedObjects,
}

/// Objects that rows name, and how many rows name each. By their hashes: a million names take ten times the room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedObjects {
    by_hash: HashMap<u64, u32>,
    places: BTreeSet<String>,
    none: u32,
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

impl NamedObjects {
    /// A row names this one; or none, because its body is empty.
    pub fn add(&mut self, name: Option<&str>) {
        let Some(name) = name else {
            self.none += 1;
            return;
        };
        *self.by_hash.entry(hash(name)).or_default() += 1;
        if let Some((place, _)) = name.rsplit_once('/')
            && !self.places.contains(place)
        {
            self.places.insert(place.to_owned());
        }
    }

    pub fn merge(&mut self, other: NamedObjects) {
        for (name, rows) in other.by_hash {
            *self.by_hash.entry(name).or_default() += rows;
        }
        self.places.extend(other.places);
        self.none += other.none;
    }

    /// It is there: the rows that name it, each of which is told once.
    pub fn take(&mut self, name: &str) -> u32 {
        self.by_hash.remove(&hash(name)).unwrap_or(0)
    }

    /// Rows whose object was not taken.
    pub fn left(&self) -> u32 {
        self.by_hash.values().sum()
    }

    /// Rows that need none.
    pub fn none(&self) -> u32 {
        self.none
    }

    /// The prefixes under which all of them are.
    pub fn places(&self) -> impl Iterator<Item = &str> {
        self.places.iter().map(String::as_str)
    }
}

/// Counting what is there.
#[async_trait]
pub trait ProofStore: Send + Sync {
    /// Counts the rows of a run. `None` if there is no such run. `Unavailable` if it cannot be told for now.
    async fn tally(&self, key: RunKey, with_objects: bool) -> Result<Option<Tally>>;

    /// Adds what is missing to the counters, unless they were corrected since the revision that was seen, or the run was
    /// deleted: then nothing is done, and the answer is false.
    async fn correct(&self, key: RunKey, missing: Sums, seen: u64, now: Timestamp) -> Result<bool>;
}
