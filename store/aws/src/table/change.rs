//! Decisions on a job and its run: read, decided by the domain, and written if nothing has moved since.

use super::item::{Draft, Item, corrupt, json, number, text};
use super::rows::{JobRow, Loaded, RunRow, State};
use super::transact::{Condition, Unmet};
use super::unsent::Outbox;
use super::{Table, keys};
use aws_sdk_dynamodb::types::TransactWriteItem;
use conveyor_domain::job::beside::Change;
use conveyor_domain::job::lifecycle::{Decision, decide, decide_latest};
use conveyor_domain::{
    Command, Counts, IngestEvent, IngestRef, Job, JobId, LifecycleEvent, QueueName, Run, RunId, RunStats,
    RunStatus, Timestamp, beside, lifecycle, timeline,
};
use conveyor_store::port::{JobView, Once, RunKey, RunView};
use conveyor_store::{Error, Result};

/// An entry of a timeline that is about to be written.
#[derive(Clone, Debug)]
pub enum NewEvent {
    Lifecycle(LifecycleEvent),
    /// With its number in the log of its run's ingest.
    Ingest(u32, IngestEvent),
}

/// A job and a run as they shall be, and what happened.
#[derive(Clone, Debug)]
pub struct Next {
    pub job: JobRow,
    pub run: RunRow,
    pub events: Vec<NewEvent>,
}

impl Next {
    /// What the domain makes of a command.
    pub fn decided(state: &State, command: &Command, now: Timestamp) -> Result<Next> {
        let (job, run) = (&state.job.job, &state.run.run);
        Ok(Next::of(state, decide(job, run, &state.stats().counts, command, now)?))
    }

    fn of(state: &State, decision: Decision) -> Next {
        let Decision { job, run } = decision;
        let before = (&state.job.job, Some(&state.run.run));
        let events = lifecycle_events(before, (&job, Some(&run)));
        Next { job: JobRow { job, ..state.job.clone() }, run: RunRow { run, ..state.run.clone() }, events }
    }
}

fn lifecycle_events(before: (&Job, Option<&Run>), after: (&Job, Option<&Run>)) -> Vec<NewEvent> {
    timeline::changes(before, after).into_iter().map(NewEvent::Lifecycle).collect()
}

impl Table {
    /// A job with its latest run: the two as they were at one moment, with what was counted before that.
    pub async fn load(&self, job: JobId) -> Result<Option<Loaded>> {
        // Only to learn which run is the latest; a read that is too old is found out below.
        let latest = match self.get_stale(&keys::job(job)).await? {
            Some(item) => JobRow::decode(&item)?,
            None => self.find_job(job).await?,
        };
        let Some(mut latest) = latest.map(|row| row.job.latest_run) else { return Ok(None) };
        loop {
            let Some(state) = self.load_row(RunKey { job, run: latest }).await? else { return Ok(None) };
            if state.job.job.latest_run == latest {
                return Ok(Some(match state.run.is_run() {
                    true => Loaded::Run(Box::new(state)),
                    false => Loaded::Unfired(state.job),
                }));
            }
            latest = state.job.job.latest_run;
        }
    }

    /// A job with this run of it.
    pub async fn load_run(&self, key: RunKey) -> Result<Option<State>> {
        Ok(self.load_row(key).await?.filter(|state| state.run.is_run()))
    }

    /// A job with this run of it, or with its template.
    async fn load_row(&self, key: RunKey) -> Result<Option<State>> {
        let counted = self.counted(key).await?;
        let (job, run) = self.get_both(&keys::job(key.job), &keys::run(key.job, key.run)).await?;
        let Some(job) = job.as_ref().map(JobRow::decode).transpose()?.flatten() else { return Ok(None) };
        match run {
            Some(run) => Ok(Some(State { run: RunRow::decode(&run)?, job, counted })),
            // It is the job's own, and goes together with it.
            None if job.job.latest_run == key.run => Err(corrupt("run of a job")),
            None => Ok(None),
        }
    }

    /// The rows of new events, numbered on.
    pub fn event_rows(
        &self,
        job: &mut JobRow,
        run: RunId,
        events: &[NewEvent],
        now: Timestamp,
    ) -> Result<Vec<Item>> {
        let row = |event: &NewEvent| -> Result<Item> {
            job.events += 1;
            let draft = Draft::at(&keys::event(job.job.id, job.events))
                .set("run", text(run.to_string()))
                .set("at", number(now.0));
            Ok(match event {
                NewEvent::Lifecycle(event) => draft.set("doc", json(event)?),
                NewEvent::Ingest(place, event) => draft.set("doc", json(event)?).set("lno", number(place)),
            }
            .item())
        };
        events.iter().map(row).collect()
    }

    /// Writes what was decided, unless the rows have moved since they were read: then nothing is written.
    pub async fn write(
        &self,
        seen: &State,
        next: &Next,
        now: Timestamp,
        more: Vec<TransactWriteItem>,
    ) -> Result<std::result::Result<State, Unmet>> {
        let (mut job, mut run) = (next.job.clone(), next.run.clone());
        let events = self.event_rows(&mut job, run.run.id, &next.events, now)?;
        if job == seen.job && run == seen.run && more.is_empty() {
            return Ok(Ok(seen.clone()));
        }
        let mut writes = Vec::with_capacity(2 + events.len() + more.len());
        let job_seen = Condition::version(seen.job.version);
        if job == seen.job {
            // It was part of the decision.
            writes.push(self.check(&keys::job(job.job.id), job_seen)?);
        } else {
            job.version += 1;
            writes.push(self.put(job.encode()?, Some(job_seen))?);
        }
        let run_seen = Condition::version(seen.run.version);
        // Limits are the job's, and whoever works on its run has to hear of them.
        if run == seen.run && job.job.spec == seen.job.job.spec {
            writes.push(self.check(&keys::run(run.run.job, run.run.id), run_seen)?);
        } else {
            run.version += 1;
            writes.push(self.put(run.encode()?, Some(run_seen))?);
        }
        for event in events {
            writes.push(self.put(event, Some(Condition::absent()))?);
        }
        let (before, after) = ((&seen.job.job, Some(&seen.run.run)), (&job.job, Some(&run.run)));
        let change = Change { before: Some(before), after, stats: seen.stats(), now };
        writes.extend(self.records_beside(change)?);
        writes.extend(more);
        match self.transact(writes).await? {
            Ok(()) => {}
            Err(unmet) => return Ok(Err(unmet)),
        }
        let ended = run.run.status != seen.run.run.status && run.run.status.is_terminal();
        if ended && run.run.is_ingesting() && run.run.status != RunStatus::Deleted {
            // Whoever reads the list has to settle for what it wrote; the message that it works on may be gone.
            self.call_ingester(&job.job, run.run.id, now).await;
        }
        Ok(Ok(State { job, run, counted: seen.counted }))
    }

    /// Changes a job that has not fired, unless it has moved since it was read.
    async fn write_unfired(&self, seen: &JobRow, next: Job, now: Timestamp) -> Result<Option<JobRow>> {
        if next == seen.job {
            return Ok(Some(seen.clone()));
        }
        let (before, mut job) = ((&seen.job, None), JobRow { job: next, ..seen.clone() });
        job.version += 1;
        let events = lifecycle_events(before, (&job.job, None));
        let events = self.event_rows(&mut job, seen.job.latest_run, &events, now)?;
        let mut writes = vec![self.put(job.encode()?, Some(Condition::version(seen.version)))?];
        for event in events {
            writes.push(self.put(event, Some(Condition::absent()))?);
        }
        let stats = RunStats::default();
        let change = Change { before: Some(before), after: (&job.job, None), stats, now };
        writes.extend(self.records_beside(change)?);
        Ok(self.transact(writes).await?.is_ok().then_some(job))
    }

    /// The records that go with a change.
    pub fn records_beside(&self, change: Change<'_>) -> Result<Vec<TransactWriteItem>> {
        beside::records(change).iter().map(|record| self.record_write(record)).collect()
    }

    /// The answer of an operation that is to happen once, to be the last write of its transaction.
    pub fn answer(
        &self,
        once: Option<&Once>,
        view: impl FnOnce() -> JobView,
    ) -> Result<Vec<TransactWriteItem>> {
        once.map(|once| self.record_write(&once.write(&view()))).into_iter().collect()
    }

    /// Decides a command on the job's latest run, again and again until nobody else gets in between.
    pub async fn change(&self, job: JobId, command: &Command, now: Timestamp) -> Result<JobView> {
        let mut backoff = self.backoff();
        loop {
            match self.load(job).await?.ok_or(Error::NotFound)? {
                Loaded::Run(state) => {
                    let next = Next::decided(&state, command, now)?;
                    if let Ok(state) = self.write(&state, &next, now, Vec::new()).await? {
                        return Ok(state.view());
                    }
                }
                Loaded::Unfired(seen) => {
                    let (next, _) = decide_latest(&seen.job, None, &Counts::default(), command, now)?;
                    if let Some(JobRow { job, .. }) = self.write_unfired(&seen, next, now).await? {
                        return Ok(JobView { job, latest: None });
                    }
                }
            }
            backoff.wait("a change of a job").await?;
        }
    }

    /// Deletes one run of a job, whichever it is.
    pub async fn delete_one_run(&self, key: RunKey, now: Timestamp) -> Result<RunView> {
        let mut backoff = self.backoff();
        loop {
            let there = |state: &State| state.run.is_visible();
            let state = self.load_run(key).await?.filter(there).ok_or(Error::NotFound)?;
            // Read behind the job, whose version moves with every run that is made: none is missed.
            let needed = self.run_rows(key.job).await?.iter().any(|other| other.run.needs(key.run));
            let decision = lifecycle::delete_run(&state.job.job, &state.run.run, needed, now)?;
            let next = Next::of(&state, decision);
            if let Ok(state) = self.write(&state, &next, now, Vec::new()).await? {
                return Ok(state.run.view(state.counted));
            }
            backoff.wait("the deletion of a run").await?;
        }
    }

    /// Asks for somebody to look at the run's list. A call that gets lost is made again by the sweeper.
    pub async fn call_ingester(&self, job: &Job, run: RunId, now: Timestamp) {
        let message = IngestRef { job: job.id, run, progress: 1 }.to_string();
        self.send_committed(job.caller, QueueName::Control, vec![message], Outbox::NONE, now).await;
    }
}
