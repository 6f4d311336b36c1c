//! What schedules look like in requests, as [`super::bodies`] has it for the rest.

#![expect(dead_code, reason = "they are described, never made")]

use conveyor_domain::schedule::calendar::{Hour, Unit};
use conveyor_domain::{ScheduleState, Weekday, limits};
use schemars::JsonSchema;
use serde::Deserialize;

/// When a job runs: exactly one of `at`, `rate` and `calendar`; with `timezone`, unless it is a rate.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("anyOf" = [
    {"required": ["at", "timezone"]}, {"required": ["rate"]}, {"required": ["calendar", "timezone"]},
], "examples" = [
    {"calendar": {"times_of_day": ["09:00"], "cadence": {"weekly": {"days": ["mon", "fri"]}}}, "timezone": "Europe/Berlin"},
]))]
pub(crate) struct ScheduleBody {
    /// Once, at this time on the wall of the time zone.
    #[schemars(regex(pattern = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}$"))]
    at: Option<String>,
    rate: Option<IntervalBody>,
    calendar: Option<CalendarBody>,
    /// The name of an IANA time zone.
    timezone: Option<String>,
}

/// Every so often, at most 366 days.
#[derive(Deserialize, JsonSchema)]
struct IntervalBody {
    #[schemars(range(min = 1, max = limits::SCHEDULE_INTERVAL_MAX.as_secs() / 60))]
    every: u32,
    unit: Unit,
}

/// At these hours of some days.
#[derive(Deserialize, JsonSchema)]
struct CalendarBody {
    #[schemars(length(min = 1, max = limits::SCHEDULE_LIST_MAX))]
    times_of_day: Vec<Hour>,
    cadence: CadenceBody,
}

/// Which days: exactly one of these.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
struct CadenceBody {
    daily: Option<EveryDay>,
    weekly: Option<DaysOfWeek>,
    monthly: Option<DaysOfMonth>,
}

/// Every day: an empty object.
#[derive(Deserialize, JsonSchema)]
struct EveryDay {}

/// Some days of every week.
#[derive(Deserialize, JsonSchema)]
struct DaysOfWeek {
    #[schemars(length(min = 1, max = limits::SCHEDULE_LIST_MAX))]
    days: Vec<Weekday>,
}

/// Some days of every month. One that a month does not have is left out there.
#[derive(Deserialize, JsonSchema)]
struct DaysOfMonth {
    #[schemars(length(min = 1, max = limits::SCHEDULE_LIST_MAX), inner(range(min = 1, max = 31)))]
    days: Vec<u8>,
}

/// Whether a schedule fires.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"schedule_state": "paused"}]))]
pub(crate) struct ScheduleTurn {
    schedule_state: ScheduleState,
}
