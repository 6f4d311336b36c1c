//! What a caller says about how fast its job may go, and how it is told (SPEC 10).

use crate::fields::Fields;
use crate::problem::{ApiError, Result};
use crate::warnings::Warnings;
use conveyor_domain::job::failure::cut;
use conveyor_domain::{
    DomainLimit, DomainLimits, FailureRatio, InvalidDomain, LimitsChange, Rate, RetryChoice, limits,
};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

pub(crate) const CHANGES: &[&str] =
    &["max_inflight", "rate_limit", "retry", "domain_limits", "max_failure_ratio"];
const RATE: &[&str] = &["per_second", "burst"];
const RETRY: &[&str] = &["attempts_max", "base_ms", "cap_ms"];
const DOMAIN: &[&str] = &["per_second", "burst", "max_inflight"];
pub(crate) const PER_SECOND_MIN: f64 = 0.001;

/// What a request changes. A field that is not there stays; one that is null goes back to what it is without a choice.
pub(crate) fn parse_change(body: &[u8], warnings: &Warnings) -> Result<LimitsChange> {
    let fields = Fields::parse(body, CHANGES, warnings)?;
    if !CHANGES.iter().any(|name| fields.is_given(name)) {
        let names: Vec<String> = CHANGES.iter().map(|name| format!("`{name}`")).collect();
        return Err(ApiError::invalid(format!("The body must have one of {}.", names.join(", "))));
    }
    let max_inflight = parse_max_inflight(&fields)?;
    if max_inflight.is_none() && fields.is_given("max_inflight") {
        return Err(ApiError::invalid("`max_inflight` must be a number: no job is without it."));
    }
    let given = |name| fields.is_given(name).then_some(&fields);
    Ok(LimitsChange {
        max_inflight,
        rate: given("rate_limit").map(parse_rate_limit).transpose()?,
        retry: given("retry").map(parse_retry).transpose()?,
        domain_limits: given("domain_limits").map(parse_domain_limits).transpose()?,
        max_failure_ratio: given("max_failure_ratio").map(parse_max_failure_ratio).transpose()?,
    })
}

pub(crate) fn parse_max_inflight(fields: &Fields<'_>) -> Result<Option<u32>> {
    number(fields, "max_inflight", 1..=limits::MAX_INFLIGHT_MAX)
}

pub(crate) fn parse_result_ttl_days(fields: &Fields<'_>) -> Result<Option<u32>> {
    number(fields, "result_ttl_days", 1..=limits::RESULT_TTL_DAYS_MAX)
}

/// How many things of a kind one request is about.
pub(crate) fn parse_limit(fields: &Fields<'_>, max: u32) -> Result<Option<u32>> {
    number(fields, "limit", 1..=max)
}

pub(crate) fn parse_per_second(fields: &Fields<'_>) -> Result<Option<f64>> {
    number(fields, "per_second", PER_SECOND_MIN..=f64::from(limits::RATE_MAX))
}

pub(crate) fn parse_rate_limit(fields: &Fields<'_>) -> Result<Option<Rate>> {
    let Some(fields) = fields.nested("rate_limit", RATE)? else { return Ok(None) };
    match parse_rate(&fields)? {
        Some(rate) => Ok(Some(rate)),
        None => Err(ApiError::invalid("`rate_limit.per_second` is missing.")),
    }
}

pub(crate) fn parse_retry(fields: &Fields<'_>) -> Result<RetryChoice> {
    let Some(fields) = fields.nested("retry", RETRY)? else { return Ok(RetryChoice::default()) };
    let choice = RetryChoice {
        attempts_max: number(&fields, "attempts_max", 1..=limits::RETRY_ATTEMPTS_MAX)?,
        base_ms: number(&fields, "base_ms", 1..=ms(limits::RETRY_BASE_MAX))?,
        cap_ms: number(&fields, "cap_ms", 1..=ms(limits::RETRY_CAP_MAX))?,
    };
    match (choice.base_ms, choice.cap_ms) {
        (Some(base), Some(cap)) if cap < base => {
            Err(ApiError::invalid("`retry.cap_ms` must not be less than `retry.base_ms`."))
        }
        (Some(_) | None, Some(_) | None) => Ok(choice),
    }
}

pub(crate) fn parse_domain_limits(fields: &Fields<'_>) -> Result<DomainLimits> {
    let named = fields.named("domain_limits", DOMAIN, limits::DOMAIN_LIMITS_MAX)?;
    let mut known = BTreeMap::new();
    for (name, fields) in named.unwrap_or_default() {
        let limit = DomainLimit { rate: parse_rate(&fields)?, max_inflight: parse_max_inflight(&fields)? };
        let one = DomainLimits::new([(name.clone(), limit)]).map_err(|why| invalid_domain(&name, &why))?;
        // As it is compared: one host under two spellings would have two limits, of which only one could hold.
        for (normal, limit) in one.iter() {
            if known.insert(normal.to_owned(), limit).is_some() {
                return Err(ApiError::invalid(format!("`domain_limits.{normal}` is given twice.")));
            }
        }
    }
    DomainLimits::new(known).map_err(|why| ApiError::invalid(format!("`domain_limits`: {why}.")))
}

pub(crate) fn parse_max_failure_ratio(fields: &Fields<'_>) -> Result<Option<FailureRatio>> {
    const EXPECTED: &str = "a number from 0.000001 to 1";
    let Some(ratio) = fields.get::<f64>("max_failure_ratio", EXPECTED)? else { return Ok(None) };
    let invalid = || ApiError::invalid(format!("`max_failure_ratio` must be {EXPECTED}."));
    FailureRatio::new(ratio).map(Some).ok_or_else(invalid)
}

fn invalid_domain(name: &str, why: &InvalidDomain) -> ApiError {
    let path = format!("domain_limits.{}", cut(name, limits::ECHO_MAX_CHARS));
    ApiError::invalid(match why {
        InvalidDomain::Name(_) => {
            format!("`{path}` must name a host as in a URL, without port or path, or be `domain_limits.*`.")
        }
        InvalidDomain::Empty(_) => format!("`{path}` needs `per_second` or `max_inflight`."),
        InvalidDomain::TooMany => format!("`{path}`: {why}."),
    })
}

/// The rate of an object that has one among its fields.
fn parse_rate(fields: &Fields<'_>) -> Result<Option<Rate>> {
    let per_second = parse_per_second(fields)?;
    let burst = number(fields, "burst", 1..=limits::BURST_MAX)?;
    let Some(per_second) = per_second else {
        return match burst {
            Some(_) => Err(ApiError::invalid(format!("`{}` needs `per_second`.", fields.path("burst")))),
            None => Ok(None),
        };
    };
    let rate = Rate::new(per_second, burst);
    rate.map(Some).map_err(|why| ApiError::invalid(format!("`{}`: {why}.", fields.path("per_second"))))
}

pub(crate) fn number<T>(fields: &Fields<'_>, name: &str, range: RangeInclusive<T>) -> Result<Option<T>>
where
    T: DeserializeOwned + PartialOrd + Display,
{
    let expected = format!("a number from {} to {}", range.start(), range.end());
    match fields.get::<T>(name, &expected)? {
        Some(n) if !range.contains(&n) => {
            Err(ApiError::invalid(format!("`{}` must be {expected}.", fields.path(name))))
        }
        fits => Ok(fits),
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
