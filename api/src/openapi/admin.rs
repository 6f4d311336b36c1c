//! What operators do.

use super::operation::{Access, Operation};
use super::parameters::{cursor, id, limit, query};
use crate::problem::Code;
use conveyor_domain::{JobId, RunId, limits};
use conveyor_wire::{Became, Clock, Letter, Letters, Reconciled, Redriven};
use conveyor_wire::{ReconcileRequest, RedriveLetters};
use serde_json::json;

pub(super) fn operations() -> Vec<Operation> {
    [
        Operation::post("/v1/admin/reconcile", "reconcile", "Look at everything, and put it right")
            .details(
                "Counters against rows, queues against tasks, objects against what names them. With `dry_run` nothing is \
                 changed. An answer that was cut short has `next`, to be sent as `from`.",
            )
            .body::<ReconcileRequest>()
            .answers::<Reconciled>(200, "What was found, and what became of it.")
            .refuses(&[Code::InvalidCursor, Code::NotFound]),
        Operation::get("/v1/admin/clock", "getClock", "What time it is, and whether removals go by it")
            .details(
                "A clock that is more than a day from the latest time that sweepers have seen is in doubt: nothing is removed \
                 because of its age until the time has held for an hour, or is confirmed.",
            )
            .answers::<Clock>(200, "The time that this process goes by."),
        Operation::post("/v1/admin/clock/confirm", "confirmClock", "Confirm the time")
            .details("What is past its time is removed by the next sweep. Compare `now` with a clock that is right first.")
            .answers::<Clock>(200, "The time, as it is believed now."),
        Operation::get("/v1/admin/dead_letters", "listDeadLetters", "Messages that were given up")
            .details(
                "Lists that no ingester could read, however often it was tried. They are kept for 14 days; those that fit all \
                 of the filters are shown.",
            )
            .parameter(id::<JobId>("job_id", "Only those of this job."))
            .parameter(id::<RunId>("run_id", "Only those of this run."))
            .parameter(query(
                "error",
                json!({"type": "string", "minLength": 1}),
                "Only those whose last error has this in it.",
                "timeout".into(),
            ))
            .parameter(limit(limits::PAGE_DEFAULT, limits::PAGE_MAX))
            .parameter(cursor())
            .answers::<Letters>(200, "A page of them.")
            .refuses(&[Code::InvalidCursor]),
        Operation::post("/v1/admin/dead_letters/redrive", "redriveDeadLetters", "Send many again")
            .details("It ends after `limit` letters, or after some time; `next_cursor` says that more are left.")
            .body::<RedriveLetters>()
            .answers::<Redriven>(200, "What became of each.")
            .but(json!({"next_cursor": null}))
            .refuses(&[Code::InvalidCursor]),
        Operation::get("/v1/admin/dead_letters/{letter}", "getDeadLetter", "One of them")
            .details("With its last error, how often it was tried and sent again, and what the next sweep does with it.")
            .answers::<Letter>(200, "The letter."),
        Operation::delete("/v1/admin/dead_letters/{letter}", "purgeDeadLetter", "Let one go")
            .details("A run that still waits for it fails.")
            .answers::<Became>(200, "It is gone.")
            .but(json!({"outcome": "purged"}))
            .refuses(&[Code::Conflict]),
        Operation::post("/v1/admin/dead_letters/{letter}/redrive", "redriveDeadLetter", "Send one again")
            .details("The list is tried anew, from where its log ends. If nobody waits for it any more, it is let go instead.")
            .answers::<Became>(200, "It was sent, or there was nothing left to do.")
            .refuses(&[Code::RedriveLimit, Code::Conflict]),
    ]
    .into_iter()
    .map(|operation| operation.tag("Operators").access(Access::OperatorKey))
    .collect()
}
