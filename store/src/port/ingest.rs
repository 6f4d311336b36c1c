use super::over::port;
use super::{Reader, Result, RunKey};
use conveyor_domain::ingest::Entry;
use conveyor_domain::{
    Job, JobId, LoggedEvent, ReplayedTask, Run, RunId, TaskInput, TimelineEntry, Timestamp,
};

/// A run that reads a list, as whoever goes on with it finds it: one snapshot.
#[derive(Clone, Debug)]
pub struct Ingest {
    pub job: Job,
    pub run: Run,
    pub log: Vec<LoggedEvent>,
}

/// Some records of a list, in order: tasks at their indexes, and the event that says that they are there.
#[derive(Clone, Debug)]
pub struct Chunk {
    pub rows: Vec<(u32, TaskInput)>,
    /// Of an earlier run, as [`fix_replayed`](IngestStore::fix_replayed) returned them.
    pub replayed: Vec<ReplayedTask>,
    pub entry: Entry,
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// It stands, and so does what it says.
    Done,
    /// Another event has its number: somebody else is at work. Nothing was written.
    Lost,
    /// The run ended meanwhile. Nothing was written.
    Ended,
    /// The job was deleted, and may be gone. Nothing was written.
    Gone,
}

port! {
    /// Lists becoming tasks (SPEC 6.10, 6.11).
    pub trait IngestStore, decorated by OverIngestStore over store {
        /// `None` if there is no such run, it never had a list, or its job was deleted.
        async fn ingest(&self, key: RunKey, reader: Reader) -> Result<Option<Ingest>>;

        /// What these tasks of an earlier run are in this one, before they are counted. Where rows are written before they are
        /// counted, what somebody wrote before stays, though the earlier run may have brought more to an end since: so it is
        /// what is there that has to be counted.
        async fn fix_replayed(
            &self,
            key: RunKey,
            tasks: Vec<ReplayedTask>,
            now: Timestamp,
        ) -> Result<Vec<ReplayedTask>>;

        /// Writes the rows that are missing, raises the run's total, sends the refs and appends the event, in an order that can
        /// be broken off anywhere and repeated by anybody.
        async fn commit_chunk(&self, key: RunKey, chunk: Chunk, now: Timestamp) -> Result<Appended>;

        /// Appends an event under its number and does to the run what it says.
        async fn append(&self, key: RunKey, entry: Entry, now: Timestamp) -> Result<Appended>;

        /// Runs whose list is not all there, with the time of the last event of their log: a page, oldest first, behind the
        /// run that is named.
        async fn ingesting_runs(&self, after: Option<RunId>, limit: u32) -> Result<Vec<(RunKey, Timestamp)>>;
    }
}

port! {
    /// What happened to jobs (SPEC 6.12). Written by whatever makes it happen, in the same step.
    pub trait EventStore, decorated by OverEventStore over store {
        /// Events of a job with a number above `after`, in order.
        async fn events(&self, job: JobId, after: u64, limit: u32) -> Result<Vec<TimelineEntry>>;
    }
}
