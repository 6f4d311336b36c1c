//! What time it is, and whether removals go by it (SPEC 6.26).

use crate::auth::Operator;
use crate::problem::Result;
use crate::query::NoQuery;
use crate::state::Shared;
use axum::Json;
use axum::extract::State;
use conveyor_domain::clock::watch::Watch;
use conveyor_domain::{Clock, limits};
use conveyor_store::clock_watch;
use conveyor_wire::{self as wire, Time};
use std::time::Duration;

pub(super) async fn show(_: Operator, State(state): State<Shared>, _: NoQuery) -> Result<Json<wire::Clock>> {
    let watch = clock_watch::look(state.store()).await?;
    Ok(Json(shown(state.clock.as_ref(), watch.as_ref())))
}

/// Removals go by the time from now on. Safe to repeat.
pub(super) async fn confirm(
    _: Operator,
    State(state): State<Shared>,
    _: NoQuery,
) -> Result<Json<wire::Clock>> {
    let watch = clock_watch::confirm(state.store(), state.now()).await?;
    tracing::warn!(now = %watch.seen, "an operator confirmed the time");
    Ok(Json(shown(state.clock.as_ref(), Some(&watch))))
}

fn shown(clock: &dyn Clock, watch: Option<&Watch>) -> wire::Clock {
    let now = clock.now();
    let believed = watch.and_then(|watch| watch.believed_from(now));
    let removal = if believed.is_some() { wire::Removal::Halted } else { wire::Removal::Running };
    wire::Clock {
        now: Time(now),
        skew_ms: clock.skew_ms(),
        seen_at: watch.map(|watch| Time(watch.seen)),
        removal: removal.into(),
        believed_at: believed.map(Time),
    }
}

/// What an operator should know about the clock, of a process that can serve all the same.
pub(super) fn warnings(clock: &dyn Clock, watch: Option<&Watch>) -> Vec<String> {
    let now = clock.now();
    let halted = watch.and_then(|watch| Some((watch, watch.believed_from(now)?)));
    let halted = halted.map(|(watch, believed)| {
        format!(
            "It is {now}, and the latest time that was seen is {}: nothing is removed because of its age until {believed}, \
             or until `conveyor clock confirm`.",
            watch.seen
        )
    });
    let skew = clock.skew_ms().filter(|ms| Duration::from_millis(ms.unsigned_abs()) > limits::CLOCK_SKEW_MAX);
    let skewed = skew.map(|ms| format!("The clock of this machine is off by {} s.", ms / 1000));
    halted.into_iter().chain(skewed).collect()
}
