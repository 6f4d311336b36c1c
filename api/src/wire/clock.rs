//! What time it is, and whether removals go by it (SPEC 6.26).

use super::Time;
use conveyor_domain::clock::watch::Watch;
use conveyor_domain::{Clock, limits};
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ClockJson {
    now: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    skew_ms: Option<i64>,
    /// Left out until a sweeper has looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    seen_at: Option<Time>,
    #[schemars(extend("enum" = ["running", "halted"]))]
    removal: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    believed_at: Option<Time>,
}

impl ClockJson {
    pub fn new(clock: &dyn Clock, watch: Option<&Watch>) -> ClockJson {
        let now = clock.now();
        let believed = watch.and_then(|watch| watch.believed_from(now));
        ClockJson {
            now: Time(now),
            skew_ms: clock.skew_ms(),
            seen_at: watch.map(|watch| Time(watch.seen)),
            removal: if believed.is_some() { "halted" } else { "running" },
            believed_at: believed.map(Time),
        }
    }
}

/// What an operator should know about the clock, of a process that can serve all the same.
pub(crate) fn warnings(clock: &dyn Clock, watch: Option<&Watch>) -> Vec<String> {
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
