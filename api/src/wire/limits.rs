//! What a caller says about how fast its job may go (SPEC 10).

use super::read_some;
use crate::problem::{ApiError, Result};
use crate::warnings::Warnings;
use conveyor_domain::job::failure::cut;
use conveyor_domain::{
    DomainLimit, DomainLimits, FailureRatio, InvalidDomain, LimitsChange, Rate, RetryChoice, limits,
};
use conveyor_wire::{self as wire, ChangeLimits, DomainLimitsBody, RateBody, RetryBody};
use std::collections::BTreeMap;

/// What a request changes. A field that is not there stays; one that is null goes back to what it is without a choice.
pub(crate) fn parse_change(body: &[u8], warnings: &Warnings) -> Result<LimitsChange> {
    let change: ChangeLimits = read_some(body, warnings)?;
    Ok(LimitsChange {
        max_inflight: change.max_inflight.map(|most| most.0),
        rate: change.rate_limit.map(rate_limit).transpose()?,
        retry: change.retry.map(retry).transpose()?,
        domain_limits: change.domain_limits.map(domain_limits).transpose()?,
        max_failure_ratio: change.max_failure_ratio.map(max_failure_ratio).transpose()?,
    })
}

pub(crate) fn rate_limit(body: Option<RateBody>) -> Result<Option<Rate>> {
    let Some(RateBody { per_second, burst }) = body else { return Ok(None) };
    rate("rate_limit", per_second, burst.map(|burst| burst.0)).map(Some)
}

fn rate(path: &str, per_second: wire::PerSecond, burst: Option<u32>) -> Result<Rate> {
    Rate::new(per_second.0, burst).map_err(|why| ApiError::invalid(format!("`{path}`: {why}.")))
}

pub(crate) fn retry(body: Option<RetryBody>) -> Result<RetryChoice> {
    let RetryBody { attempts_max, base_ms, cap_ms } = body.unwrap_or_default();
    let choice = RetryChoice {
        attempts_max: attempts_max.map(|attempts| attempts.0),
        base_ms: base_ms.map(|ms| ms.0),
        cap_ms: cap_ms.map(|ms| ms.0),
    };
    match (choice.base_ms, choice.cap_ms) {
        (Some(base), Some(cap)) if cap < base => {
            Err(ApiError::invalid("`retry.cap_ms` must not be less than `retry.base_ms`."))
        }
        (Some(_) | None, Some(_) | None) => Ok(choice),
    }
}

pub(crate) fn domain_limits(body: Option<DomainLimitsBody>) -> Result<DomainLimits> {
    let mut known = BTreeMap::new();
    for (name, limit) in body.into_iter().flat_map(|body| body.0.0) {
        let path = format!("domain_limits.{}", cut(&name, limits::ECHO_MAX_CHARS));
        let rate = match (limit.per_second, limit.burst) {
            (Some(per_second), burst) => Some(rate(&path, per_second, burst.map(|burst| burst.0))?),
            (None, Some(_)) => {
                return Err(ApiError::invalid(format!("`{path}.burst` needs `per_second`.")));
            }
            (None, None) => None,
        };
        let limit = DomainLimit { rate, max_inflight: limit.max_inflight.map(|most| most.0) };
        let one = DomainLimits::new([(name, limit)]).map_err(|why| invalid_domain(&path, &why))?;
        // As it is compared: one host under two spellings would have two limits, of which only one could hold.
        for (normal, limit) in one.iter() {
            if known.insert(normal.to_owned(), limit).is_some() {
                return Err(ApiError::invalid(format!("`domain_limits.{normal}` is given twice.")));
            }
        }
    }
    DomainLimits::new(known).map_err(|why| ApiError::invalid(format!("`domain_limits`: {why}.")))
}

pub(crate) fn max_failure_ratio(ratio: Option<wire::FailureRatio>) -> Result<Option<FailureRatio>> {
    let Some(ratio) = ratio else { return Ok(None) };
    let invalid = || ApiError::invalid("`max_failure_ratio` must be a number from 0.000001 to 1.");
    FailureRatio::new(ratio.0).map(Some).ok_or_else(invalid)
}

fn invalid_domain(path: &str, why: &InvalidDomain) -> ApiError {
    ApiError::invalid(match why {
        InvalidDomain::Name(_) => {
            format!("`{path}` must name a host as in a URL, without port or path, or be `domain_limits.*`.")
        }
        InvalidDomain::Empty(_) => format!("`{path}` needs `per_second` or `max_inflight`."),
        InvalidDomain::TooMany => format!("`{path}`: {why}."),
    })
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
