//! Budgets of the sites that tasks go to, shared by all jobs of a caller (SPEC 6.7).

use crate::{Rate, limits};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What may go to one site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainLimit {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_inflight: Option<u32>,
}

impl DomainLimit {
    #[must_use]
    pub fn stricter(self, other: DomainLimit) -> DomainLimit {
        fn both<T: Copy>(a: Option<T>, b: Option<T>, least: impl Fn(T, T) -> T) -> Option<T> {
            match (a, b) {
                (Some(a), Some(b)) => Some(least(a, b)),
                (one, other) => one.or(other),
            }
        }
        DomainLimit {
            rate: both(self.rate, other.rate, Rate::stricter),
            max_inflight: both(self.max_inflight, other.max_inflight, u32::min),
        }
    }
}

/// Limits by name: `example.com` is for that host and everything below it, together; `*` is for every other host, each by
/// itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DomainLimits(BTreeMap<String, DomainLimit>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDomain {
    #[error("`{0}` is not a host name; write it as in a URL, without port or path, or `*`")]
    Name(String),
    #[error("`{0}` has neither a rate nor `max_inflight`")]
    Empty(String),
    #[error("more than {} domains have limits", limits::DOMAIN_LIMITS_MAX)]
    TooMany,
}

const ANY: &str = "*";

impl DomainLimits {
    pub fn new(
        limits: impl IntoIterator<Item = (String, DomainLimit)>,
    ) -> Result<DomainLimits, InvalidDomain> {
        let mut known = BTreeMap::new();
        for (name, limit) in limits {
            let name = normal(&name).ok_or(InvalidDomain::Name(name))?;
            if limit == DomainLimit::default() {
                return Err(InvalidDomain::Empty(name));
            }
            known.insert(name, limit);
        }
        if known.len() > limits::DOMAIN_LIMITS_MAX {
            return Err(InvalidDomain::TooMany);
        }
        Ok(DomainLimits(known))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, DomainLimit)> {
        self.0.iter().map(|(name, limit)| (name.as_str(), *limit))
    }

    /// The budget that a host draws on, by its name, and what it may take.
    pub fn of<'a>(&'a self, host: &'a str) -> Option<(&'a str, DomainLimit)> {
        let mut rest = Some(host);
        while let Some(name) = rest {
            if let Some(limit) = self.0.get(name) {
                return Some((name, *limit));
            }
            rest = name.split_once('.').map(|(_, parent)| parent);
        }
        self.0.get(ANY).map(|limit| (host, *limit))
    }
}

/// The name as it is compared: in lower case and ASCII, as URLs have it.
fn normal(name: &str) -> Option<String> {
    if name == ANY {
        return Some(name.to_owned());
    }
    let parsed = url::Url::parse(&format!("http://{name}/")).ok()?;
    let host = parsed.host_str()?;
    let plain = parsed.port().is_none() && parsed.username().is_empty() && parsed.path() == "/";
    let bare = !name.contains(['/', ':', '@', '?', '#', '*']) || name.starts_with('[');
    (plain && bare && host.len() <= limits::DOMAIN_MAX_CHARS).then(|| host.to_owned())
}

/// The host of a URL, as limits name it.
pub fn host_of(url: &str) -> Option<String> {
    url::Url::parse(url).ok()?.host_str().map(str::to_owned)
}

/// Every budget that a task with this URL draws on: that of whoever runs the system, and the job's own. Under one name
/// they are one, the stricter of both.
pub fn budgets(system: &DomainLimits, job: &DomainLimits, url: &str) -> Vec<(String, DomainLimit)> {
    if system.is_empty() && job.is_empty() {
        return Vec::new();
    }
    let Some(host) = host_of(url) else { return Vec::new() };
    let mut found: BTreeMap<String, DomainLimit> = BTreeMap::new();
    for (name, limit) in [system.of(&host), job.of(&host)].into_iter().flatten() {
        let before = found.get(name).copied().unwrap_or_default();
        found.insert(name.to_owned(), before.stricter(limit));
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(max_inflight: u32) -> DomainLimit {
        DomainLimit { max_inflight: Some(max_inflight), rate: None }
    }

    fn limits(of: &[(&str, u32)]) -> DomainLimits {
        DomainLimits::new(of.iter().map(|(name, n)| ((*name).to_owned(), limit(*n)))).unwrap()
    }

    #[test]
    fn the_nearest_name_above_a_host_is_its_budget() {
        let job = limits(&[("example.com", 5), ("shop.example.com", 2), ("*", 9)]);
        let none = DomainLimits::default();
        let of = |url: &str| budgets(&none, &job, url);
        assert_eq!(of("https://example.com/a"), [("example.com".to_owned(), limit(5))]);
        assert_eq!(of("https://WWW.Example.com:8443/a"), [("example.com".to_owned(), limit(5))]);
        assert_eq!(of("https://a.shop.example.com"), [("shop.example.com".to_owned(), limit(2))]);
        assert_eq!(of("https://other.example/"), [("other.example".to_owned(), limit(9))]);
        assert_eq!(of("https://notexample.com/"), [("notexample.com".to_owned(), limit(9))]);
        assert_eq!(budgets(&none, &none, "https://example.com/"), []);
    }

    #[test]
    fn the_systems_limit_and_the_jobs_both_hold() {
        let (system, job) =
            (limits(&[("example.com", 5), ("*", 1)]), limits(&[("example.com", 7), ("a.other.example", 3)]));
        assert_eq!(budgets(&system, &job, "https://example.com/"), [("example.com".to_owned(), limit(5))]);
        assert_eq!(
            budgets(&system, &job, "https://a.other.example/"),
            [("a.other.example".to_owned(), limit(1))]
        );
        let parent = limits(&[("other.example", 4)]);
        let both = budgets(&parent, &job, "https://a.other.example/");
        assert_eq!(both, [("a.other.example".to_owned(), limit(3)), ("other.example".to_owned(), limit(4))]);
    }

    #[test]
    fn names_are_compared_as_urls_have_them() {
        assert_eq!(normal("Bücher.Example").as_deref(), Some("xn--bcher-kva.example"));
        assert_eq!(normal("127.0.0.1").as_deref(), Some("127.0.0.1"));
        assert_eq!(normal("*").as_deref(), Some("*"));
        for bad in ["", "a/b", "a:80", "u@a", "a b", "*.example.com", "a?b", "a#b"] {
            assert_eq!(normal(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_limit_that_limits_nothing_is_refused() {
        let empty = [("a.example".to_owned(), DomainLimit::default())];
        assert_eq!(DomainLimits::new(empty), Err(InvalidDomain::Empty("a.example".to_owned())));
    }
}
