//! What a submit is answered with, once it is durable.

use crate::idempotency::Snapshot;
use crate::show;
use axum::http::StatusCode;
use conveyor_domain::job::run::Expected;
use conveyor_domain::{Job, Run, RunStats};
use conveyor_store::port::{JobView, RunView};
use conveyor_wire::Submitted;

/// A job as it is in the moment that it is made.
pub(crate) fn made(job: &Job, run: Option<&Run>) -> JobView {
    let stats = |run: &Run| RunStats { total: run.total, ..RunStats::default() };
    JobView { job: job.clone(), latest: run.map(|run| RunView { run: run.clone(), stats: stats(run) }) }
}

/// Its tasks are written.
pub(crate) fn created(view: &JobView, accepted_tasks: usize) -> Snapshot {
    answer(StatusCode::CREATED, view, accepted_tasks, None)
}

/// Its list is kept, and read by every run.
pub(crate) fn kept(view: &JobView, expected: Option<Expected>) -> Snapshot {
    expecting(StatusCode::CREATED, view, expected)
}

/// Its tasks will be written. An open job takes more once they are.
pub(crate) fn accepted(view: &JobView, expected: Option<Expected>) -> Snapshot {
    let open = view.job.spec.submitted_open;
    let expected = expected.map(|Expected { tasks, exact }| Expected { tasks, exact: exact && !open });
    expecting(StatusCode::ACCEPTED, view, expected)
}

fn expecting(status: StatusCode, view: &JobView, expected: Option<Expected>) -> Snapshot {
    let Expected { tasks, exact } = expected.unwrap_or(Expected { tasks: 0, exact: false });
    answer(status, view, tasks as usize, Some(exact))
}

fn answer(
    status: StatusCode,
    view: &JobView,
    accepted_tasks: usize,
    total_is_final: Option<bool>,
) -> Snapshot {
    let (job, latest_run) = (&view.job, show::latest_run(view));
    let webhook = job.spec.webhook.as_ref().map(show::webhook);
    let (job_id, status_of_job) = (job.id, job.status.into());
    let body =
        Submitted { job_id, status: status_of_job, latest_run, accepted_tasks, total_is_final, webhook };
    Snapshot::new(status, &body).at(format!("/v1/jobs/{}", job.id))
}
