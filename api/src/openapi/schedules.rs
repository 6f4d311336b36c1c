//! Jobs that run by themselves.

use super::operation::Operation;
use crate::problem::Code;
use crate::wire::job::JobJson;
use crate::wire::schedule_bodies::{ScheduleBody, ScheduleTurn};

pub(super) fn operations() -> Vec<Operation> {
    let all = [
        Operation::put("/v1/jobs/{job}/schedule", "putSchedule", "Set when a scheduled job runs")
            .details("It is replaced whole. What runs already goes on.")
            .body::<ScheduleBody>()
            .answers::<JobJson<'_>>(200, "The job, with its next run.")
            .refuses(&[Code::JobNotScheduled]),
        Operation::post("/v1/jobs/{job}/schedule/state", "setScheduleState", "Pause a schedule, or go on")
            .details("What would have run while it was paused is not made up for. It can be repeated.")
            .body::<ScheduleTurn>()
            .answers::<JobJson<'_>>(200, "The job.")
            .refuses(&[Code::JobNotScheduled]),
    ];
    all.into_iter().map(|operation| operation.tag("Schedules")).collect()
}
