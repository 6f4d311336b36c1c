//! What a submit is answered with, once it is durable.

use crate::idempotency::Snapshot;
use crate::wire::job::SubmittedJson;
use crate::wire::run::{RunJson, is_there};
use crate::wire::webhook::WebhookJson;
use axum::http::StatusCode;
use conveyor_domain::{Job, Run, RunStats};
use conveyor_store::port::{JobView, RunView};

/// A job as it is in the moment that it is made.
pub(crate) fn made(job: &Job, run: &Run) -> JobView {
    let stats = RunStats { total: run.total, ..RunStats::default() };
    JobView { job: job.clone(), latest: RunView { run: run.clone(), stats } }
}

/// Its tasks are written.
pub(crate) fn created(view: &JobView, accepted_tasks: usize) -> Snapshot {
    answer(StatusCode::CREATED, view, accepted_tasks)
}

/// They will be.
pub(crate) fn accepted(view: &JobView, accepted_tasks: usize) -> Snapshot {
    answer(StatusCode::ACCEPTED, view, accepted_tasks)
}

fn answer(status: StatusCode, view: &JobView, accepted_tasks: usize) -> Snapshot {
    let JobView { job, latest } = view;
    let latest_run = is_there(&latest.run).then(|| RunJson::from(latest));
    let webhook = job.spec.webhook.as_ref().map(WebhookJson::from);
    let body = SubmittedJson { job_id: job.id, status: job.status, latest_run, accepted_tasks, webhook };
    Snapshot::new(status, &body).at(format!("/v1/jobs/{}", job.id))
}
