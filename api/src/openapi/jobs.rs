//! Jobs: submitted, looked at, changed, ended.

use super::operation::{Content, Operation};
use super::parameters::{choice, cursor, header, idempotency_key, limit, query};
use super::problems;
use super::schemas::Schemas;
use super::webhooks;
use crate::event_stream;
use crate::problem::Code;
use conveyor_domain::{JobStatus, limits};
use conveyor_wire::{AddTasks, ChangeLimits, SubmitJob};
use conveyor_wire::{Added, DryRun, Events, Job, Jobs, Leases, Limits, Submitted};
use serde_json::{Value, json};

pub(super) fn operations() -> Vec<Operation> {
    let mut all = vec![submit(), list(), add_tasks()];
    all.extend(one());
    all.extend(pace());
    all.into_iter().map(|operation| operation.tag("Jobs")).collect()
}

const REPLAYED: &str = "Idempotency-Replayed";

/// How the example of a run differs that has only begun.
pub(super) fn just_begun() -> Value {
    json!({
        "status": "running", "updated_at": "2026-01-01T00:00:00.000Z",
        "stats": {"completed": 0, "successful": 0, "spend": null},
    })
}

/// The same, of one whose list is still to be read.
pub(super) fn still_read() -> Value {
    let mut run = just_begun();
    run["stats"]["total"] = 20_000.into();
    run["last_batch_received"] = false.into();
    run["ingest_status"] = "pending".into();
    run
}

fn submit() -> Operation {
    let created = Content::Json(Schemas::answer::<Submitted>);
    Operation::post("/v1/jobs", "submitJob", "Submit a job")
        .details(
            "With its tasks, or with a staged list (`file_input_id`), or open, so that tasks can be added. Up to 9,999 tasks \
             (fewer if the server is started with a smaller `--inline-tasks-max`) are written on the request (201); longer lists \
             are accepted and read later (202). Either way nothing that was answered is lost.",
        )
        .parameter(choice("dry_run", &["true", "false"], "Check everything, estimate, and make nothing."))
        .parameter(idempotency_key())
        .body::<SubmitJob>()
        .answers::<DryRun>(200, "Of a dry run: what the submit would come to.")
        .answers_with(201, "The job and its first run; its tasks are there.", created, &["Location", REPLAYED])
        .but(json!({"latest_run": just_begun(), "webhook": null}))
        .answers_with(
            202,
            "The job; its list is still being read.",
            created,
            &["Location", "Retry-After", REPLAYED],
        )
        .but(json!({
            "latest_run": still_read(), "accepted_tasks": 20_000, "total_is_final": true, "webhook": null,
        }))
        .refuses(&[
            Code::TooManyTasks,
            Code::QuotaExceeded,
            Code::IdempotencyKeyConflict,
            Code::Conflict,
            Code::FileInputNotFound,
            Code::FileInputNotUploaded,
            Code::FileInputIncomplete,
            Code::FileInputClaimed,
            Code::FileInputUnsupported,
            Code::UploadSizeMismatch,
            Code::UploadChecksumMismatch,
        ])
        .refuses(&problems::of_list())
        .refuses(&webhooks::REFUSED)
}

fn list() -> Operation {
    Operation::get("/v1/jobs", "listJobs", "Own jobs, newest first")
        .details("With the latest run of each. Jobs that are deleted are there until they are removed.")
        .parameter(choice("status", &JobStatus::ALL.map(JobStatus::as_str), "Only those in this state."))
        .parameter(choice("type", &["regular", "scheduled"], "Only those of this type."))
        .parameter(limit(limits::PAGE_DEFAULT, limits::PAGE_MAX))
        .parameter(cursor())
        .answers::<Jobs>(200, "A page of them.")
        .refuses(&[Code::InvalidCursor])
}

fn add_tasks() -> Operation {
    Operation::post("/v1/jobs/{job}/tasks", "addTasks", "Add tasks to an open job")
        .details("All or none of them. `last_batch` closes the job with them.")
        .parameter(idempotency_key())
        .body::<AddTasks>()
        .answers_with(200, "They are there.", Content::Json(Schemas::answer::<Added>), &[REPLAYED])
        .but(json!({"latest_run": just_begun(), "job_status": "closed"}))
        .refuses(&[
            Code::TooManyTasks,
            Code::IdempotencyKeyConflict,
            Code::JobNotOpen,
            Code::LastBatchReceived,
            Code::RunNotTerminal,
            Code::QuotaExceeded,
            Code::Conflict,
        ])
}

fn one() -> Vec<Operation> {
    let events_stream = "With `Accept: text/event-stream` a stream that goes on until the job is deleted or the process \
                         shuts down; it takes `after`, and not `limit` or `cursor`.";
    vec![
        Operation::get("/v1/jobs/{job}", "getJob", "One job")
            .details("What was submitted, as far as it may be shown, and the latest run with its counts.")
            .answers::<Job>(200, "The job."),
        Operation::delete("/v1/jobs/{job}", "deleteJob", "Delete a job")
            .details("It stops, and everything of it is removed in the background. It can be repeated while it is there.")
            .answers::<Job>(202, "The job, as long as it is there.")
            .but(json!({"status": "deleted"})),
        Operation::post("/v1/jobs/{job}/close", "closeJob", "Take no more tasks")
            .details("An open job completes once its tasks have ended. It can be repeated.")
            .answers::<Job>(200, "The job.")
            .refuses(&[Code::RunNotTerminal, Code::JobNotOpen]),
        Operation::get("/v1/jobs/{job}/events", "listEvents", "What happened to a job")
            .details(events_stream)
            .parameter(limit(limits::EVENTS_PAGE_DEFAULT, limits::EVENTS_PAGE_MAX))
            .refuses(&[Code::TooManyStreams])
            .parameter(cursor())
            .parameter(query(
                "after",
                json!({"type": "integer", "minimum": 0}),
                "Of a stream: the last event that the caller has.",
                0.into(),
            ))
            .parameter(header(
                "Last-Event-ID",
                json!({"type": "string"}),
                "Of a stream: the same, as a client that connects again says it.",
                "12".into(),
            ))
            .answers_with(200, "A page of them, or a stream.", EVENTS, &[])
            .refuses(&[Code::InvalidCursor]),
    ]
}

const EVENTS: Content = Content::JsonOr(Schemas::answer::<Events>, &[(event_stream::CONTENT_TYPE, STREAM)]);
const STREAM: &str = r#"id: 12
event: run.completed
data: {"id":12,"type":"run.completed","at":"2026-01-01T00:00:05.250Z","run_id":"01KCX5T0Q8M3Z7C9D1F5G7H9J1","data":{"total":2}}

"#;

fn pace() -> Vec<Operation> {
    vec![
        Operation::new("patch", "/v1/jobs/{job}", "changeLimits", "Change how fast a job may go")
            .details("Binds whoever asks next, and not what is in flight.")
            .refuses(&[Code::StorageFull])
            .body::<ChangeLimits>()
            .answers::<Job>(200, "The job.")
            .but(json!({"max_inflight": 20, "latest_run": just_begun()})),
        Operation::get("/v1/jobs/{job}/limits", "getLimits", "What a job may do, and why it waits")
            .details("Its limits, what workers hold of them, what is left of a rate, the budgets of sites that it used lately.")
            .answers::<Limits>(200, "One look at several places, which may have changed in between."),
        Operation::get("/v1/leases", "listLeases", "Who works on what")
            .details(
                "Live runs of the caller, newest job first. A page may be short, or empty, though `next_cursor` says that \
                 more follow.",
            )
            .parameter(limit(limits::PAGE_DEFAULT, limits::PAGE_MAX))
            .parameter(cursor())
            .answers::<Leases>(200, "A page of them.")
            .refuses(&[Code::InvalidCursor]),
    ]
}
