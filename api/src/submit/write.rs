//! The one writer of new jobs: carries a plan out, and answers once that is durable.

use super::accepted::{self, Accepted};
use super::plan::{Plan, Planned};
use crate::auth::Caller;
use crate::idempotency::{Snapshot, Turn};
use crate::problem::{ApiError, Result};
use crate::show;
use crate::state::ApiState;
use axum::http::StatusCode;
use axum::response::Response;
use conveyor_domain::access::quota::Wanted;
use conveyor_domain::job::lifecycle::Decision;
use conveyor_domain::job::run::Expected;
use conveyor_domain::{Job, JobId, JobSpec, Purpose, RejectedRow, Run, RunId, RunStats, lifecycle, limits};
use conveyor_store::admission::Became;
use conveyor_store::port::{BlobKey, JobView, Once, RunView, Submission, SubmittedList};
use conveyor_wire::Submitted;

pub(super) async fn write(
    state: &ApiState,
    caller: &Caller,
    turn: &mut Turn,
    Planned { spec, open, plan }: Planned,
) -> Result<Response> {
    let (job, mut run) = decide(state, caller, spec, open, &plan);
    let (said, wanted) = (plan.answer(open), plan.wanted(&job));
    // Rows take as much memory again while they are written.
    let (mut _room, mut report) = (None, None);
    let (mut tasks, source, log) = match plan {
        Plan::Inline(tasks) => ((0..).zip(tasks).collect(), None, Vec::new()),
        Plan::Staged(source, list, room) => {
            _room = Some(room);
            if let Some(run) = &mut run {
                // Rejected rows keep their places.
                run.next_index = list.end.index;
            }
            let key = BlobKey::rejected(job.id, job.latest_run, state.incarnation, 0);
            report = Some(key).filter(|_| !list.rejected.is_empty());
            let log = list.log(&source, report.as_ref().map(BlobKey::to_string));
            let log = log.map_err(|e| ApiError::internal(e.to_string()))?;
            if let Some(key) = &report {
                state.backend.blobs.put(key, RejectedRow::report(&list.rejected).into()).await?;
            }
            (list.rows, Some(source), log)
        }
        Plan::Accept(source, expected) => {
            if let Some(run) = &mut run {
                run.doc.expected = expected;
            }
            (Vec::new(), Some(source), Vec::new())
        }
        Plan::Template(..) => (Vec::new(), None, Vec::new()),
    };
    let headers = state.headers();
    tasks.iter_mut().for_each(|(_, task)| headers.seal(&job.id, &mut task.params));
    let listed = source.as_ref().zip(run.as_ref());
    let document = listed.map(|(source, run)| Accepted::new(&job, run, source.clone()));
    let submit = move |once: Option<Once>| async move {
        let view = made(&job, run.as_ref());
        let list = source.map(|source| Box::new(SubmittedList { source, log }));
        let submission = Submission { job, run, tasks, list, once };
        state.store().submit(submission).await.map_err(ApiError::of_upload)?;
        Ok(view)
    };
    let answer = move |view: &JobView| said.snapshot(view);
    let written = turn.carry_out(state, caller.id, wanted, answer, submit).await;
    match &written {
        Ok(_) => {
            if let Some(document) = document {
                accepted::keep(state, &document).await;
            }
        }
        Err(error) => {
            if let Some(key) = report.filter(|_| !error.is_ambiguous())
                && let Err(error) = state.backend.blobs.delete(&key).await
            {
                tracing::warn!(%error, "a report of rejected rows stays behind");
            }
        }
    }
    written
}

/// What is decided once for the life of a job: its ids, where its rows go, for how long its results can be seen, and the key
/// that it forwards, sealed for it alone.
fn decide(
    state: &ApiState,
    caller: &Caller,
    mut spec: JobSpec,
    open: bool,
    plan: &Plan,
) -> (Job, Option<Run>) {
    let now = state.now();
    let (id, first) = (JobId::new(now, &state.entropy), RunId::new(now, &state.entropy));
    spec.result_ttl_days.get_or_insert(state.config.result_ttl_days);
    if let Some(schedule) = &mut spec.schedule {
        schedule.template = first;
        if let Plan::Template(source, _) = plan {
            schedule.source = Some(source.clone());
        }
    }
    spec.task_shard_count = state.backend.capabilities.sharding.task_shards(plan.likely_rows(), open);
    state.headers().seal(&id, &mut spec.params);
    if state.config.forward_keys {
        let (context, key) = (id.to_string(), caller.key.as_bytes());
        spec.credential = Some(state.secret.seal(Purpose::Credential, &context, key, &state.entropy));
    }
    let written = u32::try_from(plan.written()).unwrap_or(u32::MAX);
    let Decision { job, run } = match plan {
        Plan::Accept(..) => lifecycle::accept(id, first, caller.id, spec, open, now),
        Plan::Inline(_) | Plan::Staged(..) | Plan::Template(..) if spec.schedule.is_some() => {
            return (lifecycle::scheduled(id, first, caller.id, spec, written, now), None);
        }
        Plan::Inline(_) | Plan::Staged(..) | Plan::Template(..) => {
            lifecycle::submit(id, first, caller.id, spec, open, written, now)
        }
    };
    (job, Some(run))
}

impl Plan {
    /// Tasks that are written with the job.
    fn written(&self) -> usize {
        match self {
            Plan::Inline(tasks) => tasks.len(),
            Plan::Staged(_, list, _) => list.rows.len(),
            Plan::Accept(..) | Plan::Template(..) => 0,
        }
    }

    /// How many rows it is likely to have, to choose where they go.
    fn likely_rows(&self) -> u64 {
        match self {
            Plan::Inline(_) | Plan::Staged(..) => self.written() as u64,
            Plan::Accept(source, expected) | Plan::Template(source, expected) => {
                let by_size = source.staged.size / limits::ROW_LIKELY_BYTES;
                match *expected {
                    Some(Expected { tasks, exact: true }) => tasks.into(),
                    Some(Expected { tasks, exact: false }) => by_size.max(tasks.into()),
                    None => by_size,
                }
            }
        }
    }

    /// What it asks for of its caller's quotas, and what becomes of that. The tasks of a schedule count when it fires; a list
    /// that nobody has counted has one at least, and is held until it is.
    fn wanted(&self, job: &Job) -> (Wanted, Became) {
        let scheduled = job.spec.schedule.is_some();
        let (tasks, became) = match self {
            Plan::Accept(_, expected) => {
                (expected.map_or(1, |expected| expected.tasks.max(1)), Became::Reading)
            }
            Plan::Inline(_) | Plan::Staged(..) | Plan::Template(..) => {
                (u32::try_from(self.written()).unwrap_or(u32::MAX), Became::Known)
            }
        };
        let tasks = if scheduled { 0 } else { tasks };
        (Wanted { job: job.id, active: !scheduled, scheduled, tasks }, became)
    }

    fn answer(&self, open: bool) -> Answer {
        let (status, expected) = match self {
            Plan::Inline(_) | Plan::Staged(..) => {
                return Answer { status: StatusCode::CREATED, tasks: self.written(), total_is_final: None };
            }
            Plan::Accept(_, expected) => (StatusCode::ACCEPTED, expected),
            Plan::Template(_, expected) => (StatusCode::CREATED, expected),
        };
        let Expected { tasks, exact } = expected.unwrap_or(Expected { tasks: 0, exact: false });
        // An open job takes more once its list is read.
        Answer { status, tasks: tasks as usize, total_is_final: Some(exact && !open) }
    }
}

/// What a submit is answered with, once it is durable.
#[derive(Clone, Copy)]
struct Answer {
    status: StatusCode,
    tasks: usize,
    total_is_final: Option<bool>,
}

impl Answer {
    fn snapshot(self, view: &JobView) -> Snapshot {
        let job = &view.job;
        let body = Submitted {
            job_id: job.id,
            status: job.status.into(),
            latest_run: show::latest_run(view),
            accepted_tasks: self.tasks,
            total_is_final: self.total_is_final,
            webhook: job.spec.webhook.as_ref().map(show::webhook),
        };
        Snapshot::new(self.status, &body).at(format!("/v1/jobs/{}", job.id))
    }
}

/// A job as it is in the moment that it is made.
fn made(job: &Job, run: Option<&Run>) -> JobView {
    let stats = |run: &Run| RunStats { total: run.total, ..RunStats::default() };
    JobView { job: job.clone(), latest: run.map(|run| RunView { run: run.clone(), stats: stats(run) }) }
}
