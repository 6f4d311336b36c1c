//! `--domain-limit NAME=SPEC`: what may go to a site, as servers and submits are told it.

use conveyor_client::wire::{Decimal, DomainLimitBody, DomainLimitsBody, Named};
use conveyor_domain::{DomainLimit, DomainLimits, Rate, limits};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedLimit {
    /// As hosts are compared.
    name: String,
    limit: DomainLimit,
}

/// Reads `example.com=5/s,burst=10,inflight=3`, or any part of that behind the name.
pub fn parse(text: &str) -> Result<NamedLimit, String> {
    let (name, spec) = text.split_once('=').ok_or("not NAME=SPEC, such as example.com=5/s,inflight=3")?;
    let limit = parse_spec(spec)?;
    let known = DomainLimits::new([(name.to_owned(), limit)]).map_err(|e| e.to_string())?;
    let (name, limit) = known.iter().next().ok_or("names nothing")?;
    Ok(NamedLimit { name: name.to_owned(), limit })
}

fn parse_spec(spec: &str) -> Result<DomainLimit, String> {
    let (mut per_second, mut burst, mut max_inflight) = (None, None, None);
    for part in spec.split(',').map(str::trim) {
        if let Some(rate) = part.strip_suffix("/s") {
            set(&mut per_second, "the rate", rate, part)?;
        } else if let Some(count) = part.strip_prefix("burst=") {
            set(&mut burst, "burst", count, part)?;
        } else if let Some(count) = part.strip_prefix("inflight=") {
            set(&mut max_inflight, "inflight", count, part)?;
        } else {
            return Err(format!("`{part}` is none of `5/s`, `burst=10`, `inflight=3`"));
        }
    }
    let rate = match (per_second, burst) {
        (Some(per_second), burst) => Some(Rate::new(per_second, burst).map_err(|e| e.to_string())?),
        (None, Some(_)) => return Err("a burst needs a rate, such as `5/s`".to_owned()),
        (None, None) => None,
    };
    if max_inflight.is_some_and(|n| !(1..=limits::MAX_INFLIGHT_MAX).contains(&n)) {
        return Err(format!("`inflight` must be from 1 to {}", limits::MAX_INFLIGHT_MAX));
    }
    Ok(DomainLimit { rate, max_inflight })
}

fn set<T: FromStr>(place: &mut Option<T>, what: impl Display, text: &str, part: &str) -> Result<(), String> {
    let value = text.parse().map_err(|_| format!("`{part}` has no number that fits"))?;
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("{what} is given twice")),
    }
}

/// All that were given. None may be given twice: only one of them could hold.
pub fn gather(given: &[NamedLimit]) -> Result<DomainLimits, String> {
    let mut known = BTreeMap::new();
    for NamedLimit { name, limit } in given {
        if known.insert(name.clone(), *limit).is_some() {
            return Err(format!("--domain-limit {name} is given twice"));
        }
    }
    DomainLimits::new(known).map_err(|e| format!("--domain-limit: {e}"))
}

/// As a submit has them.
pub fn to_wire(limits: &DomainLimits) -> Option<DomainLimitsBody> {
    let of = |DomainLimit { rate, max_inflight }: DomainLimit| DomainLimitBody {
        per_second: rate.map(|rate| Decimal(rate.per_second())),
        burst: rate.map(|rate| rate.burst().into()),
        max_inflight: max_inflight.map(Into::into),
    };
    let named: Named<_, _> = limits.iter().map(|(name, limit)| (name.to_owned(), of(limit))).collect();
    Some(DomainLimitsBody(named)).filter(|limits| !limits.0.0.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn json_of(given: &[&str]) -> Value {
        let given: Vec<NamedLimit> = given.iter().map(|text| parse(text).unwrap()).collect();
        json!(to_wire(&gather(&given).unwrap()))
    }

    #[test]
    fn any_part_of_a_limit_will_do() {
        assert_eq!(
            json_of(&[
                "Example.com=5/s,burst=10,inflight=3",
                "*=inflight=1",
                "a.example=0.5/s",
                "b.example=inflight=2, 7/s"
            ]),
            json!({
                "example.com": {"per_second": 5.0, "burst": 10, "max_inflight": 3},
                "*": {"max_inflight": 1},
                "a.example": {"per_second": 0.5, "burst": 1},
                "b.example": {"per_second": 7.0, "burst": 7, "max_inflight": 2},
            })
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, word) in [
            ("example.com", "NAME=SPEC"),
            ("example.com=", "none of"),
            ("example.com=5", "`5` is none of"),
            ("example.com=5/m", "`5/m`"),
            ("example.com=x/s", "`x/s`"),
            ("example.com=0/s", "`per_second`"),
            ("example.com=5/s,burst=0", "`burst`"),
            ("example.com=5/s,6/s", "the rate is given twice"),
            ("example.com=burst=3", "needs a rate"),
            ("example.com=inflight=0", "`inflight` must be"),
            ("example.com=inflight=10001", "`inflight` must be"),
            ("example.com=inflight=-1", "`inflight=-1`"),
            ("example.com:80=5/s", "not a host name"),
            ("=5/s", "not a host name"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.contains(word), "{text}: {said}");
        }
        let twice = [parse("a.example=5/s").unwrap(), parse("A.example=inflight=1").unwrap()];
        assert_eq!(gather(&twice).unwrap_err(), "--domain-limit a.example is given twice");
    }
}
