//! What workers may do of a job, or at a site, shared out among them (SPEC 6.7). One row each; whoever changes it does so
//! atomically, so the cap and the rate are held in the same step that takes from them.

use crate::dispatch::rate::Bucket;
use crate::{CallerId, DomainLimit, JobId, Rate, Timestamp, WorkerId, limits};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// What a budget is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    Job(JobId),
    /// A site, as all jobs of a caller use it.
    Domain(CallerId, String),
    /// Not a limit: those who hold a permit are the sweepers that are alive.
    Sweepers,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::Job(job) => write!(f, "job:{job}"),
            Scope::Domain(caller, domain) => write!(f, "domain:{caller}:{domain}"),
            Scope::Sweepers => f.write_str("sweepers"),
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

impl Limits {
    /// What keeps to both. Of two revisions only the later one counts.
    #[must_use]
    pub fn stricter(self, other: Limits) -> Limits {
        if self.revision != other.revision {
            return if self.revision > other.revision { self } else { other };
        }
        let site = |limits: Limits| DomainLimit { rate: limits.rate, max_inflight: limits.max_inflight };
        let DomainLimit { rate, max_inflight } = site(self).stricter(site(other));
        Limits { revision: self.revision, max_inflight, rate }
    }
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
    /// Permits that are in use, or may be before the answer is there. They stay its own, whatever the limits have become.
    pub in_use: u32,
    /// Permits that it could use, in all.
    pub want: u32,
    /// Starts that it could use beyond those that it has.
    pub starts: u32,
    /// Tasks that it could start with the permits that it has. Starts for more than that, and for the permits that it gets,
    /// would be lost.
    pub startable: u32,
    pub limits: Limits,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// When it was decided, by the clock that decided it. Only the other times' distances from this one mean anything to
    /// a worker: it counts them on its own monotonic clock.
    pub decided_at: Timestamp,
    pub permits: u32,
    /// How many of them to go down to: others wait for some, or there are fewer than there were.
    pub fair: u32,
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

impl Grant {
    /// How long after the decision a moment of it is.
    pub fn after(&self, moment: Timestamp) -> Duration {
        self.decided_at.until(moment)
    }

    /// How long the share is good for, counted from when it was asked for: the decision came later, so nobody else has the
    /// permits before that.
    pub fn lasts(&self) -> Duration {
        self.after(self.expires)
    }
}

/// A site that tasks of a job waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainWait {
    pub domain: String,
    pub until: Timestamp,
}

/// What changes a budget besides an ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A worker holds nothing any more, and waits for nothing.
    GiveBack(WorkerId),
    /// New limits, before anybody asks by them.
    Limits(Limits),
    /// Nothing may start before this: the gateway, or the site, said so.
    HoldUntil(Timestamp),
    /// Tasks of the job wait for a site. Said for those who look; others may start.
    DomainWait(DomainWait),
}

/// The row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    pub version: u64,
    #[serde(default)]
    limits: Limits,
    /// When somebody last asked under no looser limits.
    #[serde(default)]
    limits_asked: Timestamp,
    holders: BTreeMap<WorkerId, Holding>,
    /// Workers that have less than their part, and until when that is believed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    waiting: BTreeMap<WorkerId, Timestamp>,
    #[serde(default)]
    bucket: Bucket,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held_until: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    domain_wait: Option<DomainWait>,
    /// Whoever said so repeats it before this, as long as it is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    domain_wait_believed: Option<Timestamp>,
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
        let part = self.part(ask.worker);
        let others_wait = self.waiting.keys().any(|waiting| *waiting != ask.worker);
        // Never more than there are, also for those who use more: or what is too much would stay so for ever.
        let fair = if others_wait { ask.want.min(part) } else { ask.want }.min(left);
        let holding = Holding { permits: fair.max(ask.in_use), expires: now.after(limits::GRANT_TTL) };
        self.note_waiting(ask.worker, holding.permits < ask.want.min(part), now);
        if holding.permits > 0 {
            self.holders.insert(ask.worker, holding);
        }
        self.held_until = self.held_until.filter(|until| *until > now);
        // A start without a permit is of no use to anybody.
        let startable = ask.startable.saturating_add(holding.permits.saturating_sub(ask.in_use));
        let wanted = if self.held_until.is_some() { 0 } else { ask.starts.min(startable) };
        let starts = limits.rate.map(|rate| self.bucket.take(rate, wanted, limits::STARTS_AHEAD, now));
        let starts = starts.unwrap_or_default();
        let more_starts_at =
            limits.rate.filter(|_| (starts.len() as u64) < u64::from(ask.starts)).map(|rate| {
                let next = self.bucket.next(rate, now).0 - limits::STARTS_AHEAD.as_millis() as i64;
                Timestamp(next).max(now)
            });
        self.version += 1;
        Grant {
            decided_at: now,
            permits: holding.permits,
            fair,
            expires: holding.expires,
            starts,
            more_starts_at,
            held_until: self.held_until,
            limits,
        }
    }

    /// What a worker may count on, among all who hold or wait.
    fn part(&self, worker: WorkerId) -> u32 {
        let mut all: BTreeSet<WorkerId> = self.holders.keys().chain(self.waiting.keys()).copied().collect();
        all.insert(worker);
        let all = u32::try_from(all.len()).unwrap_or(u32::MAX);
        self.limits.max_inflight.map_or(u32::MAX, |cap| cap.div_ceil(all))
    }

    /// Remembers who has less than its part. Not at every request: those who get nothing ask often, and would all write.
    fn note_waiting(&mut self, worker: WorkerId, waits: bool, now: Timestamp) {
        if !waits {
            self.waiting.remove(&worker);
            return;
        }
        let fresh =
            self.waiting.get(&worker).is_some_and(|until| *until > now.after(limits::GRANT_RENEW_EVERY));
        if fresh || self.waiting.len() >= limits::GRANT_WAITING_MAX {
            return;
        }
        self.waiting.insert(worker, now.after(limits::GRANT_RENEW_EVERY + limits::GRANT_MARGIN));
    }

    /// Takes over the limits of whoever asks, unless it does not know of later ones yet, or others asked under stricter
    /// ones lately: jobs that share a site need not agree on what it takes.
    fn adopt(&mut self, limits: Limits, now: Timestamp) {
        if limits.revision < self.limits.revision {
            return;
        }
        let recent = self.limits_asked.after(limits::GRANT_TTL) > now;
        let strictest = if recent { limits.stricter(self.limits) } else { limits };
        // Not at every request: many may ask and get nothing, and are not to write.
        let noted = self.limits == limits && self.limits_asked.after(limits::GRANT_RENEW_EVERY) > now;
        if strictest == limits && !noted {
            self.limits_asked = now;
        }
        let limits = strictest;
        let same_rate = limits.rate == self.limits.rate;
        self.limits = limits;
        if let Some(rate) = limits.rate {
            // Otherwise only a clock that was wrong can have taken what is further ahead than this.
            let trusted = if same_rate { limits::GRANT_MARGIN } else { Duration::ZERO };
            self.bucket.limit(rate, limits::STARTS_AHEAD + trusted, now);
        }
    }

    pub fn change(&mut self, change: Change, now: Timestamp) {
        match change {
            Change::GiveBack(worker) => {
                self.holders.remove(&worker);
                self.waiting.remove(&worker);
            }
            Change::Limits(limits) => self.adopt(limits, now),
            Change::HoldUntil(until) => self.held_until = self.held_until.max(Some(until)),
            Change::DomainWait(wait) => {
                self.domain_wait = Some(wait);
                self.domain_wait_believed = Some(now.after(limits::DOMAIN_WAIT_BELIEVED));
            }
        }
        self.version += 1;
    }

    fn drop_lapsed(&mut self, now: Timestamp) {
        self.distrust(now);
        self.holders.retain(|_, h| h.expires > now);
        self.waiting.retain(|_, until| *until > now);
        if self.waits_until() <= now {
            (self.domain_wait, self.domain_wait_believed) = (None, None);
        }
    }

    /// Nothing is further ahead than this unless a clock was wrong, and then not for longer than if it had been right.
    fn distrust(&mut self, now: Timestamp) {
        let latest = now.after(limits::GRANT_TTL + limits::GRANT_MARGIN);
        self.holders.values_mut().for_each(|h| h.expires = h.expires.min(latest));
        self.limits_asked = self.limits_asked.min(now.after(limits::GRANT_MARGIN));
        let longest = now.after(limits::RETRY_AFTER_MAX + limits::GRANT_MARGIN);
        self.held_until = self.held_until.map(|until| until.min(longest));
        // None was said by an earlier version.
        let latest = now.after(limits::DOMAIN_WAIT_BELIEVED);
        let believed = self.domain_wait_believed.unwrap_or(latest).min(latest);
        self.domain_wait_believed = self.domain_wait.is_some().then_some(believed);
    }

    /// Until when it is believed that tasks wait for a domain.
    fn waits_until(&self) -> Timestamp {
        let until = self.domain_wait.as_ref().map_or(Timestamp(0), |wait| wait.until);
        self.domain_wait_believed.map_or(until, |believed| believed.min(until))
    }

    /// Whoever held something is gone, all at once. What was taken of the rate was taken.
    pub fn drop_holders(&mut self) {
        self.holders.clear();
        self.waiting.clear();
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
        let over = self.held_until.max(Some(self.waits_until()));
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
            domain_wait: self.domain_wait.clone().filter(|_| self.waits_until() > now),
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
