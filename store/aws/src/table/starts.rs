//! Another run of a job that is there (SPEC 5.4, 6.19): rows first, which nobody sees, then one transaction that makes the run
//! visible, then refs.

use super::Table;
use super::change::NewEvent;
use super::counters::Counted;
use super::ingest::logged;
use super::insert::RowPlace;
use super::jobs::refs;
use super::rows::{JobRow, Loaded, RunRow, State};
use super::transact::Condition;
use super::unsent::Outbox;
use conveyor_domain::job::beside::Change;
use conveyor_domain::job::lifecycle::Decision;
use conveyor_domain::{Refusal, RunStats, Timestamp, lifecycle, timeline};
use conveyor_store::port::{Once, RunKey, StartRun};
use conveyor_store::{Error, Result};

impl Table {
    pub async fn start(&self, start: StartRun, now: Timestamp) -> Result<State> {
        let seen = self.load(start.job).await?.ok_or(Error::NotFound)?;
        // Whether it may be begun at all is found out before anything is written.
        self.decide_start(&seen, &start, now).await?;
        let job = &seen.job().job;
        let (seed, shards) =
            (seen.run().map_or(job.latest_run, |run| run.id_seed), job.spec.task_shard_count);
        let key = RunKey { job: start.job, run: start.run.id };
        if !start.tasks.is_empty() {
            self.insert_replayed(RowPlace { key, seed, shards }, start.tasks.clone(), now).await?;
        }
        let again = || start.tasks.iter().filter(|task| task.inherited.is_none()).map(|task| task.index);
        let outbox = self.outbox(key, again(), now);
        let state = self.make_run_visible(&start, &outbox, now).await?;
        self.send_refs(state.job.job.caller, key.run, refs(seed, shards, again()), outbox, now).await;
        if start.log.is_some() {
            self.call_ingester(&state.job.job, key.run, now).await;
        }
        Ok(state)
    }

    /// The run that it replays is read behind the job, whose version moves when a run of it is deleted.
    async fn decide_start(&self, seen: &Loaded, start: &StartRun, now: Timestamp) -> Result<Decision> {
        if let Some(run) = start.run.rerun_of.filter(|source| *source != seen.job().job.latest_run) {
            let source = self.load_run(RunKey { job: start.job, run }).await?;
            let source = source.filter(|source| source.run.is_visible());
            let source = source.ok_or(Error::Refused(Refusal::NoPriorRun))?;
            lifecycle::can_be_replayed(&source.run.run, now)?;
        }
        Ok(lifecycle::start_run(&seen.job().job, seen.run(), &start.run, now)?)
    }

    async fn make_run_visible(&self, start: &StartRun, outbox: &Outbox, now: Timestamp) -> Result<State> {
        let mut backoff = self.backoff();
        loop {
            let seen = match self.load(start.job).await?.ok_or(Error::NotFound)? {
                // Ours, although its answer was lost.
                Loaded::Run(state) if state.run.run.id == start.run.id => return Ok(*state),
                seen => seen,
            };
            let Decision { job, run } = self.decide_start(&seen, start, now).await?;
            let started = timeline::run_started(&seen.job().job, &job, &run);
            let mut events: Vec<_> = started.into_iter().map(NewEvent::Lifecycle).collect();
            events.extend(start.log.clone().map(|first| NewEvent::Ingest(0, first)));
            let row = seen.job();
            let mut run_row = RunRow::new(&run, job.spec.task_shard_count);
            let mut job_row = JobRow { job, version: row.version + 1, ..row.clone() };
            run_row.logged = logged(&events);
            run_row.first_event = row.events + 1;
            let events = self.event_rows(&mut job_row, run.id, &events, now)?;
            let mut writes = vec![
                self.put(job_row.encode()?, Some(Condition::version(row.version)))?,
                self.put(run_row.encode()?, Some(Condition::absent()))?,
            ];
            for event in events {
                writes.push(self.put(event, Some(Condition::absent()))?);
            }
            let (before, after) = (Some((&row.job, seen.run())), (&job_row.job, Some(&run)));
            writes.extend(self.records_beside(Change { before, after, stats: RunStats::default(), now })?);
            writes.extend(self.outbox_write(outbox)?);
            let started = State { job: job_row, run: run_row, counted: Counted::default() };
            writes.extend(self.answer(start.once.as_ref(), || started.clone().view())?);
            match self.transact(writes).await? {
                Ok(()) => return Ok(started),
                Err(unmet) if start.once.is_some() && unmet.is_last() => return Err(Once::lost()),
                Err(_) => {}
            }
            backoff.wait("the start of a run").await?;
        }
    }
}
