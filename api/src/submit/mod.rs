//! A submit (SPEC 6.1, 6.10): its body is taken in, however many tasks it has; it is parsed into a plan; and one writer
//! carries the plan out.

mod accepted;
mod intake;
mod plan;
mod short_list;
mod write;

pub(crate) use accepted::forget;
pub use accepted::{Accepted, NotAccepted};
pub(crate) use intake::{Received, StagedTasks, Tasks, receive};
pub(crate) use plan::{Request, check_fires, parse, source_of};

use crate::auth::Caller;
use crate::direct;
use crate::idempotency::{self, Intent, Turn};
use crate::problem::Result;
use crate::split::Rest;
use crate::state::{ApiState, Shared};
use crate::warnings::Warnings;
use axum::response::Response;
use std::ops::ControlFlow;

/// Makes the job that was asked for.
pub(crate) async fn make(
    state: Shared,
    caller: Caller,
    rest: Rest,
    mut tasks: Tasks,
    intent: Option<Intent>,
    warnings: Warnings,
) -> Result<Response> {
    let mut turn = match idempotency::begin(&state, intent, warnings).await {
        ControlFlow::Continue(turn) => turn,
        ControlFlow::Break(answer) => {
            // What was staged for nothing goes.
            tasks.abandon().await;
            return answer;
        }
    };
    let made = carry_out(&state, &caller, &mut turn, &rest, &mut tasks).await;
    match made.is_ok() {
        true => tasks.keep(),
        false => tasks.abandon().await,
    }
    turn.end(&state, made).await
}

async fn carry_out(
    state: &ApiState,
    caller: &Caller,
    turn: &mut Turn,
    rest: &Rest,
    tasks: &mut Tasks,
) -> Result<Response> {
    let request = parse(state, caller, rest, tasks, turn.warnings()).await?;
    // A list that callers send to the storage by themselves can be replaced while it is looked at: by another submit of it, or
    // by a caller that sends another one right now. No job was made then.
    let looks_max = if state.direct().is_some() && request.list.is_some() { direct::LOOKS_MAX } else { 1 };
    let mut looks = 0;
    loop {
        looks += 1;
        let made = async {
            let planned = plan::plan(state, caller, request.clone(), tasks, turn.warnings()).await?;
            write::write(state, caller, turn, planned).await
        };
        match made.await {
            Err(error) if error.is_source_changed() && looks < looks_max => {}
            made => return made,
        }
    }
}
