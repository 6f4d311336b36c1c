//! When a scheduled job fires (SPEC 6.20): once at a wall-clock time, at an interval, or at hours of days of a calendar. Pure:
//! what the rule says, not whether anybody acts on it.

use crate::{Timestamp, limits};
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{Span, ToSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

/// Ours, and not the machine's: whoever computes when something fires gets the same answer.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// No two days of any calendar rule are further apart: the 31st of July of one year, say, and nothing but the 30th of
/// February before it.
const DAYS_AHEAD: u32 = 70;
/// Changes of a zone that are looked at to find the one that skips a wall-clock time.
const CHANGES_AHEAD: usize = 8;

/// When a job runs: one of `at`, `rate` and `calendar`, and the time zone, unless it is a rate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [
    {"calendar": {"cadence": {"weekly": {"days": ["mon", "fri"]}}, "times_of_day": ["09:00"]}, "timezone":
    "Europe/Berlin"}
]))]
pub struct Schedule {
    #[serde(flatten)]
    pub rule: Rule,
    /// There for rules that speak of wall-clock times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<Zone>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    At(WallTime),
    Rate(Interval),
    Calendar(Calendar),
}

/// A local time in the time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
#[schemars(extend("examples" = ["2026-09-01T09:00:00"]))]
pub struct WallTime(DateTime);

/// Every so often, counted from when the schedule was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"every": 15, "unit": "minute"}]))]
pub struct Interval {
    /// How many units.
    #[schemars(range(min = 1))]
    every: u32,
    unit: Unit,
}

/// `minute`, `hour`, or `day`, which is 24 hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Minute,
    Hour,
    Day,
}

/// At these hours of some days.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Calendar {
    /// Full hours.
    #[schemars(extend("examples" = [["09:00"]]))]
    pub times_of_day: BTreeSet<Hour>,
    pub cadence: Cadence,
}

/// A full hour, `00:00` to `23:00`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", extend("pattern" = "^([01][0-9]|2[0-3]):00$"))]
#[schemars(extend("examples" = ["09:00"]))]
pub struct Hour(u8);

/// Which days: one of `daily`, `weekly` and `monthly`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cadence {
    /// Every day: an empty object.
    Daily {},
    /// Some days of every week.
    Weekly {
        /// Days of the week.
        days: BTreeSet<Weekday>,
    },
    /// Some days of every month. A month without such a day leaves it out.
    Monthly {
        /// Days of the month.
        #[schemars(inner(range(min = 1, max = 31)))]
        days: BTreeSet<u8>,
    },
}

/// A day of the week: `mon`, `tue`, `wed`, `thu`, `fri`, `sat` or `sun`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Weekday {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

/// The name of an IANA time zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(rename = "TimeZone")]
#[schemars(extend("examples" = ["Europe/Berlin"]))]
pub struct Zone(String);

/// A text is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("must be a time like 2026-09-01T09:00:00, without a zone or an offset")]
    WallTime,
    #[error("must be a full hour, \"00:00\" to \"23:00\"")]
    Hour,
    #[error("must be the name of an IANA time zone, like Europe/Berlin")]
    Zone,
}

impl Schedule {
    /// The first fire after a moment; `None` if there is none. `anchor`: from when on intervals are counted.
    pub fn next_after(&self, anchor: Timestamp, now: Timestamp) -> Option<Timestamp> {
        match &self.rule {
            Rule::Rate(interval) => interval.next_after(anchor, now),
            Rule::At(wall) => {
                let zone = self.timezone.as_ref()?.resolve()?;
                first_moment(&zone, wall.0).filter(|at| *at > now)
            }
            Rule::Calendar(calendar) => {
                let zone = self.timezone.as_ref()?.resolve()?;
                calendar.next_after(&zone, now)
            }
        }
    }
}

/// The first moment at which a clock in the zone shows that time or a later one. So a time that is skipped when clocks go
/// forward is the moment after the gap, and one that comes twice when they go back is the first of the two.
fn first_moment(zone: &TimeZone, wall: DateTime) -> Option<Timestamp> {
    let moment = match zone.to_ambiguous_timestamp(wall).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(wall).ok()?,
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(wall).ok()?,
        AmbiguousOffset::Gap { after, .. } => {
            // Under the offset that holds afterwards, the time that never was lies before the change.
            let before_the_change = after.to_timestamp(wall).ok()?;
            let mut changes = zone.following(before_the_change).take(CHANGES_AHEAD);
            changes.find(|change| zone.to_datetime(change.timestamp()) >= wall)?.timestamp()
        }
    };
    Some(Timestamp(moment.as_millisecond()))
}

impl Interval {
    /// `None` if it is nothing, or longer than is allowed.
    pub fn new(every: u32, unit: Unit) -> Option<Interval> {
        let interval = Interval { every, unit };
        (every >= 1 && interval.length() <= limits::SCHEDULE_INTERVAL_MAX).then_some(interval)
    }

    pub fn length(self) -> Duration {
        let seconds = match self.unit {
            Unit::Minute => 60,
            Unit::Hour => 3_600,
            Unit::Day => 24 * 3_600,
        };
        Duration::from_secs(u64::from(self.every) * seconds)
    }

    /// Counted from the anchor, so that being late once makes nothing after it late.
    fn next_after(self, anchor: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let length = i64::try_from(self.length().as_millis()).ok().filter(|length| *length > 0)?;
        let passed = now.0.saturating_sub(anchor.0).max(0) / length;
        let next = anchor.0.checked_add(passed.checked_add(1)?.checked_mul(length)?)?;
        Some(Timestamp(next))
    }
}

impl Calendar {
    fn next_after(&self, zone: &TimeZone, now: Timestamp) -> Option<Timestamp> {
        let now = jiff::Timestamp::from_millisecond(now.0).ok()?;
        // A day and more back: what the wall showed then may still be to come, where a gap swallowed it.
        let mut day = zone.to_datetime(now).date().checked_sub(2.days()).ok()?;
        for _ in 0..DAYS_AHEAD {
            if self.cadence.has(day) {
                // Later times of a day are never earlier moments, so the first that is after now is the next.
                let moments = self.times_of_day.iter().filter_map(|hour| first_moment(zone, hour.on(day)?));
                if let Some(next) = moments.into_iter().find(|at| at.0 > now.as_millisecond()) {
                    return Some(next);
                }
            }
            day = day.checked_add(Span::new().days(1)).ok()?;
        }
        None
    }
}

impl Cadence {
    fn has(&self, day: Date) -> bool {
        match self {
            Cadence::Daily {} => true,
            Cadence::Weekly { days } => days.contains(&Weekday::of(day)),
            Cadence::Monthly { days } => days.contains(&day.day().unsigned_abs()),
        }
    }
}

impl Weekday {
    fn of(day: Date) -> Weekday {
        match day.weekday() {
            jiff::civil::Weekday::Monday => Weekday::Mon,
            jiff::civil::Weekday::Tuesday => Weekday::Tue,
            jiff::civil::Weekday::Wednesday => Weekday::Wed,
            jiff::civil::Weekday::Thursday => Weekday::Thu,
            jiff::civil::Weekday::Friday => Weekday::Fri,
            jiff::civil::Weekday::Saturday => Weekday::Sat,
            jiff::civil::Weekday::Sunday => Weekday::Sun,
        }
    }
}

impl Hour {
    fn on(self, day: Date) -> Option<DateTime> {
        Some(day.to_datetime(Time::new(i8::try_from(self.0).ok()?, 0, 0, 0).ok()?))
    }
}

impl TryFrom<String> for Hour {
    type Error = Malformed;

    fn try_from(text: String) -> Result<Hour, Malformed> {
        let hour = text.strip_suffix(":00").filter(|hour| hour.len() == 2);
        let hour = hour.filter(|hour| hour.bytes().all(|b| b.is_ascii_digit()));
        let hour: u8 = hour.and_then(|hour| hour.parse().ok()).ok_or(Malformed::Hour)?;
        (hour < 24).then_some(Hour(hour)).ok_or(Malformed::Hour)
    }
}

impl From<Hour> for String {
    fn from(Hour(hour): Hour) -> String {
        format!("{hour:02}:00")
    }
}

impl TryFrom<String> for WallTime {
    type Error = Malformed;

    /// Date and time with nothing behind them: what a time in another zone would be is not for us to guess.
    fn try_from(text: String) -> Result<WallTime, Malformed> {
        let (_, time) = text.split_once(['T', 't', ' ']).ok_or(Malformed::WallTime)?;
        let plain = time.len() >= 5 && time.bytes().all(|b| b.is_ascii_digit() || matches!(b, b':' | b'.'));
        let parsed = plain.then(|| text.parse().ok()).flatten();
        parsed.map(WallTime).ok_or(Malformed::WallTime)
    }
}

impl From<WallTime> for String {
    fn from(WallTime(time): WallTime) -> String {
        time.to_string()
    }
}

impl Zone {
    /// Under the name that it has in the database, however it was capitalised.
    pub fn parse(name: &str) -> Result<Zone, Malformed> {
        let known = ZONES.get(name).ok();
        let name = known.as_ref().and_then(TimeZone::iana_name).ok_or(Malformed::Zone)?;
        Ok(Zone(name.to_owned()))
    }

    fn resolve(&self) -> Option<TimeZone> {
        ZONES.get(&self.0).ok()
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
#[path = "calendar_tests.rs"]
mod tests;
