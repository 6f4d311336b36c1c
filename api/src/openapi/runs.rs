//! Runs: looked at, paused, stopped, repeated, proved.

use super::jobs::{just_begun, still_read};
use super::operation::{Content, Operation};
use super::parameters::{choice, cursor, idempotency_key, limit, query};
use super::schemas::Schemas;
use crate::problem::Code;
use conveyor_domain::{FailureClass, RejectedRow, TaskStatus, limits};
use conveyor_wire::RerunJob;
use conveyor_wire::{Audit, BodiesAudit, Ingest, Rerun, Run, Runs};
use serde_json::{Value, json};

pub(super) fn operations() -> Vec<Operation> {
    let mut all = vec![
        Operation::get("/v1/jobs/{job}/runs", "listRuns", "Runs of a job, newest first")
            .details("Its first run, reruns, and what its schedule made. A run that was deleted is there until it is removed.")
            .parameter(limit(limits::PAGE_DEFAULT, limits::PAGE_MAX))
            .parameter(cursor())
            .answers::<Runs>(200, "A page of them.")
            .refuses(&[Code::InvalidCursor]),
        Operation::get("/v1/jobs/{job}/runs/{run}", "getRun", "One run")
            .details("Its state and its counts, which are exact at every moment.")
            .answers::<Run>(200, "The run."),
        Operation::delete("/v1/jobs/{job}/runs/{run}", "deleteRun", "Delete a run")
            .details(
                "Its tasks and results are removed in the background. It can be repeated while it is there.",
            )
            .answers::<Run>(202, "The run, `deleted`.")
            .but(json!({"status": "deleted"}))
            .refuses(&[Code::RunHasDescendants]),
    ];
    all.extend(commands());
    all.extend(looks());
    all.into_iter().map(|operation| operation.tag("Runs")).collect()
}

/// What is done to the latest run of a job.
fn commands() -> Vec<Operation> {
    let command = |path, id, summary, code: Code| {
        Operation::post(path, id, summary)
            .answers::<Run>(200, "The run.")
            .refuses(&[code, Code::RunNotTerminal])
    };
    let half_done =
        json!({"stats": {"completed": 1, "successful": 1, "spend": {"credits": 10, "cost": 0.0021}}});
    let now = |status: &str| {
        let mut run = half_done.clone();
        run["status"] = status.into();
        run
    };
    let mut paused = now("running");
    paused["pause_state"] = "paused".into();
    vec![
        command("/v1/jobs/{job}/pause", "pauseRun", "Start nothing more for now", Code::RunNotPausable)
            .details("What is in flight ends. It can be repeated.")
            .but(paused),
        command("/v1/jobs/{job}/resume", "resumeRun", "Go on", Code::RunNotPausable)
            .details("Also after the breaker paused it, which may trip again. It can be repeated.")
            .but(now("running")),
        command("/v1/jobs/{job}/stop", "stopRun", "End the run early", Code::RunNotStoppable)
            .details("Nothing more is started; what is in flight may still end. It can be repeated.")
            .but(now("stopped")),
        command("/v1/jobs/{job}/cancel", "cancelRun", "The same as stop", Code::RunNotStoppable)
            .details("Another name for it, which some clients use.")
            .but(now("stopped")),
        rerun(),
    ]
}

const REPLAYED: &str = "Idempotency-Replayed";

/// How the example of a rerun differs.
fn begun(mut run: Value) -> Value {
    run["run_id"] = "01KCX5V1Q8N4A6B8C0D2E4F6G8".into();
    run["run_sequence"] = 2.into();
    json!({"latest_run": run, "rerun_of": "01KCX5T0Q8M3Z7C9D1F5G7H9J1"})
}

/// Of more tasks than are written on the request.
fn long(mut rerun: Value) -> Value {
    rerun["retried_tasks"] = 20_000.into();
    rerun
}

fn rerun() -> Operation {
    let words = |words: &[&str]| words.join("|");
    let statuses = words(&TaskStatus::ALL.map(|status| status.as_str()));
    let classes = words(&FailureClass::ALL.map(|class| class.as_str()));
    let list = |name, word: &str, description, example: &str| {
        let schema = json!({"type": "string", "pattern": format!("^({word})(,({word}))*$")});
        query(name, schema, description, example.into())
    };
    let rerun = Content::Json(Schemas::answer::<Rerun>);
    Operation::post("/v1/jobs/{job}/rerun", "rerunJob", "Run a job again")
        .details(
            "Another run with the tasks of the latest one: all of them, or those that fit every filter; the others are handed \
             down with their results. Parameters in the body win over those of the job and of its tasks.",
        )
        .parameter(list("status", &statuses, "Only tasks in these states, between commas.", "failed"))
        .parameter(list("error_class", &classes, "Only tasks that failed so, between commas.", "blocked,timeout"))
        .parameter(list("http_status", "[1-5][0-9]{2}", "Only tasks that were answered so, between commas.", "403"))
        .parameter(list(
            "domain",
            r"[A-Za-z0-9:_\[\]-][A-Za-z0-9.:_\[\]-]*",
            "Only tasks of these hosts, between commas.",
            "example.com",
        ))
        .parameter(idempotency_key())
        .optional_body::<RerunJob>()
        .answers_with(201, "The new run; its tasks are there.", rerun, &[REPLAYED])
        .but(begun(just_begun()))
        .answers_with(
            202,
            "The new run; its tasks are still being written.",
            rerun,
            &["Location", "Retry-After", REPLAYED],
        )
        .but(long(begun(still_read())))
        .refuses(&[
            Code::RunNotTerminal,
            Code::NoPriorRun,
            Code::QuotaExceeded,
            Code::IdempotencyKeyConflict,
            Code::NoMatchingTasks,
            Code::PartialRerunWindowExpired,
            Code::ListNotRead,
            Code::ResultExpired,
            Code::Conflict,
        ])
}

fn looks() -> Vec<Operation> {
    vec![
        Operation::get("/v1/jobs/{job}/runs/{run}/audit", "auditRun", "Everything stored of a run, counted")
            .details("Rows, counters, results and the list that they came from, and whether they agree. It reads every row, and no body.")
            .answers::<Audit>(200, "What was counted.")
            .refuses(&[Code::TooManyAudits]),
        Operation::get("/v1/jobs/{job}/runs/{run}/audit/bodies", "auditRunBodies", "Bodies of a run, read and verified")
            .details("In the order of the list, as many as can be read in about five seconds: a page may be long or short.")
            .parameter(cursor())
            .answers::<BodiesAudit>(200, "What was read.")
            .refuses(&[Code::InvalidCursor, Code::ResultExpired, Code::TooManyAudits]),
        Operation::get("/v1/jobs/{job}/runs/{run}/ingest", "getIngest", "How far a staged list is")
            .details("404 for a run whose tasks did not come from one.")
            .answers::<Ingest>(200, "Its state."),
        Operation::get("/v1/jobs/{job}/runs/{run}/ingest/rejected", "listRejected", "Rows of a list that are no tasks")
            .details("In the order of the list. `Accept: text/csv` chooses CSV too. A cell that a spreadsheet would run begins with an apostrophe.")
            .parameter(choice("format", &["jsonl", "csv"], "JSON, one a line, or CSV."))
            .answers_with(200, "All of them.", REJECTED, &["Content-Disposition", "X-Content-Type-Options"])
            .refuses(&[Code::ResultExpired]),
    ]
}

const REJECTED: Content = Content::Lines(
    Schemas::answer::<RejectedRow>,
    &[("text/csv", "index,line,offset,reason,value\r\n16,17,812,malformed_url,htp://example\r\n")],
);
