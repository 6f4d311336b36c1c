//! Jobs: submitted, added to, changed, listed (SPEC 5.4).

use super::change::{NewEvent, Next};
use super::insert::RowPlace;
use super::item::Row;
use super::keys::{self, GSI1, GSI1_SK};
use super::read::Range;
use super::rows::{JobRow, RunRow, State};
use super::transact::{Condition, Unmet};
use super::uploads::UploadClaim;
use super::{Table, ingest, submits, tombstones};
use async_trait::async_trait;
use conveyor_domain::ingest::IngestEvent;
use conveyor_domain::lifecycle::Command;
use conveyor_domain::message::TaskRef;
use conveyor_domain::{
    CallerId, Job, JobId, Run, RunId, RunStats, TaskId, TaskInput, Timestamp, shards, timeline,
};
use conveyor_store::port::{
    ActiveRun, Added, ChangedRuns, JobStore, JobView, JobsQuery, Once, RunKey, RunView, StartRun, Submission,
};
use conveyor_store::{Error, Result};
use futures::{StreamExt, TryStreamExt, stream};

/// Reads of one answer that are under way at once.
pub const READS_INFLIGHT: usize = 16;
/// Additions that are under way, or were given up, in one run.
const HOLES_MAX: usize = 256;

impl Table {
    /// What a submit makes visible, in one transaction.
    async fn make_visible(&self, submission: &Submission) -> Result<()> {
        let Submission { job, run, tasks, list, once } = submission;
        let now = job.created;
        let mut events = vec![NewEvent::Lifecycle(timeline::submitted(job, run))];
        if let Some(list) = list {
            let accepted = IngestEvent::Accepted { source: list.source.clone() };
            let log = std::iter::once(&accepted).chain(&list.log).cloned();
            events.extend((0..).zip(log).map(|(number, event)| NewEvent::Ingest(number, event)));
        }
        let mut run_row = RunRow::new(run, job.spec.task_shard_count);
        run_row.logged = ingest::logged(&events);
        let source = list.as_ref().map(|list| &list.source).or(job.spec.list_of_runs());
        let mut job_row = JobRow::new(job, source.map(|source| source.upload));
        let events = self.event_rows(&mut job_row, run.id, &events, now)?;
        let mut backoff = self.backoff();
        loop {
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
            writes.extend(self.records_beside(job, run, now)?);
            let answered = writes.len();
            writes.extend(self.answer(once.as_ref(), || new_view(job, run))?);
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

    /// Takes indexes for an addition, so that nobody else writes there.
    async fn reserve(&self, job: JobId, command: &Command, count: u32) -> Result<(State, u32)> {
        let mut backoff = self.backoff();
        loop {
            let state = self.load(job).await?.ok_or(Error::NotFound)?;
            // Whether it may be added at all is found out before anything is written.
            let decided = Next::decided(&state, command, state.run.run.updated)?;
            if state.run.holes.len() >= HOLES_MAX {
                let detail = "too many additions to this job are under way, or were given up";
                return Err(Error::Unavailable(detail.to_owned()));
            }
            let first = state.run.run.next_index;
            let mut run = state.run.clone();
            run.holes.push((first, first + count));
            run.run.next_index = decided.run.run.next_index;
            run.version += 1;
            if self.put_if(run.encode()?, Condition::version(state.run.version)).await? {
                return Ok((State { run, ..state }, first));
            }
            backoff.wait("an addition").await?;
        }
    }

    /// Counts an addition whose rows are there.
    async fn count_addition(
        &self,
        job: JobId,
        command: &Command,
        hole: Option<(u32, u32)>,
        once: Option<&Once>,
        now: Timestamp,
    ) -> Result<State> {
        let mut backoff = self.backoff();
        loop {
            let state = self.load(job).await?.ok_or(Error::NotFound)?;
            let mut next = Next::decided(&state, command, now)?;
            // Taken already.
            next.run.run.next_index = state.run.run.next_index;
            if let Some(hole) = hole {
                let Some(place) = next.run.holes.iter().position(|open| *open == hole) else {
                    return Err(Error::Conflict("the addition was given up meanwhile".to_owned()));
                };
                next.run.holes.remove(place);
            }
            let view =
                || State { job: next.job.clone(), run: next.run.clone(), counted: state.counted }.view();
            let answer = self.answer(once, view)?;
            match self.write(&state, &next, now, answer).await? {
                Ok(state) => return Ok(state),
                Err(unmet) if once.is_some() && unmet.is_last() => return Err(Once::lost()),
                Err(_) => {}
            }
            backoff.wait("an addition").await?;
        }
    }
}

/// A job that is made, as it is in that moment.
pub fn new_view(job: &Job, run: &Run) -> JobView {
    let stats = RunStats { total: run.total, ..RunStats::default() };
    JobView { job: job.clone(), latest: RunView { run: run.clone(), stats } }
}

/// What it means that there is something in the place of a job that was about to be made. Only a repeat has the same random
/// id: the first one stands; unless it was deleted and removed since. Then whatever was written for it is for a sweep.
pub fn first_stands(unmet: &Unmet) -> Result<()> {
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
    fn task_shards(&self, expected_tasks: u64, open: bool) -> u32 {
        shards::task_shards(expected_tasks, open).max(self.task_shards_min)
    }

    async fn submit(&self, submission: Submission) -> Result<Vec<TaskRef>> {
        let Submission { job, run, tasks, .. } = &submission;
        let shards = job.spec.task_shard_count;
        self.latest.learn(job.created);
        if !tasks.is_empty() {
            self.mark_submitting(&submission).await?;
            let place = RowPlace { key: RunKey { job: job.id, run: run.id }, seed: run.id_seed, shards };
            self.insert_tasks(place, tasks, job.created).await?;
        }
        self.make_visible(&submission).await?;
        // Nobody works on what runs are made of.
        if run.is_template() {
            return Ok(Vec::new());
        }
        self.send_refs(run.id, refs(run.id_seed, shards, tasks.iter().map(|(index, _)| *index)), job.created)
            .await;
        Ok(Vec::new())
    }

    async fn add_tasks(
        &self,
        job: JobId,
        tasks: Vec<TaskInput>,
        last_batch: bool,
        run_tasks_max: u32,
        once: Option<Once>,
        now: Timestamp,
    ) -> Result<Added> {
        self.latest.learn(now);
        let count = u32::try_from(tasks.len()).map_err(|_| Error::Corrupt("task count".to_owned()))?;
        let command = Command::AddTasks { count, last_batch, run_tasks_max };
        if count == 0 {
            let state = self.count_addition(job, &command, None, once.as_ref(), now).await?;
            return Ok(Added { view: state.view(), unsent: Vec::new() });
        }
        let (reserved, first) = self.reserve(job, &command, count).await?;
        let Run { id, id_seed: seed, .. } = reserved.run.run;
        let shards = reserved.run.shards;
        let rows: Vec<_> = (first..).zip(tasks).collect();
        self.insert_tasks(RowPlace { key: RunKey { job, run: id }, seed, shards }, &rows, now).await?;
        let state =
            self.count_addition(job, &command, Some((first, first + count)), once.as_ref(), now).await?;
        self.send_refs(id, refs(seed, shards, first..first + count), now).await;
        Ok(Added { view: state.view(), unsent: Vec::new() })
    }

    async fn start_run(&self, start: StartRun, now: Timestamp) -> Result<JobView> {
        self.latest.learn(now);
        Ok(self.start(start, now).await?.view())
    }

    async fn apply(&self, job: JobId, command: Command, now: Timestamp) -> Result<JobView> {
        self.latest.learn(now);
        Ok(self.change(job, &command, now).await?.view())
    }

    async fn delete_run(&self, key: RunKey, now: Timestamp) -> Result<RunView> {
        self.latest.learn(now);
        self.delete_one_run(key, now).await
    }

    async fn any_job(&self, job: JobId) -> Result<Option<JobView>> {
        Ok(self.load(job).await?.map(State::view))
    }

    async fn job(&self, caller: CallerId, job: JobId) -> Result<Option<JobView>> {
        let state = self.load(job).await?.filter(|state| state.job.job.caller == caller);
        Ok(state.map(State::view))
    }

    async fn jobs(&self, query: JobsQuery) -> Result<Vec<JobView>> {
        let wanted = query.limit as usize;
        // One at a time below the id that is named; ids are of one length.
        let high = query.before.map_or_else(|| "~".to_owned(), |job| job.to_string());
        let range = Range::up_to(keys::jobs_of(query.caller), high)
            .in_index(GSI1)
            .descending()
            .by(query.limit.saturating_add(1));
        let (mut views, mut from) = (Vec::new(), None);
        loop {
            let step = self.step(&range, from).await?;
            let ids: Vec<JobId> =
                step.items.iter().map(|item| Row(item).parsed(GSI1_SK)).collect::<Result<_>>()?;
            let older = ids.into_iter().filter(|id| Some(*id) != query.before);
            let loads = stream::iter(older.map(|id| self.load(id))).buffered(READS_INFLIGHT);
            let found: Vec<Option<State>> = loads.try_collect().await?;
            let fits = |state: &State| query.admits(&state.job.job);
            views.extend(found.into_iter().flatten().filter(fits).map(State::view));
            from = step.next;
            if views.len() >= wanted || from.is_none() {
                views.truncate(wanted);
                return Ok(views);
            }
        }
    }

    async fn run(&self, job: JobId, run: RunId) -> Result<Option<RunView>> {
        let key = RunKey { job, run };
        let counted = self.counted(key).await?;
        let there = self.find_run(key).await?.filter(RunRow::is_visible);
        Ok(there.map(|row| row.view(counted)))
    }

    async fn runs(&self, job: JobId, before: Option<u32>, limit: u32) -> Result<Vec<RunView>> {
        let mut rows = self.run_rows(job).await?;
        rows.retain(|row| before.is_none_or(|before| row.run.sequence < before));
        rows.retain(RunRow::is_visible);
        rows.sort_by_key(|row| std::cmp::Reverse(row.run.sequence));
        rows.truncate(limit as usize);
        // Counted first, read again afterwards: never more done than there is.
        let views = rows.into_iter().map(|row| async move { self.run(job, row.run.id).await });
        let views: Vec<Option<RunView>> = stream::iter(views).buffered(READS_INFLIGHT).try_collect().await?;
        Ok(views.into_iter().flatten().collect())
    }

    async fn active_runs(&self) -> Result<Vec<ActiveRun>> {
        self.running_now().await
    }

    fn tell(&self, now: Timestamp) {
        self.latest.learn(now);
    }

    async fn changed_runs(&self, since: Timestamp) -> Result<ChangedRuns> {
        self.changed_since(since).await
    }

    async fn ready(&self) -> Result<()> {
        self.get_stale(&keys::upload(conveyor_domain::UploadId::from_bytes([0; 16]))).await.map(drop)
    }
}
