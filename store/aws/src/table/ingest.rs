//! Lists becoming tasks (SPEC 5.4, 6.10, 6.11). Rows, total, refs and event are written one after the other, in the order
//! in which every break is harmless.

use super::change::{NewEvent, Next};
use super::insert::RowPlace;
use super::jobs::{READS_INFLIGHT, refs};
use super::rows::{JobRow, RunRow, State};
use super::transact::Condition;
use super::{Table, keys};
use async_trait::async_trait;
use conveyor_domain::ingest::Entry;
use conveyor_domain::{
    Command, IngestStep, JobStatus, QueueName, Refusal, ReplayedTask, RunId, RunStatus, TaskRef, Timestamp,
};
use conveyor_store::port::{Answers, Appended, Chunk, Ingest, IngestStore, Reader, RunKey};
use conveyor_store::{Error, Result};

/// How long the log among these events is.
pub fn logged(events: &[NewEvent]) -> u32 {
    let last = events.iter().filter_map(|event| match event {
        NewEvent::Ingest(number, _) => Some(number + 1),
        NewEvent::Lifecycle(_) => None,
    });
    last.max().unwrap_or(0)
}

/// Whether the run takes this entry now; otherwise why not.
fn takes(state: Option<State>, entry: &Entry) -> std::result::Result<State, Appended> {
    let Some(state) = state else { return Err(Appended::Gone) };
    if entry.number() != state.run.logged {
        // Numbers have no gaps, so whoever has the next one has seen the whole log.
        return Err(Appended::Lost);
    }
    match state.job.job.status {
        JobStatus::Deleted => Err(Appended::Gone),
        JobStatus::Open | JobStatus::Closed if state.run.run.status == RunStatus::Deleted => {
            Err(Appended::Gone)
        }
        JobStatus::Open | JobStatus::Closed => Ok(state),
    }
}

/// A refusal of the domain is an answer here.
fn refused<T>(outcome: Result<T>) -> Result<std::result::Result<T, Appended>> {
    match outcome {
        Ok(value) => Ok(Ok(value)),
        Err(Error::Refused(Refusal::RunEnded)) => Ok(Err(Appended::Ended)),
        Err(Error::Refused(Refusal::NotIngesting)) => Ok(Err(Appended::Lost)),
        Err(error) => Err(error),
    }
}

impl Table {
    /// Makes the rows of a chunk count: the run's total and next index, never lower than they were.
    async fn raise_total(&self, key: RunKey, entry: &Entry, now: Timestamp) -> Result<Option<Appended>> {
        let Some(step @ IngestStep::Progress { .. }) = entry.effect() else { return Ok(None) };
        let command = Command::Ingest(step.clone());
        let mut backoff = self.backoff();
        loop {
            let state = match takes(self.load_run(key).await?, entry) {
                Ok(state) => state,
                Err(why) => return Ok(Some(why)),
            };
            let next = match refused(Next::decided(&state, &command, now))? {
                Ok(next) => next,
                Err(why) => return Ok(Some(why)),
            };
            let mut run = next.run;
            let unmoved = run.run.total == state.run.run.total
                && run.run.next_index == state.run.run.next_index
                && run.run.doc.inherited == state.run.run.doc.inherited;
            if unmoved {
                return Ok(None);
            }
            run.version += 1;
            if self.put_if(run.encode()?, Condition::version(state.run.version)).await? {
                return Ok(None);
            }
            backoff.wait("the total of a run").await?;
        }
    }

    /// Appends an entry and does what it says to the run.
    async fn append_entry(&self, key: RunKey, entry: &Entry, now: Timestamp) -> Result<Appended> {
        let by = self.entropy.next_u64();
        let mut backoff = self.backoff();
        loop {
            let loaded = self.load_run(key).await?;
            if let Some(state) = &loaded
                && (state.run.logged, state.run.logged_by) == (entry.number() + 1, by)
            {
                // Ours, although its answer was lost.
                return Ok(Appended::Done);
            }
            let state = match takes(loaded, entry) {
                Ok(state) => state,
                Err(why) => return Ok(why),
            };
            let mut next = match entry.effect() {
                None => Next { job: state.job.clone(), run: state.run.clone(), events: Vec::new() },
                Some(step) => match refused(Next::decided(&state, &Command::Ingest(step.clone()), now))? {
                    Ok(next) => next,
                    Err(why) => return Ok(why),
                },
            };
            next.events.insert(0, NewEvent::Ingest(entry.number(), entry.event().clone()));
            (next.run.logged, next.run.logged_at, next.run.logged_by) = (entry.number() + 1, now, by);
            if self.write(&state, &next, now, Vec::new()).await?.is_ok() {
                return Ok(Appended::Done);
            }
            backoff.wait("an event of an ingest").await?;
        }
    }
}

#[async_trait]
impl IngestStore for Table {
    async fn ingest(&self, key: RunKey, _reader: Reader) -> Result<Option<Ingest>> {
        let (mut backoff, mut seen) = (self.backoff(), None);
        let run = self.get(&keys::run(key.job, key.run)).await?;
        let Some(first) = run.as_ref().map(RunRow::decode).transpose()?.map(|run| run.first_event) else {
            return Ok(None);
        };
        loop {
            let log = self.log(key, first).await?;
            let (job, run) = self.get_both(&keys::job(key.job), &keys::run(key.job, key.run)).await?;
            let (Some(job), Some(run)) = (job, run) else { return Ok(None) };
            let (Some(JobRow { job, .. }), run) = (JobRow::decode(&job)?, RunRow::decode(&run)?) else {
                return Ok(None);
            };
            let deleted = job.status == JobStatus::Deleted || run.run.status == RunStatus::Deleted;
            if deleted || run.logged == 0 {
                return Ok(None);
            }
            // Nobody appended in between: the log and the run belong together.
            if log.len() == run.logged as usize {
                return Ok(Some(Ingest { job, run: run.run, log }));
            }
            // Nobody did in between two looks, and still they do not belong together.
            if seen.replace((run.version, log.len())) == Some((run.version, log.len())) {
                let logged = run.logged;
                return Err(Error::Corrupt(format!(
                    "{} of {logged} events of an ingest are there",
                    log.len()
                )));
            }
            backoff.wait("the log of an ingest").await?;
        }
    }

    async fn fix_replayed(
        &self,
        key: RunKey,
        tasks: Vec<ReplayedTask>,
        now: Timestamp,
    ) -> Result<Vec<ReplayedTask>> {
        // Of a run that has ended meanwhile nothing is written: its append finds that out.
        let Some(run) = self.find_run(key).await?.filter(|row| !row.run.status.is_terminal()) else {
            return Ok(tasks);
        };
        let place = RowPlace { key, seed: run.run.id_seed, shards: run.shards };
        self.insert_replayed(place, tasks, now).await
    }

    async fn commit_chunk(&self, key: RunKey, chunk: Chunk, now: Timestamp) -> Result<Appended> {
        self.latest.learn(now);
        let Chunk { rows, replayed, entry } = chunk;
        let state = match takes(self.load_run(key).await?, &entry) {
            Ok(state) => state,
            Err(why) => return Ok(why),
        };
        if state.run.run.status.is_terminal() {
            return Ok(Appended::Ended);
        }
        let (seed, shards) = (state.run.run.id_seed, state.run.shards);
        self.insert_tasks(RowPlace { key, seed, shards }, &rows, now).await?;
        // Before any of them can be worked on: never more done than there is.
        if let Some(why) = self.raise_total(key, &entry, now).await? {
            return Ok(why);
        }
        // Those of an earlier run are there: `fix_replayed` wrote them.
        let again = replayed.iter().filter(|task| task.inherited.is_none()).map(|task| task.index);
        let bodies: Vec<String> = refs(seed, shards, rows.iter().map(|(index, _)| *index).chain(again))
            .map(|task: TaskRef| task.to_string())
            .collect();
        if !bodies.is_empty() {
            self.queues.send(QueueName::Run(key.run), bodies, now).await?;
        }
        self.append_entry(key, &entry, now).await
    }

    async fn append(&self, key: RunKey, entry: Entry, now: Timestamp) -> Result<Appended> {
        self.latest.learn(now);
        self.append_entry(key, &entry, now).await
    }

    async fn ingesting_runs(&self, after: Option<RunId>, limit: u32) -> Result<Vec<(RunKey, Timestamp)>> {
        // All of them for every page: runs change while their lists are read, so there is no order to go on in.
        let mut found = self.discovered_ingesting().await?;
        found.retain(|key| after.is_none_or(|after| key.run > after));
        // A short page means that there are no more, so all of them are read until it is full.
        let (mut runs, mut answers) = (Vec::new(), Answers::default());
        let mut found = found.into_iter().peekable();
        while found.peek().is_some() && runs.len() < limit as usize {
            let missing = (limit as usize - runs.len()).max(READS_INFLIGHT);
            let reads = self.runs_at(found.by_ref().take(missing)).await;
            answers.add(reads.answers);
            let rows = reads.found.into_iter().filter_map(|(key, row)| Some((key, row?)));
            let mut ingesting: Vec<_> = rows
                .filter(|(_, row)| row.run.is_ingesting() && row.run.status != RunStatus::Deleted)
                .map(|(key, row)| (key, row.logged_at))
                .collect();
            runs.append(&mut ingesting);
        }
        runs.truncate(limit as usize);
        answers.any().map(|()| runs)
    }
}
