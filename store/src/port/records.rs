use super::over::port;
use super::{Result, Store, read_each};
use conveyor_domain::{Record, RecordKey, RecordKind, RecordWrite, Timestamp};
use futures::FutureExt;

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

impl dyn Store + '_ {
    /// Records of a kind that are due by then, the longest first, as they are now.
    pub async fn due_records(&self, kind: RecordKind, by: Timestamp, limit: u32) -> Result<Vec<Record>> {
        let (mut due, mut after) = (Vec::new(), None);
        loop {
            let keys = self.due_keys(DueQuery { kind, by, after, newest_first: false, limit }).await?;
            after = keys.last().cloned().filter(|_| keys.len() >= limit as usize);
            let reads = keys.into_iter().map(|(_, key)| {
                let at = key.clone();
                (key, async move { self.record(&at).await }.boxed())
            });
            let place = |key: &RecordKey| (key.owner.clone(), key.id.clone());
            let read = read_each("record", place, reads.collect()).await.found()?;
            let is_due = |record: &Record| record.due.is_some_and(|due| due <= by);
            due.extend(read.into_iter().filter_map(|(_, record)| record.filter(is_due)));
            if due.len() >= limit as usize || after.is_none() {
                due.truncate(limit as usize);
                return Ok(due);
            }
        }
    }
}

port! {
    /// Small documents beside jobs and runs (SPEC 5.7).
    pub trait RecordStore, decorated by OverRecordStore over store {
        /// As it is now, past its time or not.
        async fn record(&self, key: &RecordKey) -> Result<Option<Record>>;

        /// Writes if what is there is what was expected; otherwise nothing, and false. A repeat whose first answer was lost finds
        /// its own version, and is true.
        async fn write_record(&self, write: RecordWrite) -> Result<bool>;

        async fn records(&self, query: RecordsQuery) -> Result<Vec<Record>>;

        /// Where records are that are due, and since when, without reading them. May lag behind on a distributed backend: read a
        /// record before anything is decided.
        async fn due_keys(&self, query: DueQuery) -> Result<Vec<(Timestamp, RecordKey)>>;
    }
}
