//! A schedule as callers write it (SPEC 6.20, 10), checked field by field.

use crate::fields::Fields;
use crate::problem::{ApiError, Result};
use crate::warnings::Warnings;
use conveyor_domain::schedule::calendar::{
    Cadence, Calendar, Hour, Interval, Malformed, Rule, Unit, WallTime, Zone,
};
use conveyor_domain::{Schedule, ScheduleState, Weekday, limits};
use std::collections::BTreeSet;

pub(crate) const FIELDS: &[&str] = &["at", "rate", "calendar", "timezone"];

pub(crate) fn parse(fields: &Fields<'_>) -> Result<Schedule> {
    let given: Vec<_> = ["at", "rate", "calendar"].into_iter().filter(|name| fields.has(name)).collect();
    let [name] = given[..] else {
        let names = ["at", "rate", "calendar"].map(|name| format!("`{}`", fields.path(name)));
        return Err(ApiError::invalid(format!("Exactly one of {} must be set.", names.join(", "))));
    };
    match name {
        // An interval has nothing to do with any wall: a zone is not looked at.
        "rate" => Ok(Schedule { rule: Rule::Rate(parse_rate(fields)?), timezone: None }),
        "at" => Ok(Schedule { rule: Rule::At(parse_at(fields)?), timezone: Some(parse_zone(fields)?) }),
        _ => {
            let rule = Rule::Calendar(parse_calendar(fields)?);
            Ok(Schedule { rule, timezone: Some(parse_zone(fields)?) })
        }
    }
}

/// What a caller turns a schedule to.
pub(crate) fn parse_state(body: &[u8], warnings: &Warnings) -> Result<ScheduleState> {
    const EXPECTED: &str = "\"active\" or \"paused\"";
    let fields = Fields::parse(body, &["schedule_state"], warnings)?;
    let state = fields.get("schedule_state", EXPECTED)?;
    state.ok_or_else(|| ApiError::invalid(format!("`schedule_state` must be {EXPECTED}.")))
}

fn malformed(fields: &Fields<'_>, name: &str, why: Malformed) -> ApiError {
    ApiError::invalid(format!("`{}` must be {why}.", fields.path(name)))
}

fn required<T>(fields: &Fields<'_>, name: &str, found: Option<T>) -> Result<T> {
    found.ok_or_else(|| ApiError::invalid(format!("`{}` is required.", fields.path(name))))
}

fn parse_at(fields: &Fields<'_>) -> Result<WallTime> {
    let text: Option<String> = fields.get("at", &Malformed::WallTime.to_string())?;
    let text = required(fields, "at", text)?;
    WallTime::try_from(text).map_err(|why| malformed(fields, "at", why))
}

fn parse_zone(fields: &Fields<'_>) -> Result<Zone> {
    let name: Option<String> = fields.get("timezone", &Malformed::Zone.to_string())?;
    let name = required(fields, "timezone", name)?;
    Zone::parse(&name).map_err(|why| malformed(fields, "timezone", why))
}

fn parse_rate(fields: &Fields<'_>) -> Result<Interval> {
    let rate = required(fields, "rate", fields.nested("rate", &["every", "unit"])?)?;
    let unit: Option<Unit> = rate.get("unit", "\"minute\", \"hour\" or \"day\"")?;
    let unit = required(&rate, "unit", unit)?;
    let days = limits::SCHEDULE_INTERVAL_MAX.as_secs() / (24 * 3_600);
    let expected = format!("a number from 1 on, and the interval at most {days} days");
    let every: Option<u32> = rate.get("every", &expected)?;
    let every = required(&rate, "every", every)?;
    let too_long = || ApiError::invalid(format!("`{}` must be {expected}.", rate.path("every")));
    Interval::new(every, unit).ok_or_else(too_long)
}

fn parse_calendar(fields: &Fields<'_>) -> Result<Calendar> {
    let calendar = required(fields, "calendar", fields.nested("calendar", &["times_of_day", "cadence"])?)?;
    let times: BTreeSet<String> = set(&calendar, "times_of_day", "a list of full hours")?;
    let hour = |text| Hour::try_from(text).map_err(|why| malformed(&calendar, "times_of_day", why));
    Ok(Calendar {
        times_of_day: times.into_iter().map(hour).collect::<Result<_>>()?,
        cadence: parse_cadence(&calendar)?,
    })
}

fn parse_cadence(calendar: &Fields<'_>) -> Result<Cadence> {
    let cadence =
        required(calendar, "cadence", calendar.nested("cadence", &["daily", "weekly", "monthly"])?)?;
    let daily = cadence.nested("daily", &[])?;
    let weekly = cadence.nested("weekly", &["days"])?;
    let monthly = cadence.nested("monthly", &["days"])?;
    match (daily, weekly, monthly) {
        (Some(_), None, None) => Ok(Cadence::Daily {}),
        (None, Some(weekly), None) => {
            let days: BTreeSet<Weekday> = set(&weekly, "days", "a list of days, \"mon\" to \"sun\"")?;
            Ok(Cadence::Weekly { days })
        }
        (None, None, Some(monthly)) => {
            const EXPECTED: &str = "a list of days, 1 to 31";
            let days: BTreeSet<u8> = set(&monthly, "days", EXPECTED)?;
            match days.iter().all(|day| (1..=31).contains(day)) {
                true => Ok(Cadence::Monthly { days }),
                false => Err(ApiError::invalid(format!("`{}` must be {EXPECTED}.", monthly.path("days")))),
            }
        }
        _ => {
            let names = ["daily", "weekly", "monthly"].map(|name| format!("`{}`", cadence.path(name)));
            Err(ApiError::invalid(format!("Exactly one of {} must be set.", names.join(", "))))
        }
    }
}

/// A list that is not empty; what is named twice counts once.
fn set<T: serde::de::DeserializeOwned + Ord>(
    fields: &Fields<'_>,
    name: &str,
    expected: &str,
) -> Result<BTreeSet<T>> {
    let items: Option<Vec<T>> = fields.get(name, expected)?;
    let items = required(fields, name, items)?;
    let path = fields.path(name);
    match items.len() {
        0 => Err(ApiError::invalid(format!("`{path}` must not be empty."))),
        n if n > limits::SCHEDULE_LIST_MAX => {
            Err(ApiError::invalid(format!("`{path}` has more than {} items.", limits::SCHEDULE_LIST_MAX)))
        }
        _ => Ok(items.into_iter().collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Unrendered;
    use axum::response::IntoResponse;

    fn refused(body: &str) -> String {
        let parsed =
            Fields::parse(body.as_bytes(), FIELDS, &Warnings::strict()).and_then(|fields| parse(&fields));
        let response = parsed.unwrap_err().into_response();
        let problem = response.extensions().get::<Unrendered>().unwrap().problem.clone();
        assert_eq!((problem.status, problem.code.as_str()), (400, "invalid_argument"), "{body}");
        problem.detail.unwrap()
    }

    #[test]
    fn every_shape_of_a_schedule_is_taken_and_comes_back_as_it_was() {
        for body in [
            r#"{"at":"2026-09-01T09:00:00","timezone":"Europe/Berlin"}"#,
            r#"{"rate":{"every":15,"unit":"minute"}}"#,
            r#"{"calendar":{"times_of_day":["09:00"],"cadence":{"daily":{}}},"timezone":"UTC"}"#,
            r#"{"calendar":{"times_of_day":["09:00"],"cadence":{"weekly":{"days":["fri"]}}},"timezone":"UTC"}"#,
            r#"{"calendar":{"times_of_day":["09:00"],"cadence":{"monthly":{"days":[1,31]}}},"timezone":"UTC"}"#,
        ] {
            let parsed =
                parse(&Fields::parse(body.as_bytes(), FIELDS, &Warnings::strict()).unwrap()).unwrap();
            assert_eq!(serde_json::to_string(&parsed).unwrap(), body);
        }
        let nulls = br#"{"at":null,"calendar":null,"rate":{"every":1,"unit":"day"},"timezone":"nowhere"}"#;
        let parsed = parse(&Fields::parse(nulls, FIELDS, &Warnings::strict()).unwrap()).unwrap();
        assert_eq!(parsed.timezone, None, "an interval has no zone");
        let twice = br#"{"calendar":{"times_of_day":["18:00","09:00","18:00"],"cadence":{"daily":{}}},"timezone":"utc"}"#;
        let parsed = parse(&Fields::parse(twice, FIELDS, &Warnings::strict()).unwrap()).unwrap();
        let Rule::Calendar(calendar) = parsed.rule else { panic!() };
        assert_eq!(calendar.times_of_day.len(), 2);
    }

    #[test]
    fn complaints_name_what_is_wrong() {
        for (body, said) in [
            ("{}", "Exactly one of `at`, `rate`, `calendar` must be set."),
            (
                r#"{"at":"2026-09-01T09:00:00","rate":{"every":1,"unit":"day"}}"#,
                "Exactly one of `at`, `rate`, `calendar` must be set.",
            ),
            (r#"{"at":"2026-09-01T09:00:00"}"#, "`timezone` is required."),
            (
                r#"{"at":"2026-09-01T09:00:00Z","timezone":"UTC"}"#,
                "`at` must be a time like 2026-09-01T09:00:00, without a zone or an offset.",
            ),
            (
                r#"{"at":"2026-09-01T09:00:00","timezone":"Mars/Base"}"#,
                "`timezone` must be the name of an IANA time zone, like Europe/Berlin.",
            ),
            (
                r#"{"rate":{"every":0,"unit":"day"}}"#,
                "`rate.every` must be a number from 1 on, and the interval at most 366 days.",
            ),
            (
                r#"{"rate":{"every":9000,"unit":"hour"}}"#,
                "`rate.every` must be a number from 1 on, and the interval at most 366 days.",
            ),
            (r#"{"rate":{"every":1,"unit":"week"}}"#, "`rate.unit` must be \"minute\", \"hour\" or \"day\"."),
            (r#"{"rate":{"unit":"day"}}"#, "`rate.every` is required."),
            (
                r#"{"calendar":{"times_of_day":["09:30"],"cadence":{"daily":{}}},"timezone":"UTC"}"#,
                "`calendar.times_of_day` must be full hours, \"00:00\" to \"23:00\".",
            ),
            (
                r#"{"calendar":{"times_of_day":[],"cadence":{"daily":{}}},"timezone":"UTC"}"#,
                "`calendar.times_of_day` must not be empty.",
            ),
            (
                r#"{"calendar":{"times_of_day":["09:00"],"cadence":{}},"timezone":"UTC"}"#,
                "Exactly one of `calendar.cadence.daily`, `calendar.cadence.weekly`, `calendar.cadence.monthly` must be set.",
            ),
            (
                r#"{"calendar":{"times_of_day":["09:00"],"cadence":{"monthly":{"days":[32]}}},"timezone":"UTC"}"#,
                "`calendar.cadence.monthly.days` must be a list of days, 1 to 31.",
            ),
            (
                r#"{"calendar":{"times_of_day":["09:00"],"cadence":{"weekly":{"days":["xyz"]}}},"timezone":"UTC"}"#,
                "`calendar.cadence.weekly.days` must be a list of days, \"mon\" to \"sun\".",
            ),
        ] {
            assert_eq!(refused(body), said);
        }
    }
}
