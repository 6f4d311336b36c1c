//! Jobs: submitted, added to, changed, listed (SPEC 5.4).

use super::change::{NewEvent, Next};
use super::holes::Hole;
use super::insert::RowPlace;
use super::item::{Item, Row, corrupt};
use super::keys::{self, GSI1, GSI1_SK};
use super::listing::Wanted;
use super::read::Range;
use super::rows::{JobRow, Loaded, RunRow, State};
use super::transact::{Condition, Unmet};
use super::unsent::Outbox;
use super::uploads::UploadClaim;
use super::{Table, ingest, submits, tombstones};
use async_trait::async_trait;
use conveyor_domain::job::beside::Change;
use conveyor_domain::{
    CallerId, Command, Job, JobId, JobStatus, Refusal, Run, RunId, RunStats, TaskId, TaskInput, TaskRef,
    Timestamp, limits, timeline,
};
use conveyor_store::port::{
    ChangeCursor, ChangedRuns, JobStore, JobView, JobsQuery, Once, Page, RunKey, RunView, RunsQuery,
    StartRun, Submission, SubmittedList,
};
use conveyor_store::{Error, Result};

/// Reads of one answer that are under way at once.
pub const READS_INFLIGHT: usize = 16;

impl Table {
    /// What a submit makes visible, in one transaction.
    async fn make_visible(&self, submission: &Submission, outbox: &Outbox) -> Result<()> {
        let Submission { job, run, tasks, list, once } = submission;
        let (now, shards) = (job.created, job.spec.task_shard_count);
        let mut run_row = match run {
            Some(run) => RunRow::new(run, shards),
            None => {
                let template = job.template().ok_or_else(|| corrupt("run of a job"))?;
                RunRow::of_template(&template, shards)
            }
        };
        let mut events = vec![NewEvent::Lifecycle(timeline::submitted(job, run_row.run.total))];
        if let Some(list) = list {
            events.extend((0..).zip(list.events()).map(|(number, event)| NewEvent::Ingest(number, event)));
        }
        run_row.logged = ingest::logged(&events);
        let source = list.as_ref().map(|list| &list.source).or(job.spec.list_of_runs());
        let mut job_row = JobRow::new(job, source.map(|source| source.upload));
        let events = self.event_rows(&mut job_row, job.latest_run, &events, now)?;
        let mut backoff = self.backoff();
        loop {
            if is_unread(list) && self.find_job(job.id).await?.is_some() {
                // Only a repeat has the same random id: the first one stands.
                return Ok(());
            }
            let claim = match source {
                Some(source) => Some(self.claim_upload(source, job.id, now).await?),
                None => None,
            };
            let mut writes = vec![
                self.put(job_row.encode()?, Some(Condition::absent()))?,
                self.put(run_row.encode()?, Some(Condition::absent()))?,
            ];
            for event in &events {
                writes.push(self.put(event.clone(), Some(Condition::absent()))?);
            }
            if !tasks.is_empty() {
                writes.push(self.delete(&keys::submitting(job.id), Some(submits::not_doomed()))?);
            }
            if let Some(UploadClaim { writes: claims }) = claim {
                writes.extend(claims);
            }
            let (after, stats) = ((job, run.as_ref()), RunStats::default());
            writes.extend(self.records_beside(Change { before: None, after, stats, now })?);
            writes.extend(self.outbox_write(outbox)?);
            let answered = writes.len();
            writes.extend(self.answer(once.as_ref(), || new_view(job, run.as_ref()))?);
            let Err(unmet) = self.transact(writes).await? else { return Ok(()) };
            if unmet.at(0).is_some() {
                first_stands(&unmet)?;
                // With the job there, our marker says nothing true.
                return self.delete_all(&[keys::submitting(job.id).attributes()]).await;
            }
            if unmet.at(2 + events.len()).is_some() && !tasks.is_empty() {
                return Err(Error::Conflict("the submit took too long; its rows were removed".to_owned()));
            }
            if unmet.at(answered).is_some() {
                return Err(Once::lost());
            }
            // The upload was claimed by somebody else at the same time, or replaced: look at it again.
            backoff.wait("a submit").await?;
        }
    }

    /// A job that tasks may be added to.
    async fn load_fired(&self, job: JobId) -> Result<State> {
        match self.load(job).await?.ok_or(Error::NotFound)? {
            Loaded::Run(state) => Ok(*state),
            Loaded::Unfired(row) if row.job.status == JobStatus::Deleted => {
                Err(Error::Refused(Refusal::JobDeleted))
            }
            Loaded::Unfired(_) => Err(Error::Refused(Refusal::JobNotOpen)),
        }
    }

    /// Takes indexes for an addition, so that nobody else writes there.
    async fn reserve(
        &self,
        job: JobId,
        command: &Command,
        count: u32,
        now: Timestamp,
    ) -> Result<(State, Hole)> {
        let (mut backoff, mut tidied) = (self.backoff(), false);
        loop {
            let state = self.load_fired(job).await?;
            // Whether it may be added at all is found out before anything is written.
            let decided = Next::decided(&state, command, state.run.run.updated)?;
            if state.run.holes.len() >= limits::HOLES_TIDY && !std::mem::replace(&mut tidied, true) {
                if let Err(error) = self.close_holes(&state, now).await {
                    tracing::warn!(%job, %error, "additions that were given up are not closed yet");
                }
                continue;
            }
            if state.run.holes.len() >= limits::HOLES_MAX {
                let detail = "too many additions to this job are under way, or were given up";
                return Err(Error::Unavailable(detail.to_owned()));
            }
            let first = state.run.run.next_index;
            let mut run = state.run.clone();
            let hole = Hole { first, end: first + count, since: Some(now) };
            run.holes.push(hole);
            run.run.next_index = decided.run.run.next_index;
            run.version += 1;
            if self.put_if(run.encode()?, Condition::version(state.run.version)).await? {
                return Ok((State { run, ..state }, hole));
            }
            backoff.wait("an addition").await?;
        }
    }

    /// Counts an addition whose rows are there.
    async fn count_addition(
        &self,
        job: JobId,
        command: &Command,
        adding: Option<(Hole, &Outbox)>,
        once: Option<&Once>,
        now: Timestamp,
    ) -> Result<State> {
        let mut backoff = self.backoff();
        loop {
            let state = self.load_fired(job).await?;
            let mut next = Next::decided(&state, command, now)?;
            // Taken already.
            next.run.run.next_index = state.run.run.next_index;
            let mut more = Vec::new();
            if let Some((hole, outbox)) = adding {
                let Some(place) = next.run.holes.iter().position(|open| open.is_open_at(&hole)) else {
                    return Err(Error::Conflict("the addition was given up meanwhile".to_owned()));
                };
                next.run.holes.remove(place);
                more.extend(self.outbox_write(outbox)?);
            }
            let view =
                || State { job: next.job.clone(), run: next.run.clone(), counted: state.counted }.view();
            more.extend(self.answer(once, view)?);
            match self.write(&state, &next, now, more).await? {
                Ok(state) => return Ok(state),
                Err(unmet) if once.is_some() && unmet.is_last() => return Err(Once::lost()),
                Err(_) => {}
            }
            backoff.wait("an addition").await?;
        }
    }
}

/// Its list is left to an ingester.
fn is_unread(list: &Option<Box<SubmittedList>>) -> bool {
    list.as_ref().is_some_and(|list| list.is_unread())
}

/// A job that is made, as it is in that moment.
fn new_view(job: &Job, run: Option<&Run>) -> JobView {
    let stats = |run: &Run| RunStats { total: run.total, ..RunStats::default() };
    JobView { job: job.clone(), latest: run.map(|run| RunView { run: run.clone(), stats: stats(run) }) }
}

/// What it means that there is something in the place of a job that was about to be made. Only a repeat has the same random
/// id: the first one stands; unless it was deleted and removed since. Then whatever was written for it is for a sweep.
fn first_stands(unmet: &Unmet) -> Result<()> {
    if unmet.at(0).flatten().is_some_and(tombstones::is_tombstone) {
        return Err(Error::Conflict("a job of this id was deleted".to_owned()));
    }
    Ok(())
}

pub fn refs(seed: RunId, shards: u32, indexes: impl Iterator<Item = u32>) -> impl Iterator<Item = TaskRef> {
    indexes.map(move |index| TaskRef { task: TaskId::of(seed, index), task_shard_count: shards })
}

#[async_trait]
impl JobStore for Table {
    async fn submit(&self, submission: Submission) -> Result<()> {
        let Submission { job, run, tasks, list, .. } = &submission;
        let (shards, seed) = (job.spec.task_shard_count, job.latest_run);
        let key = RunKey { job: job.id, run: seed };
        self.latest.learn(job.created);
        if !tasks.is_empty() {
            self.mark_submitting(&submission).await?;
            self.insert_tasks(RowPlace { key, seed, shards }, tasks, job.created).await?;
        }
        // The tasks of a template are not to be done.
        let indexes = || tasks.iter().map(|(index, _)| *index).filter(|_| run.is_some());
        let outbox = self.outbox(key, indexes(), job.created);
        self.make_visible(&submission, &outbox).await?;
        let refs = refs(seed, shards, indexes());
        self.send_refs(job.caller, key.run, refs, outbox, job.created).await;
        if is_unread(list) {
            self.call_ingester(job, key.run, job.created).await;
        }
        Ok(())
    }

    async fn add_tasks(
        &self,
        job: JobId,
        tasks: Vec<TaskInput>,
        last_batch: bool,
        run_tasks_max: u32,
        once: Option<Once>,
        now: Timestamp,
    ) -> Result<JobView> {
        self.latest.learn(now);
        let count = u32::try_from(tasks.len()).map_err(|_| Error::Corrupt("task count".to_owned()))?;
        let command = Command::AddTasks { count, last_batch, run_tasks_max };
        if count == 0 {
            let state = self.count_addition(job, &command, None, once.as_ref(), now).await?;
            return Ok(state.view());
        }
        let (reserved, hole) = self.reserve(job, &command, count, now).await?;
        let Run { id, id_seed: seed, .. } = reserved.run.run;
        let shards = reserved.run.shards;
        let (key, indexes) = (RunKey { job, run: id }, hole.first..hole.end);
        let rows: Vec<_> = indexes.clone().zip(tasks).collect();
        self.insert_tasks(RowPlace { key, seed, shards }, &rows, now).await?;
        let outbox = self.outbox(key, indexes.clone(), now);
        let state = self.count_addition(job, &command, Some((hole, &outbox)), once.as_ref(), now).await?;
        self.send_refs(state.job.job.caller, id, refs(seed, shards, indexes), outbox, now).await;
        Ok(state.view())
    }

    async fn start_run(&self, start: StartRun, now: Timestamp) -> Result<JobView> {
        self.latest.learn(now);
        Ok(self.start(start, now).await?.view())
    }

    async fn apply(&self, job: JobId, command: Command, now: Timestamp) -> Result<JobView> {
        self.latest.learn(now);
        self.change(job, &command, now).await
    }

    async fn delete_run(&self, key: RunKey, now: Timestamp) -> Result<RunView> {
        self.latest.learn(now);
        self.delete_one_run(key, now).await
    }

    async fn job(&self, caller: Option<CallerId>, job: JobId) -> Result<Option<JobView>> {
        let is_theirs = |latest: &Loaded| caller.is_none_or(|caller| latest.job().job.caller == caller);
        Ok(self.load(job).await?.filter(is_theirs).map(Loaded::view))
    }

    async fn jobs(&self, query: JobsQuery) -> Result<Page<JobView, JobId>> {
        let JobsQuery { before, limit, look, .. } = query;
        // One at a time below the id that is named; ids are of one length.
        let high = before.map_or_else(|| "~".to_owned(), |job| job.to_string());
        let range = Range::up_to(keys::jobs_of(query.caller), high).in_index(GSI1);
        let seen = |item: &Item| {
            let row = Row(item);
            // Tables that an earlier version made may not have the status in the index.
            let status = row.find_text("st")?.zip(query.status);
            Ok((row.parsed(GSI1_SK)?, status.is_none_or(|(is, asked)| is == asked.as_str())))
        };
        let load = |job: JobId| async move {
            let is_filtered = query.status.is_some() || query.scheduled.is_some();
            // One row tells whether the others are needed.
            if is_filtered {
                let row = self.find_job(job).await;
                if matches!(row, Err(Error::Corrupt(_))) {
                    self.damaged.remember(job, ());
                }
                if !row?.is_some_and(|row| query.admits(&row.job)) {
                    return Ok(None);
                }
            }
            let state = self.load(job).await;
            if matches!(state, Err(Error::Corrupt(_))) {
                self.damaged.remember(job, ());
            }
            Ok(state?.filter(|latest| query.admits(&latest.job().job)).map(Loaded::view))
        };
        self.newest(range, Wanted { what: "job", before, limit, look }, seen, load).await
    }

    async fn run(&self, job: JobId, run: RunId) -> Result<Option<RunView>> {
        let key = RunKey { job, run };
        let counted = self.counted(key).await?;
        let there = self.find_run(key).await?.filter(RunRow::is_visible);
        Ok(there.map(|row| row.view(counted)))
    }

    async fn runs(&self, query: RunsQuery) -> Result<Page<RunView, RunId>> {
        let RunsQuery { job, before, limit, look } = query;
        let range = match before {
            None => Range::of(keys::job_partition(job), keys::RUNS),
            Some(before) => {
                let keys::RowKey { pk, sk } = keys::run(job, before);
                Range::between(pk, keys::RUNS.to_owned(), sk)
            }
        };
        let seen = |item: &Item| {
            let row = RunRow::decode(item)?;
            Ok((row.run.id, row.is_visible()))
        };
        // Counted first, read again afterwards: never more done than there is.
        let load = |run: RunId| self.run(job, run);
        let mut page = self.newest(range, Wanted { what: "run", before, limit, look }, seen, load).await?;
        page.rows.sort_by_key(|view| std::cmp::Reverse(view.run.sequence));
        Ok(page)
    }

    async fn changed_runs(&self, since: Option<ChangeCursor>, now: Timestamp) -> Result<ChangedRuns> {
        self.latest.learn(now);
        match since {
            None => self.running(now).await,
            Some(ChangeCursor(since)) => self.changed_since(since, now).await,
        }
    }

    async fn ready(&self) -> Result<()> {
        self.get_stale(&keys::upload(conveyor_domain::UploadId::from_bytes([0; 16]))).await.map(drop)
    }
}
