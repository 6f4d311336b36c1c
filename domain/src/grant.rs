//! What workers may do of a job, or at a site, shared out among them (SPEC 6.7). One row each; whoever changes it does so
//! atomically, so the cap and the rate are held in the same step that takes from them.

use crate::id::{CallerId, JobId, WorkerId};
use crate::limits;
use crate::rate::{Bucket, Rate};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// What a budget is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    Job(JobId),
    /// A site, as all jobs of a caller use it.
    Domain(CallerId, String),
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::Job(job) => write!(f, "job:{job}"),
            Scope::Domain(caller, domain) => write!(f, "domain:{caller}:{domain}"),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Of two, the later ones hold. A worker that does not know of a change yet must not undo it.
    #[serde(default)]
    pub revision: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_inflight: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

/// What one worker holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    pub permits: u32,
    pub expires: Timestamp,
}

/// A worker's request. The permits are absolute: asking again replaces what was held.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    pub worker: WorkerId,
    /// Permits that are in use. They stay its own, whatever the limits have become.
    pub in_use: u32,
    /// Permits that it could use, in all.
    pub want: u32,
    /// Starts that it could use beyond those that it has.
    pub starts: u32,
    pub limits: Limits,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub permits: u32,
    pub expires: Timestamp,
    /// Moments at which calls may begin, the earliest first. Empty where there is no rate.
    pub starts: Vec<Timestamp>,
    /// When it is worth asking for more starts.
    pub more_starts_at: Option<Timestamp>,
    /// No call before this.
    pub held_until: Option<Timestamp>,
    /// What the answer was decided by.
    pub limits: Limits,
}

/// A site that tasks of a job waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainWait {
    pub domain: String,
    pub until: Timestamp,
}

/// Why a budget has nothing to give, apart from its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Nothing may start before this: the gateway, or the site, said so.
    Until(Timestamp),
    /// Tasks of the job wait for a site. Said for those who look; others may start.
    Domain(DomainWait),
}

/// The row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    pub version: u64,
    #[serde(default)]
    limits: Limits,
    holders: BTreeMap<WorkerId, Holding>,
    #[serde(default)]
    bucket: Bucket,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held_until: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    domain_wait: Option<DomainWait>,
}

/// A budget as operators see it.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetView {
    pub limits: Limits,
    pub holders: Vec<(WorkerId, Holding)>,
    /// Starts that could be taken now, and when the next one will be.
    pub tokens: Option<u32>,
    pub next_start: Option<Timestamp>,
    pub held_until: Option<Timestamp>,
    pub domain_wait: Option<DomainWait>,
}

impl Budget {
    pub fn ask(&mut self, ask: &Ask, now: Timestamp) -> Grant {
        self.adopt(ask.limits, now);
        let limits = self.limits;
        self.drop_lapsed(now);
        self.holders.remove(&ask.worker);
        let others: u32 = self.holders.values().map(|h| h.permits).sum();
        let left = limits.max_inflight.map_or(u32::MAX, |cap| cap.saturating_sub(others));
        let holding =
            Holding { permits: ask.want.min(left).max(ask.in_use), expires: now.after(limits::GRANT_TTL) };
        if holding.permits > 0 {
            self.holders.insert(ask.worker, holding);
        }
        self.held_until = self.held_until.filter(|until| *until > now);
        // A start without a permit is of no use to anybody.
        let idle = holding.permits.saturating_sub(ask.in_use);
        let wanted = if self.held_until.is_some() || (ask.in_use == 0 && idle == 0) { 0 } else { ask.starts };
        let starts = limits.rate.map(|rate| self.bucket.take(rate, wanted, limits::STARTS_AHEAD, now));
        let starts = starts.unwrap_or_default();
        let more_starts_at =
            limits.rate.filter(|_| (starts.len() as u64) < u64::from(ask.starts)).map(|rate| {
                let next = self.bucket.next(rate, now).0 - limits::STARTS_AHEAD.as_millis() as i64;
                Timestamp(next).max(now)
            });
        self.version += 1;
        Grant {
            permits: holding.permits,
            expires: holding.expires,
            starts,
            more_starts_at,
            held_until: self.held_until,
            limits,
        }
    }

    /// Takes over the limits of whoever asks, unless it does not know of later ones yet.
    fn adopt(&mut self, limits: Limits, now: Timestamp) {
        if limits.revision < self.limits.revision {
            return;
        }
        let same_rate = limits.rate == self.limits.rate;
        self.limits = limits;
        if let Some(rate) = limits.rate {
            // Otherwise only a clock that was wrong can have taken what is further ahead than this.
            let trusted = if same_rate { limits::GRANT_MARGIN } else { std::time::Duration::ZERO };
            self.bucket.limit(rate, limits::STARTS_AHEAD + trusted, now);
        }
    }

    /// New limits, before anybody asks by them.
    pub fn change(&mut self, limits: Limits, now: Timestamp) {
        self.adopt(limits, now);
        self.version += 1;
    }

    pub fn give_back(&mut self, worker: WorkerId) {
        self.holders.remove(&worker);
        self.version += 1;
    }

    pub fn hold(&mut self, hold: Hold) {
        match hold {
            Hold::Until(until) => self.held_until = self.held_until.max(Some(until)),
            Hold::Domain(wait) => self.domain_wait = Some(wait),
        }
        self.version += 1;
    }

    fn drop_lapsed(&mut self, now: Timestamp) {
        self.holders.retain(|_, h| h.expires > now);
        self.domain_wait = self.domain_wait.take().filter(|wait| wait.until > now);
    }

    /// Whoever held something is gone, all at once. What was taken of the rate was taken.
    pub fn drop_holders(&mut self) {
        self.holders.clear();
        self.version += 1;
    }

    /// Whether anything but the version differs.
    pub fn differs(&self, other: &Budget) -> bool {
        Budget { version: other.version, ..self.clone() } != *other
    }

    pub fn holds(&self, worker: WorkerId) -> bool {
        self.holders.contains_key(&worker)
    }

    /// Whether a new row would say the same.
    pub fn is_idle(&self, now: Timestamp) -> bool {
        self.idle_from() <= now
    }

    /// From when on a new row would say the same, if nothing happens to this one.
    pub fn idle_from(&self) -> Timestamp {
        let lapsed = self.holders.values().map(|h| h.expires).max();
        let over = self.held_until.max(self.domain_wait.as_ref().map(|wait| wait.until));
        self.bucket.full_from().max(lapsed.max(over).unwrap_or(Timestamp(0)))
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    pub fn view(&self, now: Timestamp) -> BudgetView {
        let live = self.holders.iter().filter(|(_, h)| h.expires > now).map(|(w, h)| (*w, *h));
        BudgetView {
            limits: self.limits,
            holders: live.collect(),
            tokens: self.limits.rate.map(|rate| self.bucket.tokens(rate, now)),
            next_start: self.limits.rate.map(|rate| self.bucket.next(rate, now)),
            held_until: self.held_until.filter(|until| *until > now),
            domain_wait: self.domain_wait.clone().filter(|wait| wait.until > now),
        }
    }
}

impl BudgetView {
    pub fn held(&self) -> u32 {
        self.holders.iter().map(|(_, h)| h.permits).sum()
    }
}

#[cfg(test)]
#[path = "grant_tests.rs"]
mod tests;
