//! Jobs and runs as rows. Each has a version; whoever writes one names the version that it read.

use super::counters::Counted;
use super::discovery;
use super::holes::{Hole, UNTIMED};
use super::item::{Draft, Item, Row, corrupt, json, number, text};
use super::keys::{self, GSI1_PK, GSI1_SK, GSI2_PK, GSI2_SK};
use super::tombstones;
use conveyor_domain::schedule::Template;
use conveyor_domain::{
    IngestStatus, Job, JobStatus, Run, RunDoc, RunFailure, RunId, RunStats, RunStatus, Storage, Timestamp,
    UploadId,
};
use conveyor_store::Result;
use conveyor_store::port::{JobView, RunView};
use std::sync::Arc;

/// A job, and what is kept beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRow {
    pub job: Job,
    pub version: u64,
    /// Events of its timeline so far.
    pub events: u64,
    /// The upload that it holds on to.
    pub upload: Option<UploadId>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RunRow {
    pub run: Run,
    pub version: u64,
    pub shards: u32,
    /// Events in the log of its ingest, when the last one was written, and by whom.
    pub logged: u32,
    pub logged_at: Timestamp,
    pub logged_by: u64,
    pub holes: Vec<Hole>,
    /// The number of its first event in the timeline of its job, or a lower one.
    pub first_event: u64,
    pub queue_removed: bool,
}

impl JobRow {
    pub fn new(job: &Job, upload: Option<UploadId>) -> JobRow {
        JobRow { job: job.clone(), version: 0, events: 0, upload }
    }

    pub fn encode(&self) -> Result<Item> {
        let Job { id, caller, spec, status, latest_run, created, updated } = &self.job;
        let draft = Draft::at(&keys::job(*id))
            .set("v", number(self.version))
            .set("ev", number(self.events))
            .set("cal", text(caller.to_string()))
            .set("st", text(status.as_str()))
            .set("run", text(latest_run.to_string()))
            .set("ca", number(created.0))
            .set("ua", number(updated.0))
            .set("doc", json(spec.as_ref())?)
            .set_some("up", self.upload.map(|upload| text(upload.to_string())))
            .set(GSI1_PK, text(keys::jobs_of(*caller)))
            .set(GSI1_SK, text(id.to_string()));
        Ok(match status {
            JobStatus::Deleted => draft.set(GSI2_PK, text(DELETED)).set(GSI2_SK, text(id.to_string())).item(),
            JobStatus::Open | JobStatus::Closed => draft.item(),
        })
    }

    /// `None` where a job was, and is only remembered.
    pub fn decode(item: &Item) -> Result<Option<JobRow>> {
        if tombstones::is_tombstone(item) {
            return Ok(None);
        }
        let row = Row(item);
        let status = row.text("st")?;
        let job = Job {
            id: keys::job_of(row.text(keys::PK)?).ok_or_else(|| corrupt("job id"))?,
            caller: row.parsed("cal")?,
            status: status.parse().map_err(|_| corrupt("job status"))?,
            latest_run: row.parsed("run")?,
            created: Timestamp(row.number("ca")?),
            updated: Timestamp(row.number("ua")?),
            spec: Arc::new(row.json("doc")?),
        };
        let upload = row.find_text("up")?.map(str::parse).transpose().map_err(|_| corrupt("upload id"))?;
        Ok(Some(JobRow { job, version: row.number("v")?, events: row.number("ev")?, upload }))
    }
}

/// Partitions of the second index, beside those of runs.
pub const DELETED: &str = "deleted";
pub const SUBMITTING: &str = "submitting";

impl RunRow {
    pub fn new(run: &Run, shards: u32) -> RunRow {
        RunRow {
            run: run.clone(),
            version: 0,
            shards,
            logged: 0,
            logged_at: run.created,
            logged_by: 0,
            holes: Vec::new(),
            first_event: 0,
            queue_removed: false,
        }
    }

    /// What the runs of a job are made of, which never has a queue.
    pub fn of_template(template: &Template, shards: u32) -> RunRow {
        RunRow { queue_removed: true, ..RunRow::new(&template.stored(), shards) }
    }

    /// Not a template, whose row is one of these.
    pub fn is_run(&self) -> bool {
        self.run.sequence != Template::SEQUENCE
    }

    /// Whether the row of a task is one that counts: written, and all its addition with it.
    pub fn shows(&self, index: u32) -> bool {
        index < self.run.next_index && !self.holes.iter().any(|hole| hole.contains(index))
    }

    /// Whether readers find it.
    pub fn is_visible(&self) -> bool {
        self.run.storage != Storage::Removed && self.is_run()
    }

    /// Whether it ended before that moment and its rows are kept. One that was deleted goes its own way.
    pub fn has_expired(&self, ended_before: Timestamp) -> bool {
        let ended = self.run.status.is_terminal() && self.run.status != RunStatus::Deleted;
        ended && self.run.storage == Storage::Kept && self.run.updated < ended_before
    }

    pub fn encode(&self) -> Result<Item> {
        let run = &self.run;
        let draft = Draft::at(&keys::run(run.job, run.id))
            .set("v", number(self.version))
            .set("seq", number(run.sequence))
            .set("st", text(run.status.as_str()))
            .set("tot", number(run.total))
            .set("nxt", number(run.next_index))
            .set("lat", number(u8::from(run.latched)))
            .set("seed", text(run.id_seed.to_string()))
            .set("ca", number(run.created.0))
            .set("ua", number(run.updated.0))
            .set("sh", number(self.shards))
            .set_some("ing", run.ingest.map(|ingest| text(ingest.as_str())))
            .set_some("pz", run.paused.then(|| number(1)))
            .set_some("fail", run.failure.as_ref().map(json).transpose()?)
            .set_some("sto", (run.storage != Storage::Kept).then(|| text(run.storage.as_str())))
            .set_some("doc", (run.doc != RunDoc::default()).then(|| json(&run.doc)).transpose()?)
            .set_some("ev", (self.first_event > 0).then(|| number(self.first_event)))
            .set_some("qr", self.queue_removed.then(|| number(1)));
        let draft = match self.logged {
            0 => draft,
            logged => draft
                .set("ln", number(logged))
                .set("la", number(self.logged_at.0))
                .set("lb", number(self.logged_by)),
        };
        let draft = if self.holes.is_empty() { draft } else { encode_holes(draft, &self.holes)? };
        let draft = if run.sources.is_empty() { draft } else { draft.set("src", json(&run.sources)?) };
        Ok(match discovery::place(self) {
            None => draft.item(),
            Some(place) => {
                // Later, if it is written later than it was decided.
                let changed = discovery::sort_key(run.id, run.updated);
                draft.set(GSI2_PK, text(place)).set(GSI2_SK, text(changed)).item()
            }
        })
    }

    pub fn decode(item: &Item) -> Result<RunRow> {
        let row = Row(item);
        let (status, ingest) = (row.text("st")?, row.find_text("ing")?);
        let id = row.text(keys::SK)?.strip_prefix(keys::RUNS).ok_or_else(|| corrupt("run id"))?;
        let ingest_status = |text: &str| text.parse::<IngestStatus>().map_err(|_| corrupt("ingest status"));
        let run = Run {
            id: id.parse().map_err(|_| corrupt("run id"))?,
            job: keys::job_of(row.text(keys::PK)?).ok_or_else(|| corrupt("job id"))?,
            sequence: row.number("seq")?,
            status: status.parse().map_err(|_| corrupt("run status"))?,
            total: row.number("tot")?,
            next_index: row.number("nxt")?,
            latched: row.number::<u8>("lat")? == 1,
            ingest: ingest.map(ingest_status).transpose()?,
            id_seed: row.parsed("seed")?,
            failure: row.find_json::<RunFailure>("fail")?,
            paused: row.find_number::<u8>("pz")?.is_some(),
            sources: row.find_json::<Vec<RunId>>("src")?.unwrap_or_default(),
            storage: storage(row)?,
            doc: row.find_json("doc")?.unwrap_or_default(),
            created: Timestamp(row.number("ca")?),
            updated: Timestamp(row.number("ua")?),
        };
        Ok(RunRow {
            version: row.number("v")?,
            shards: row.number("sh")?,
            logged: row.find_number("ln")?.unwrap_or(0),
            logged_at: Timestamp(row.find_number("la")?.unwrap_or(run.created.0)),
            logged_by: row.find_number("lb")?.unwrap_or(0),
            holes: decode_holes(row)?,
            first_event: row.find_number("ev")?.unwrap_or(0),
            queue_removed: row.find_number::<u8>("qr")?.is_some(),
            run,
        })
    }

    pub fn view(self, Counted { counts, spend }: Counted) -> RunView {
        let counts = self.run.counted(counts);
        RunView { stats: RunStats { total: self.run.total, counts, spend }, run: self.run }
    }
}

/// Ranges, and when each was reserved: earlier versions wrote the ranges alone.
fn encode_holes(draft: Draft, holes: &[Hole]) -> Result<Draft> {
    let ranges: Vec<(u32, u32)> = holes.iter().map(|hole| (hole.first, hole.end)).collect();
    let since: Vec<i64> = holes.iter().map(|hole| hole.since.map_or(GIVEN_UP, |since| since.0)).collect();
    Ok(draft.set("holes", json(&ranges)?).set("hs", json(&since)?))
}

fn decode_holes(row: Row<'_>) -> Result<Vec<Hole>> {
    let ranges: Vec<(u32, u32)> = row.find_json("holes")?.unwrap_or_default();
    let since: Vec<i64> = row.find_json("hs")?.unwrap_or_default();
    let since = since.into_iter().chain(std::iter::repeat(UNTIMED.0));
    let hole = |((first, end), since)| {
        let since = (since != GIVEN_UP).then_some(Timestamp(since));
        Hole { first, end, since }
    };
    Ok(ranges.into_iter().zip(since).map(hole).collect())
}

/// In the place of a time.
const GIVEN_UP: i64 = -1;

fn storage(row: Row<'_>) -> Result<Storage> {
    let Some(text) = row.find_text("sto")? else { return Ok(Storage::Kept) };
    text.parse().map_err(|_| corrupt("storage of a run"))
}

/// A job with a run of it, and what workers had counted of that before it was read: so never more than its total.
#[derive(Clone, Debug)]
pub struct State {
    pub job: JobRow,
    pub run: RunRow,
    pub counted: Counted,
}

impl State {
    /// What is done of the run, and what it cost.
    pub fn stats(&self) -> RunStats {
        let Counted { counts, spend } = self.counted;
        RunStats { total: self.run.run.total, counts: self.run.run.counted(counts), spend }
    }

    pub fn view(self) -> JobView {
        JobView { job: self.job.job, latest: Some(self.run.view(self.counted)) }
    }
}

/// A job with its latest run, or a scheduled job that has not fired.
#[derive(Clone, Debug)]
pub enum Loaded {
    Run(Box<State>),
    Unfired(JobRow),
}

impl Loaded {
    pub fn job(&self) -> &JobRow {
        match self {
            Loaded::Run(state) => &state.job,
            Loaded::Unfired(job) => job,
        }
    }

    pub fn run(&self) -> Option<&Run> {
        match self {
            Loaded::Run(state) => Some(&state.run.run),
            Loaded::Unfired(_) => None,
        }
    }

    pub fn view(self) -> JobView {
        match self {
            Loaded::Run(state) => state.view(),
            Loaded::Unfired(row) => JobView { job: row.job, latest: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::{JobId, RunId};

    #[test]
    fn the_row_of_a_template_is_as_earlier_versions_wrote_it() {
        let template = Template {
            id: RunId::from_bytes([2; 16]),
            job: JobId::from_bytes([1; 16]),
            rows: 3,
            created: Timestamp(7),
        };
        let as_stored = Draft::at(&keys::run(template.job, template.id))
            .set("v", number(0))
            .set("seq", number(0))
            .set("st", text("stopped"))
            .set("tot", number(3))
            .set("nxt", number(3))
            .set("lat", number(1))
            .set("seed", text(template.id.to_string()))
            .set("ca", number(7))
            .set("ua", number(7))
            .set("sh", number(2))
            .set("qr", number(1))
            .item();
        assert_eq!(RunRow::of_template(&template, 2).encode().unwrap(), as_stored);
        let row = RunRow::decode(&as_stored).unwrap();
        assert!(!row.is_run() && !row.is_visible() && row.shows(2) && !row.shows(3));
    }
}
