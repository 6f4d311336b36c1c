//! Jobs: the domain's decisions, each read, made and written in one transaction.

use super::codec::{from_json, job_status, to_json};
use super::latest::Latest;
use super::reader::Lane;
use super::runs::{self, StoredRun};
use super::tasks::EncodedTask;
use super::{Embedded, codec, events, ingest, probe, records, scan, tasks, tombstones, uploads, writer};
use crate::port::{
    ActiveRun, ChangeCursor, ChangedRuns, Error, JobStore, JobView, JobsQuery, Once, Page, Result, RunKey,
    RunView, RunsQuery, StartRun, Submission,
};
use async_trait::async_trait;
use conveyor_domain::job::beside::Change;
use conveyor_domain::job::lifecycle::{Decision, decide_latest, delete_run};
use conveyor_domain::{
    CallerId, Command, Job, JobId, JobSpec, RecordKind, Refusal, Run, RunId, RunStats, RunStatus,
    ScheduleChange, TaskInput, Timestamp, beside, lifecycle, limits, timeline,
};
use conveyor_turns::Turn;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::sync::Arc;

const COLUMNS: &str = "job_id, caller_id, status, latest_run_key, created_ms, updated_ms, doc";

/// A job row and a run of it: the latest, unless another was asked for. A scheduled job that has not fired has none.
#[derive(Clone, Debug)]
pub struct StoredJob {
    pub job: Job,
    pub run: Option<StoredRun>,
}

impl StoredJob {
    pub fn view(self, connection: &Connection) -> Result<JobView> {
        let latest = self.run.map(|run| runs::view(connection, run)).transpose()?;
        Ok(JobView { job: self.job, latest })
    }
}

fn decode(connection: &Connection, row: &Row<'_>) -> Result<StoredJob> {
    let (latest_run, run) = runs::latest(connection, row.get(3)?)?;
    let status: String = row.get(2)?;
    let doc: String = row.get(6)?;
    let job = Job {
        id: JobId::from_bytes(row.get(0)?),
        caller: CallerId::from_bytes(row.get(1)?),
        status: job_status(&status)?,
        latest_run,
        created: Timestamp(row.get(4)?),
        updated: Timestamp(row.get(5)?),
        spec: Arc::new(from_json::<JobSpec>(&doc)?),
    };
    Ok(StoredJob { job, run })
}

pub fn find(connection: &Connection, job: JobId) -> Result<Option<StoredJob>> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT {COLUMNS} FROM jobs WHERE job_id = ?1"))?;
    statement.query_row([job.to_bytes()], |row| Ok(decode(connection, row))).optional()?.transpose()
}

/// Reads, decides, writes. The caller is inside a transaction.
fn apply(
    connection: &Connection,
    latest: &Latest,
    job: JobId,
    command: &Command,
    now: Timestamp,
) -> Result<StoredJob> {
    let stored = find(connection, job)?.ok_or(Error::NotFound)?;
    transition(connection, latest, stored, command, now)
}

/// Computes anew when schedules fire that a clock which was days ahead has put off. A job that cannot be read costs itself.
pub fn realign(connection: &Connection, latest: &Latest, now: Timestamp) -> Result<()> {
    let mut late = connection.prepare(
        "SELECT id FROM records
         WHERE kind = ?1 AND CASE WHEN json_valid(doc) THEN json_extract(doc, '$.next') > ?2 END",
    )?;
    let values = params![RecordKind::ScheduledJob.as_str(), now.after(limits::NOT_BEFORE_MAX).0];
    let job = |row: &Row<'_>| Ok(row.get_ref(0)?.as_str().ok().and_then(|id| id.parse::<JobId>().ok()));
    let jobs: Vec<Option<JobId>> = late.query_map(values, job)?.collect::<rusqlite::Result<_>>()?;
    let realign = Command::Schedule(ScheduleChange::Realign);
    for job in jobs.into_iter().flatten() {
        let outcome =
            writer::in_savepoint(connection, |connection| apply(connection, latest, job, &realign, now));
        match outcome {
            Ok(_) | Err(Error::NotFound | Error::Refused(_)) => {}
            Err(Error::Corrupt(detail)) => tracing::error!(%job, detail, "its schedule cannot be read"),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Decides a command on rows that were read in this transaction, writes the outcome, and what happened into the timeline.
pub fn transition(
    connection: &Connection,
    latest: &Latest,
    stored: StoredJob,
    command: &Command,
    now: Timestamp,
) -> Result<StoredJob> {
    let stats = stored.run.as_ref().map(|run| runs::stats(connection, run)).transpose()?.unwrap_or_default();
    let run = stored.run.as_ref().map(|stored| &stored.run);
    let had_ended = run.is_none_or(|run| run.status.is_terminal());
    let next = decide_latest(&stored.job, run, &stats.counts, command, now)?;
    let written = write(connection, latest, stored, next, stats, now)?;
    let has_ended = |run: &Run| !had_ended && run.status.is_terminal();
    if let Some(StoredRun { run, .. }) = &written.run
        && has_ended(run)
        && run.is_ingesting()
    {
        // The ingest has to log what it wrote; the message that it works on may be gone.
        ingest::call(connection, run, now)?;
    }
    Ok(written)
}

/// Writes what was decided on these rows, and what happened into the timeline.
fn write(
    connection: &Connection,
    latest: &Latest,
    StoredJob { job, run: stored }: StoredJob,
    (next, next_run): (Job, Option<Run>),
    stats: RunStats,
    now: Timestamp,
) -> Result<StoredJob> {
    if next != job {
        connection
            .prepare_cached("UPDATE jobs SET status = ?2, updated_ms = ?3, doc = ?4 WHERE job_id = ?1")?
            .execute(params![
                job.id.to_bytes(),
                next.status.as_str(),
                next.updated.0,
                to_json(next.spec.as_ref())?,
            ])?;
    }
    // Limits are the job's, and workers look at runs that changed.
    if let Some((StoredRun { key, run }, next_run)) = stored.as_ref().zip(next_run.as_ref())
        && (next_run != run || next.spec != job.spec)
    {
        runs::update(connection, latest, *key, next_run)?;
    }
    let (before, after) = ((&job, stored.as_ref().map(|stored| &stored.run)), (&next, next_run.as_ref()));
    let of = RunKey { job: job.id, run: after.1.map_or(job.latest_run, |run| run.id) };
    for event in timeline::changes(before, after) {
        events::happened(connection, of, &event, now)?;
    }
    write_beside(connection, latest, Change { before: Some(before), after, stats, now })?;
    let run = stored.zip(next_run).map(|(StoredRun { key, .. }, run)| StoredRun { key, run });
    Ok(StoredJob { job: next, run })
}

/// Begins another run. All of it is one transaction.
fn start(
    connection: &Connection,
    latest: &Latest,
    start: &StartRun,
    rows: &[EncodedTask],
    now: Timestamp,
) -> Result<StoredJob> {
    let StoredJob { job, run: earlier } = find(connection, start.job)?.ok_or(Error::NotFound)?;
    let earlier = earlier.as_ref().map(|stored| &stored.run);
    if let Some(source) = start.run.rerun_of.filter(|source| *source != job.latest_run) {
        let source = runs::find_visible(connection, RunKey { job: job.id, run: source })?;
        let source = source.ok_or(Error::Refused(Refusal::NoPriorRun))?;
        lifecycle::can_be_replayed(&source.run, now)?;
    }
    let Decision { job: next, run } = lifecycle::start_run(&job, earlier, &start.run, now)?;
    let key = runs::insert(connection, latest, &run)?;
    connection
        .prepare_cached(
            "UPDATE jobs SET status = ?2, updated_ms = ?3, doc = ?4, latest_run_key = ?5 WHERE job_id = ?1",
        )?
        .execute(params![
            job.id.to_bytes(),
            next.status.as_str(),
            next.updated.0,
            to_json(next.spec.as_ref())?,
            key
        ])?;
    let of = RunKey { job: job.id, run: run.id };
    for event in timeline::run_started(&job, &next, &run) {
        events::happened(connection, of, &event, now)?;
    }
    if let Some(first) = &start.log {
        events::logged(connection, of, 0, first, now)?;
        ingest::call(connection, &run, now)?;
    }
    let stored = StoredRun { key, run };
    tasks::put(connection, &stored, rows, now)?;
    let (before, after) = (Some((&job, earlier)), (&next, Some(&stored.run)));
    write_beside(connection, latest, Change { before, after, stats: RunStats::default(), now })?;
    let started = StoredJob { job: next, run: Some(stored) };
    answer(connection, start.once.as_ref(), || started.clone().view(connection))?;
    Ok(started)
}

/// Writes the records that go with a change. One that was decided before the clock was set back may put something off anew:
/// whoever looks next finds out.
fn write_beside(connection: &Connection, latest: &Latest, change: Change<'_>) -> Result<()> {
    latest.learn(change.now);
    for record in beside::records(change) {
        if !records::write(connection, &record)? {
            return Err(Error::Conflict(format!("a record of {:?} is another by now", record.key().kind)));
        }
    }
    Ok(())
}

/// Deletes one run. Whoever reads its list finds out when it looks: there is nothing to settle for.
fn delete(connection: &Connection, latest: &Latest, key: RunKey, now: Timestamp) -> Result<RunView> {
    let run = runs::find_visible(connection, key)?.ok_or(Error::NotFound)?;
    let job = find(connection, key.job)?.ok_or(Error::NotFound)?.job;
    let needed = runs::is_needed(connection, key)?;
    let next = delete_run(&job, &run.run, needed, now)?;
    let stats = runs::stats(connection, &run)?;
    let (stored, next) = (StoredJob { job, run: Some(run) }, (next.job, Some(next.run)));
    let deleted = write(connection, latest, stored, next, stats, now)?.run;
    runs::view(connection, deleted.ok_or(Error::NotFound)?)
}

/// Writes a job and its first run, or its template.
pub fn insert(connection: &Connection, latest: &Latest, job: &Job, first: Option<&Run>) -> Result<StoredRun> {
    let template = || job.template().map(|template| template.stored());
    let run = first.cloned().or_else(template).ok_or_else(|| codec::corrupt("run of a job"))?;
    let stored = StoredRun { key: runs::insert(connection, latest, &run)?, run };
    connection
        .prepare_cached(&format!("INSERT INTO jobs ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"))?
        .execute(params![
            job.id.to_bytes(),
            job.caller.to_bytes(),
            job.status.as_str(),
            stored.key,
            job.created.0,
            job.updated.0,
            to_json(job.spec.as_ref())?,
        ])?;
    let change = Change { before: None, after: (job, first), stats: RunStats::default(), now: job.created };
    write_beside(connection, latest, change)?;
    Ok(stored)
}

fn submit(connection: &Connection, latest: &Latest, s: &Submission, rows: &[EncodedTask]) -> Result<()> {
    if find(connection, s.job.id)?.is_some() {
        // Only a repeat has the same random id: the first one stands.
        return Ok(());
    }
    tombstones::refuse(connection, s.job.id)?;
    let now = s.job.created;
    let stored = insert(connection, latest, &s.job, s.run.as_ref())?;
    let of = RunKey { job: s.job.id, run: stored.run.id };
    events::happened(connection, of, &timeline::submitted(&s.job, stored.run.total), now)?;
    if let Some(list) = &s.list {
        uploads::claim(connection, &list.source, s.job.id, now)?;
        for (number, event) in (0..).zip(list.events()) {
            events::logged(connection, of, number, &event, now)?;
        }
        if list.is_unread() {
            ingest::call(connection, &stored.run, now)?;
        }
    }
    if let Some(source) = s.job.spec.list_of_runs() {
        uploads::claim(connection, source, s.job.id, now)?;
    }
    // The tasks of a template are not to be done.
    match &s.run {
        Some(_) => tasks::put(connection, &stored, rows, now)?,
        None => drop(tasks::put_rows(connection, stored.key, rows, now)?),
    }
    let run = s.run.as_ref().map(|_| stored);
    answer(connection, s.once.as_ref(), || StoredJob { job: s.job.clone(), run }.view(connection))
}

/// Writes the answer of an operation that is to happen once; of one whose claim is lost, nothing happens. The caller is inside
/// the transaction of the operation.
pub fn answer(
    connection: &Connection,
    once: Option<&Once>,
    view: impl FnOnce() -> Result<JobView>,
) -> Result<()> {
    let Some(once) = once else { return Ok(()) };
    // Not `write` alone, which takes its own version for done: then what was done once would be done again.
    if !records::is_at(connection, &once.key, once.expected)?
        || !records::write(connection, &once.write(&view()?))?
    {
        return Err(Once::lost());
    }
    Ok(())
}

fn page(connection: &Connection, query: JobsQuery) -> Result<Page<JobView, JobId>> {
    let before = query.before.map_or([0xff; 16], JobId::to_bytes);
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM jobs WHERE caller_id = ?1 AND job_id < ?2 ORDER BY job_id DESC"
    ))?;
    let rows = statement.query(params![query.caller.to_bytes(), before])?;
    let id = |row: &Row<'_>| Ok(JobId::from_bytes(row.get(0)?));
    scan::page(rows, "job", (query.limit, query.look), id, |row| {
        let status: String = row.get(2)?;
        if query.status.is_some_and(|asked| asked.as_str() != status) {
            return Ok(None);
        }
        let stored = Some(decode(connection, row)?).filter(|stored| query.admits(&stored.job));
        stored.map(|stored| stored.view(connection)).transpose()
    })
}

/// Like its run, a job that cannot be read is left out.
fn active_run(connection: &Connection, stored: StoredRun) -> Result<Option<ActiveRun>> {
    let run = stored.run.id;
    let job = find(connection, stored.run.job)
        .and_then(|found| found.ok_or_else(|| codec::corrupt("job of a run")));
    match job {
        Ok(StoredJob { job, .. }) => {
            let RunView { run, stats } = runs::view(connection, stored)?;
            Ok(Some(ActiveRun { job, run, stats }))
        }
        Err(Error::Corrupt(detail)) => {
            tracing::error!(%run, detail, "a run cannot be read and is left out");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl Embedded {
    /// A turn to write rows, if they are heavy. The writer takes operations in their order: one caller's long ones must not
    /// all be in front of everybody else's.
    async fn turn(&self, caller: CallerId, rows: &[EncodedTask]) -> Option<Turn> {
        match tasks::are_heavy(rows) {
            true => Some(self.heavy.turn(caller).await),
            false => None,
        }
    }

    /// The same for whoever has this job.
    async fn turn_of(&self, job: JobId, rows: &[EncodedTask]) -> Result<Option<Turn>> {
        if !tasks::are_heavy(rows) {
            return Ok(None);
        }
        let view = self.job(None, job).await?;
        Ok(match view {
            Some(view) => self.turn(view.job.caller, rows).await,
            None => None,
        })
    }
}

#[async_trait]
impl JobStore for Embedded {
    async fn submit(&self, submission: Submission) -> Result<()> {
        // The writer's time is everybody's: what can be prepared outside of it, is.
        let rows = tasks::encode(submission.tasks.iter().map(|(index, input)| (*index, input)))?;
        let latest = self.latest.clone();
        let turn = self.turn(submission.job.caller, &rows).await;
        self.write_in_turn(turn, move |connection| submit(connection, &latest, &submission, &rows)).await?;
        self.announce();
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
        let count = u32::try_from(tasks.len()).map_err(|_| codec::corrupt("task count"))?;
        let mut rows = tasks::encode((0..).zip(&tasks))?;
        drop(tasks);
        let latest = self.latest.clone();
        let turn = self.turn_of(job, &rows).await?;
        let view = self
            .write_in_turn(turn, move |connection| {
                let command = Command::AddTasks { count, last_batch, run_tasks_max };
                let stored = apply(connection, &latest, job, &command, now)?;
                let run = stored.run.as_ref().ok_or(Error::Refused(Refusal::JobNotOpen))?;
                tasks::shift(&mut rows, run.run.next_index - count);
                tasks::put(connection, run, &rows, now)?;
                let view = stored.view(connection)?;
                answer(connection, once.as_ref(), || Ok(view.clone()))?;
                Ok(view)
            })
            .await?;
        self.announce();
        Ok(view)
    }

    async fn start_run(&self, run: StartRun, now: Timestamp) -> Result<JobView> {
        let rows = tasks::encode_replayed(&run.tasks)?;
        let latest = self.latest.clone();
        let turn = self.turn_of(run.job, &rows).await?;
        let view = self
            .write_in_turn(turn, move |connection| {
                start(connection, &latest, &run, &rows, now)?.view(connection)
            })
            .await?;
        self.announce();
        Ok(view)
    }

    async fn apply(&self, job: JobId, command: Command, now: Timestamp) -> Result<JobView> {
        let latest = self.latest.clone();
        let view = self
            .write(move |connection| apply(connection, &latest, job, &command, now)?.view(connection))
            .await?;
        self.announce();
        Ok(view)
    }

    async fn delete_run(&self, key: RunKey, now: Timestamp) -> Result<RunView> {
        let latest = self.latest.clone();
        let view = self.write(move |connection| delete(connection, &latest, key, now)).await?;
        self.announce();
        Ok(view)
    }

    async fn job(&self, caller: Option<CallerId>, job: JobId) -> Result<Option<JobView>> {
        self.read(Lane::Points, move |connection| {
            let found = find(connection, job)?;
            let found = found.filter(|stored| caller.is_none_or(|caller| stored.job.caller == caller));
            found.map(|stored| stored.view(connection)).transpose()
        })
        .await
    }

    async fn jobs(&self, query: JobsQuery) -> Result<Page<JobView, JobId>> {
        self.read(Lane::Lists, move |connection| page(connection, query)).await
    }

    async fn run(&self, job: JobId, run: RunId) -> Result<Option<RunView>> {
        self.read(Lane::Points, move |connection| {
            let found = runs::find_visible(connection, RunKey { job, run })?;
            found.map(|stored| runs::view(connection, stored)).transpose()
        })
        .await
    }

    async fn runs(&self, query: RunsQuery) -> Result<Page<RunView, RunId>> {
        self.read(Lane::Lists, move |connection| {
            let Page { rows, next } = runs::page(connection, query)?;
            let views = rows.into_iter().map(|stored| runs::view(connection, stored));
            Ok(Page { rows: views.collect::<Result<_>>()?, next })
        })
        .await
    }

    async fn changed_runs(&self, since: Option<ChangeCursor>, now: Timestamp) -> Result<ChangedRuns> {
        // Whatever is written from here on, the next look finds.
        self.latest.learn(now);
        self.read(Lane::Work, move |connection| {
            let found = match since {
                None => runs::active(connection)?,
                Some(ChangeCursor(since)) => runs::changed(connection, since)?,
            };
            let mut changed = ChangedRuns::none(now);
            for stored in found {
                if stored.run.status == RunStatus::Running {
                    changed.active.extend(active_run(connection, stored)?);
                } else {
                    changed.gone.push(RunKey { job: stored.run.job, run: stored.run.id });
                }
            }
            Ok(changed)
        })
        .await
    }

    async fn ready(&self) -> Result<()> {
        self.probe.ask(|| self.write(probe::write)).await
    }
}
