//! Lists becoming tasks (SPEC 6.10, 6.11). Here the rows of a chunk, their refs, the run's total and the event are one
//! transaction: a crash leaves all of them or none.

use super::jobs::{self, StoredJob};
use super::latest::Latest;
use super::reader::Lane;
use super::runs::StoredRun;
use super::{Embedded, codec, events, queue, runs, tasks};
use crate::port::{Appended, Chunk, Error, Ingest, IngestStore, Reader, Result, RunKey};
use async_trait::async_trait;
use conveyor_domain::ingest::Entry;
use conveyor_domain::{
    Command, IngestRef, Job, JobId, JobStatus, QueueName, Refusal, ReplayedTask, Run, RunId, RunStatus,
    Timestamp,
};
use rusqlite::{Connection, params};

/// Asks for somebody to look at the run's list.
pub fn call(connection: &Connection, run: &Run, now: Timestamp) -> Result<()> {
    let message = IngestRef { job: run.job, run: run.id, progress: 1 };
    queue::enqueue(connection, QueueName::Control, std::iter::once(message.to_string()), now)
}

/// A run that is not deleted, with its job.
fn find(connection: &Connection, key: RunKey) -> Result<Option<(Job, StoredRun)>> {
    let found = runs::find(connection, key)?.filter(|stored| stored.run.status != RunStatus::Deleted);
    let Some(run) = found else { return Ok(None) };
    let job = jobs::find(connection, key.job)?.filter(|found| found.job.status != JobStatus::Deleted);
    Ok(job.map(|found| (found.job, run)))
}

fn ingest_of(connection: &Connection, key: RunKey) -> Result<Option<Ingest>> {
    let Some((job, run)) = find(connection, key)? else { return Ok(None) };
    let log = events::log(connection, key.run)?;
    Ok((!log.is_empty()).then_some(Ingest { job, run: run.run, log }))
}

/// Whether the entry may be appended now; `Some` is why it may not.
fn refusal(connection: &Connection, key: RunKey, entry: &Entry) -> Result<Option<Appended>> {
    // Numbers have no gaps, so whoever has the next one has seen the whole log.
    let next = events::next_number(connection, key.run)?;
    Ok((entry.number() != next).then_some(Appended::Lost))
}

/// Appends an entry and does what it says to the run. The caller is inside a transaction and has checked the number.
fn append(
    connection: &Connection,
    latest: &Latest,
    (job, run): (Job, StoredRun),
    entry: &Entry,
    now: Timestamp,
) -> Result<Appended> {
    let key = RunKey { job: job.id, run: run.run.id };
    events::logged(connection, key, entry.number(), entry.event(), now)?;
    let Some(step) = entry.effect() else { return Ok(Appended::Done) };
    let found = StoredJob { job, run: Some(run) };
    jobs::transition(connection, latest, found, &Command::Ingest(step.clone()), now)?;
    Ok(Appended::Done)
}

/// A refusal is an answer; the transaction that it came from is undone.
fn answer(outcome: Result<Appended>) -> Result<Appended> {
    match outcome {
        Err(Error::Refused(Refusal::RunEnded)) => Ok(Appended::Ended),
        Err(Error::Refused(Refusal::NotIngesting)) => Ok(Appended::Lost),
        other => other,
    }
}

#[async_trait]
impl IngestStore for Embedded {
    async fn ingest(&self, key: RunKey, reader: Reader) -> Result<Option<Ingest>> {
        self.read(reader.into(), move |connection| ingest_of(connection, key)).await
    }

    async fn fix_replayed(
        &self,
        _key: RunKey,
        tasks: Vec<ReplayedTask>,
        _now: Timestamp,
    ) -> Result<Vec<ReplayedTask>> {
        // Rows are written when they are counted: nobody can have written any before.
        Ok(tasks)
    }

    async fn commit_chunk(&self, key: RunKey, chunk: Chunk, now: Timestamp) -> Result<Appended> {
        let Chunk { rows, replayed, entry } = chunk;
        // The writer's time is everybody's: what can be prepared outside of it, is.
        let mut rows = tasks::encode(rows.iter().map(|(index, input)| (*index, input)))?;
        rows.extend(tasks::encode_replayed(&replayed)?);
        let latest = self.latest.clone();
        let outcome = self
            .write(move |connection| {
                if let Some(refused) = refusal(connection, key, &entry)? {
                    return Ok(refused);
                }
                let Some(found) = find(connection, key)? else { return Ok(Appended::Gone) };
                tasks::put(connection, &found.1, &rows, now)?;
                append(connection, &latest, found, &entry, now)
            })
            .await;
        self.announce();
        answer(outcome)
    }

    async fn append(&self, key: RunKey, entry: Entry, now: Timestamp) -> Result<Appended> {
        let latest = self.latest.clone();
        let outcome = self
            .write(move |connection| {
                if let Some(refused) = refusal(connection, key, &entry)? {
                    return Ok(refused);
                }
                match find(connection, key)? {
                    Some(found) => append(connection, &latest, found, &entry, now),
                    None => Ok(Appended::Gone),
                }
            })
            .await;
        self.announce();
        answer(outcome)
    }

    async fn ingesting_runs(&self, after: Option<RunId>, limit: u32) -> Result<Vec<(RunKey, Timestamp)>> {
        self.read(Lane::Work, move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT job_id, run_id,
                    (SELECT at_ms FROM events WHERE events.run_id = runs.run_id AND ingest_number IS NOT NULL
                     ORDER BY ingest_number DESC LIMIT 1)
                 FROM runs WHERE ingest = 'pending' AND status <> 'deleted'
                    AND run_key > coalesce((SELECT run_key FROM runs WHERE run_id = ?1), 0)
                 ORDER BY run_key",
            )?;
            let after = after.map(RunId::to_bytes);
            codec::readable("run", &mut statement, params![after], limit, |row| {
                let key = RunKey { job: JobId::from_bytes(row.get(0)?), run: RunId::from_bytes(row.get(1)?) };
                Ok((key, Timestamp(row.get::<_, Option<i64>>(2)?.unwrap_or(0))))
            })
        })
        .await
    }
}
