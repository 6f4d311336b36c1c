//! Permits of a job, shared out among workers (SPEC 6.7). One row per job; whoever changes it does so atomically, so the
//! sum of what is held can be checked against the cap in the same step that adds to it.

use crate::id::WorkerId;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// What one worker holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    pub permits: u32,
    pub expires: Timestamp,
}

/// The grant row of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grants {
    pub version: u64,
    holders: BTreeMap<WorkerId, Holding>,
}

impl Grants {
    /// Gives `worker` up to `want` permits in all, never so many that the live holdings pass `cap`.
    /// `want` is absolute: asking again replaces what was held, so a repeated request changes nothing.
    pub fn grant(&mut self, worker: WorkerId, want: u32, cap: u32, ttl: Duration, now: Timestamp) -> Holding {
        self.holders.retain(|_, h| h.expires > now);
        self.holders.remove(&worker);
        let others: u32 = self.holders.values().map(|h| h.permits).sum();
        let holding = Holding { permits: want.min(cap.saturating_sub(others)), expires: now.after(ttl) };
        if holding.permits > 0 {
            self.holders.insert(worker, holding);
        }
        self.version += 1;
        holding
    }

    pub fn release(&mut self, worker: WorkerId) {
        self.holders.remove(&worker);
        self.version += 1;
    }

    /// Whether the same workers hold the same, until the same times.
    pub fn same_holders(&self, other: &Grants) -> bool {
        self.holders == other.holders
    }

    pub fn holds(&self, worker: WorkerId) -> bool {
        self.holders.contains_key(&worker)
    }

    pub fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }

    /// Who holds what, without those whose time has passed.
    pub fn live(&self, now: Timestamp) -> impl Iterator<Item = (WorkerId, Holding)> + '_ {
        self.holders.iter().filter(move |(_, h)| h.expires > now).map(|(w, h)| (*w, *h))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TTL: Duration = Duration::from_secs(30);

    fn worker(n: u8) -> WorkerId {
        WorkerId::from_bytes([n; 16])
    }

    proptest! {
        #[test]
        fn live_permits_never_pass_the_cap(
            cap in 0u32..50,
            steps in proptest::collection::vec((0u8..5, 0u32..60, 0i64..40_000, any::<bool>()), 0..60),
        ) {
            let mut grants = Grants::default();
            let mut now = Timestamp(0);
            for (who, want, pass_ms, release) in steps {
                now = Timestamp(now.0 + pass_ms);
                if release {
                    grants.release(worker(who));
                } else {
                    grants.grant(worker(who), want, cap, TTL, now);
                }
                let held: u32 = grants.live(now).map(|(_, h)| h.permits).sum();
                prop_assert!(held <= cap, "{held} > {cap}");
            }
        }

        #[test]
        fn asking_twice_changes_nothing(want in 0u32..60, cap in 0u32..60, other in 0u32..60) {
            let mut grants = Grants::default();
            grants.grant(worker(1), other, cap, TTL, Timestamp(0));
            let first = grants.grant(worker(2), want, cap, TTL, Timestamp(5));
            let second = grants.grant(worker(2), want, cap, TTL, Timestamp(5));
            prop_assert_eq!(first, second);
        }
    }

    #[test]
    fn a_lapsed_share_goes_to_others() {
        let mut grants = Grants::default();
        assert_eq!(grants.grant(worker(1), 10, 10, TTL, Timestamp(0)).permits, 10);
        assert_eq!(grants.grant(worker(2), 10, 10, TTL, Timestamp(29_999)).permits, 0);
        assert_eq!(grants.grant(worker(2), 10, 10, TTL, Timestamp(30_000)).permits, 10);
    }
}
