//! A schedule as callers write it (SPEC 6.20, 10).

use super::read;
use crate::problem::{ApiError, Result};
use crate::warnings::Warnings;
use conveyor_domain::Schedule;
use conveyor_domain::limits;
use conveyor_domain::schedule::calendar::{Cadence, Calendar, Interval, Rule, Zone};
use conveyor_wire::{CadenceBody, ScheduleBody};

pub(crate) fn parse(body: &[u8], warnings: &Warnings) -> Result<Schedule> {
    schedule("", read(body, warnings)?)
}

/// A schedule whose fields callers find under `within`.
pub(crate) fn schedule(within: &str, body: ScheduleBody) -> Result<Schedule> {
    let ScheduleBody { at, rate, calendar, timezone } = body;
    let zone = || {
        let path = format!("{within}timezone");
        let name = timezone.ok_or_else(|| ApiError::invalid(format!("`{path}` is missing.")))?;
        Zone::parse(&name).map_err(|why| ApiError::invalid(format!("`{path}` {why}.")))
    };
    let (rule, timezone) = match (at, rate, calendar) {
        // An interval has nothing to do with any wall: a zone is not looked at.
        (None, Some(rate), None) => {
            let days = limits::SCHEDULE_INTERVAL_MAX.as_secs() / (24 * 3_600);
            let expected = format!("a number from 1 on, and the interval at most {days} days");
            let too_long = || ApiError::invalid(format!("`{within}rate.every` must be {expected}."));
            (Rule::Rate(Interval::new(rate.every.0, rate.unit).ok_or_else(too_long)?), None)
        }
        (Some(at), None, None) => (Rule::At(at), Some(zone()?)),
        (None, None, Some(calendar)) => {
            let times_of_day = calendar.times_of_day.0.into_iter().collect();
            let cadence = cadence(&format!("{within}calendar.cadence."), calendar.cadence)?;
            (Rule::Calendar(Calendar { times_of_day, cadence }), Some(zone()?))
        }
        _ => return Err(exactly_one(within, ["at", "rate", "calendar"])),
    };
    Ok(Schedule { rule, timezone })
}

fn cadence(within: &str, body: CadenceBody) -> Result<Cadence> {
    match (body.daily, body.weekly, body.monthly) {
        (Some(_), None, None) => Ok(Cadence::Daily {}),
        (None, Some(weekly), None) => Ok(Cadence::Weekly { days: weekly.days.0.into_iter().collect() }),
        (None, None, Some(monthly)) => {
            Ok(Cadence::Monthly { days: monthly.days.0.into_iter().map(|day| day.0).collect() })
        }
        _ => Err(exactly_one(within, ["daily", "weekly", "monthly"])),
    }
}

fn exactly_one(within: &str, names: [&str; 3]) -> ApiError {
    let names = names.map(|name| format!("`{within}{name}`"));
    ApiError::invalid(format!("Exactly one of {} must be set.", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Unrendered;
    use axum::response::IntoResponse;

    fn refused(body: &str) -> String {
        let parsed = parse(body.as_bytes(), &Warnings::strict());
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
            let parsed = parse(body.as_bytes(), &Warnings::strict()).unwrap();
            assert_eq!(serde_json::to_string(&parsed).unwrap(), body);
        }
        let nulls = br#"{"at":null,"calendar":null,"rate":{"every":1,"unit":"day"},"timezone":"nowhere"}"#;
        let parsed = parse(nulls, &Warnings::strict()).unwrap();
        assert_eq!(parsed.timezone, None, "an interval has no zone");
        let twice = br#"{"calendar":{"times_of_day":["18:00","09:00","18:00"],"cadence":{"daily":{}}},"timezone":"utc"}"#;
        let parsed = parse(twice, &Warnings::strict()).unwrap();
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
            (r#"{"at":"2026-09-01T09:00:00"}"#, "`timezone` is missing."),
            (
                r#"{"at":"2026-09-01T09:00:00Z","timezone":"UTC"}"#,
                "`at` must be a time like 2026-09-01T09:00:00, without a zone or an offset.",
            ),
            (
                r#"{"at":"2026-09-01T09:00:00","timezone":"Mars/Base"}"#,
                "`timezone` must be the name of an IANA time zone, like Europe/Berlin.",
            ),
            (r#"{"rate":{"every":0,"unit":"day"}}"#, "`rate.every` must be a number from 1 to 527040."),
            (
                r#"{"rate":{"every":9000,"unit":"hour"}}"#,
                "`rate.every` must be a number from 1 on, and the interval at most 366 days.",
            ),
            (r#"{"rate":{"every":1,"unit":"week"}}"#, "`rate.unit` must be \"minute\", \"hour\" or \"day\"."),
            (r#"{"rate":{"unit":"day"}}"#, "`rate.every` is missing."),
            (
                r#"{"calendar":{"times_of_day":["09:30"],"cadence":{"daily":{}}},"timezone":"UTC"}"#,
                "`calendar.times_of_day[0]` must be a full hour, \"00:00\" to \"23:00\".",
            ),
            (
                r#"{"calendar":{"times_of_day":[],"cadence":{"daily":{}}},"timezone":"UTC"}"#,
                "`calendar.times_of_day` must have 1 to 100 items.",
            ),
            (
                r#"{"calendar":{"times_of_day":["09:00"],"cadence":{}},"timezone":"UTC"}"#,
                "Exactly one of `calendar.cadence.daily`, `calendar.cadence.weekly`, `calendar.cadence.monthly` must be set.",
            ),
            (
                r#"{"calendar":{"times_of_day":["09:00"],"cadence":{"monthly":{"days":[32]}}},"timezone":"UTC"}"#,
                "`calendar.cadence.monthly.days[0]` must be a number from 1 to 31.",
            ),
            (
                r#"{"calendar":{"times_of_day":["09:00"],"cadence":{"weekly":{"days":["xyz"]}}},"timezone":"UTC"}"#,
                "`calendar.cadence.weekly.days[0]` must be \"mon\", \"tue\", \"wed\", \"thu\", \"fri\", \"sat\" or \"sun\".",
            ),
        ] {
            assert_eq!(refused(body), said);
        }
    }
}
