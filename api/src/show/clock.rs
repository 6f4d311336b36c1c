//! What time it is, and whether removals go by it (SPEC 6.26).

use super::Time;
use conveyor_domain::clock::watch::Watch;
use conveyor_domain::{Clock, limits};
use conveyor_wire as wire;
use std::time::Duration;

pub(crate) fn clock(clock: &dyn Clock, watch: Option<&Watch>) -> wire::Clock {
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
pub(crate) fn clock_warnings(clock: &dyn Clock, watch: Option<&Watch>) -> Vec<String> {
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
