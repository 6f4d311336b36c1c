use super::Result;
use async_trait::async_trait;
use conveyor_domain::{Record, RecordKey, RecordKind, RecordWrite, Timestamp};

/// A page of one owner's records of one kind, by id. Ids of things that are made are ULIDs, so that is by age.
#[derive(Clone, Debug)]
pub struct RecordsQuery {
    pub kind: RecordKind,
    pub owner: String,
    /// Only those behind this one.
    pub after: Option<String>,
    pub newest_first: bool,
    pub limit: u32,
}

/// A page of what is due by a moment, by when it is due. A page that is not full is the last.
#[derive(Clone, Debug)]
pub struct DueQuery {
    pub kind: RecordKind,
    pub by: Timestamp,
    /// Only those behind this one, as an earlier page named it.
    pub after: Option<(Timestamp, RecordKey)>,
    /// From the one that became due last.
    pub newest_first: bool,
    pub limit: u32,
}

/// Small documents beside jobs and runs (SPEC 5.7).
#[async_trait]
pub trait RecordStore: Send + Sync {
    /// As it is now, past its time or not.
    async fn record(&self, key: &RecordKey) -> Result<Option<Record>>;

    /// Writes if what is there is what was expected; otherwise nothing, and false. A repeat whose first answer was lost finds
    /// its own version, and is true.
    async fn write_record(&self, write: RecordWrite) -> Result<bool>;

    async fn records(&self, query: RecordsQuery) -> Result<Vec<Record>>;

    /// Records of a kind that are due by then, the longest first. May lag behind on a distributed backend; what is returned is
    /// as it is now.
    async fn due_records(&self, kind: RecordKind, by: Timestamp, limit: u32) -> Result<Vec<Record>>;

    /// Where records are that are due, and since when, without reading them. May lag behind on a distributed backend: read a
    /// record before anything is decided.
    async fn due_keys(&self, query: DueQuery) -> Result<Vec<(Timestamp, RecordKey)>>;

    /// Removes up to `limit` records that are past their time, and returns how many. A store that does so by itself has
    /// nothing to do.
    async fn remove_expired_records(&self, now: Timestamp, limit: u32) -> Result<u32>;
}
