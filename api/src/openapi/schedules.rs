//! Jobs that run by themselves.

use super::operation::Operation;
use crate::problem::Code;
use conveyor_wire::Job;
use conveyor_wire::{ScheduleBody, ScheduleTurn};
use serde_json::{Value, json};

/// How the example of a job differs that has a schedule.
fn scheduled(state: &str) -> Value {
    json!({
        "type": "scheduled",
        "schedule": {
            "calendar": {"times_of_day": ["09:00"], "cadence": {"weekly": {"days": ["mon", "fri"]}}},
            "timezone": "Europe/Berlin",
        },
        "schedule_state": state,
        "latest_run": {"trigger": "scheduled"},
        "next_scheduled_run": "2026-01-02T08:00:00.000Z",
    })
}

pub(super) fn operations() -> Vec<Operation> {
    let all = [
        Operation::put("/v1/jobs/{job}/schedule", "putSchedule", "Set when a scheduled job runs")
            .details("It is replaced whole. What runs already goes on.")
            .body::<ScheduleBody>()
            .answers::<Job>(200, "The job, with its next run.")
            .but(scheduled("active"))
            .refuses(&[Code::JobNotScheduled]),
        Operation::post("/v1/jobs/{job}/schedule/state", "setScheduleState", "Pause a schedule, or go on")
            .details("What would have run while it was paused is not made up for. It can be repeated.")
            .body::<ScheduleTurn>()
            .answers::<Job>(200, "The job.")
            .but(scheduled("paused"))
            .refuses(&[Code::JobNotScheduled]),
    ];
    all.into_iter().map(|operation| operation.tag("Schedules")).collect()
}
