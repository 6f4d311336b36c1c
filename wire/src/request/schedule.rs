use super::{List, Within};
use conveyor_domain::schedule::calendar::{Hour, Unit, WallTime};
use conveyor_domain::{ScheduleState, Weekday, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// When a job runs: exactly one of `at`, `rate` and `calendar`; with `timezone`, unless it is a rate.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("anyOf" = [
    {"required": ["at", "timezone"]}, {"required": ["rate"]}, {"required": ["calendar", "timezone"]},
], "examples" = [
    {"calendar": {"times_of_day": ["09:00"], "cadence": {"weekly": {"days": ["mon", "fri"]}}}, "timezone": "Europe/Berlin"},
]))]
pub struct ScheduleBody {
    /// Once, at this local time of the time zone.
    #[schemars(extend("pattern" = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}$"))]
    pub at: Option<WallTime>,
    /// At an interval.
    pub rate: Option<IntervalBody>,
    /// At hours of some days.
    pub calendar: Option<CalendarBody>,
    /// The name of an IANA time zone.
    #[schemars(extend("examples" = ["Europe/Berlin"]))]
    pub timezone: Option<String>,
}

/// At an interval of at most 366 days, counted from when the schedule was set.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"every": 15, "unit": "minute"}]))]
pub struct IntervalBody {
    /// How many units.
    pub every: Within<u32, 1, { limits::SCHEDULE_INTERVAL_MAX.as_secs() / 60 }>,
    pub unit: Unit,
}

/// At these hours of some days.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CalendarBody {
    /// Full hours.
    pub times_of_day: List<Hour, 1, { limits::SCHEDULE_LIST_MAX }>,
    pub cadence: CadenceBody,
}

/// Which days: exactly one of these.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1, "examples" = [{"weekly": {"days": ["mon", "fri"]}}]))]
pub struct CadenceBody {
    pub daily: Option<EveryDay>,
    pub weekly: Option<DaysOfWeek>,
    pub monthly: Option<DaysOfMonth>,
}

/// Every day: an empty object.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EveryDay {}

/// Some days of every week.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DaysOfWeek {
    /// Days of the week.
    pub days: List<Weekday, 1, { limits::SCHEDULE_LIST_MAX }>,
}

/// Some days of every month. A month without such a day leaves it out.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DaysOfMonth {
    /// Days of the month.
    pub days: List<Within<u8, 1, 31>, 1, { limits::SCHEDULE_LIST_MAX }>,
}

/// Whether a schedule fires.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"schedule_state": "paused"}]))]
pub struct ScheduleTurn {
    pub schedule_state: ScheduleState,
}
