//! Which sweepers are alive, and whose a finding is (SPEC 6.17). There is no leader: each works it out for itself.

use conveyor_domain::dispatch::grant::{Ask, Change, Limits, Scope};
use conveyor_domain::repair::Subject;
use conveyor_domain::{Timestamp, WorkerId};
use conveyor_store::{Coordinator, Result};
use sha2::{Digest, Sha256};
use std::sync::{Mutex, PoisonError};

/// Of those alive, the one whose id, hashed with the subject, is highest: when one goes, only what was its own moves.
pub fn owner(alive: &[WorkerId], subject: Subject) -> Option<WorkerId> {
    let what = format!("{}:{subject}", subject.kind());
    let weight = |worker: &WorkerId| -> [u8; 32] {
        Sha256::new().chain_update(worker.to_bytes()).chain_update(&what).finalize().into()
    };
    alive.iter().copied().max_by_key(|worker| (weight(worker), *worker))
}

/// Who is alive, as one sweeper knows it.
#[derive(Debug)]
pub(crate) struct Roster {
    pub me: WorkerId,
    alive: Mutex<Vec<WorkerId>>,
}

impl Roster {
    pub fn new(me: WorkerId) -> Roster {
        Roster { me, alive: Mutex::default() }
    }

    /// Says that we are here, and looks who else is. If that cannot be told, what was known last holds: two who do not
    /// agree both fix, which is safe, or neither does until it can be told.
    pub async fn renew(&self, coordinator: &dyn Coordinator, now: Timestamp) {
        match self.ask(coordinator, now).await {
            Ok(alive) => *self.alive.lock().unwrap_or_else(PoisonError::into_inner) = alive,
            Err(error) => tracing::warn!(%error, "cannot tell which sweepers are alive"),
        }
    }

    async fn ask(&self, coordinator: &dyn Coordinator, now: Timestamp) -> Result<Vec<WorkerId>> {
        let limits = Limits::default();
        let ask = Ask { worker: self.me, in_use: 1, want: 1, starts: 0, startable: 0, limits };
        coordinator.ask(&Scope::Sweepers, ask, now).await?;
        let budget = coordinator.budget(&Scope::Sweepers, now).await?;
        Ok(budget.holders.into_iter().map(|(worker, _)| worker).collect())
    }

    /// So that others need not wait until we lapse.
    pub async fn leave(&self, coordinator: &dyn Coordinator, now: Timestamp) {
        if let Err(error) = coordinator.change(&Scope::Sweepers, Change::GiveBack(self.me), now).await {
            tracing::debug!(%error, "could not say that this sweeper ends; it lapses");
        }
    }

    /// Whoever knows of nobody is alone.
    pub fn is_ours(&self, subject: Subject) -> bool {
        let alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        owner(&alive, subject).is_none_or(|owner| owner == self.me)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::{JobId, RunId};
    use proptest::prelude::*;

    fn sweepers(n: u8) -> Vec<WorkerId> {
        (1..=n).map(|i| WorkerId::from_bytes([i; 16])).collect()
    }

    fn run(n: u32) -> Subject {
        let mut id = [7; 16];
        id[12..].copy_from_slice(&n.to_be_bytes());
        Subject::Run(JobId::from_bytes([1; 16]), RunId::from_bytes(id))
    }

    proptest! {
        #[test]
        fn everybody_agrees_whatever_order_they_know_each_other_in(n in 1u8..9, turned in 0usize..9, subject: u32) {
            let alive = sweepers(n);
            let mut other = alive.clone();
            other.rotate_left(turned % alive.len());
            prop_assert_eq!(owner(&alive, run(subject)), owner(&other, run(subject)));
        }

        #[test]
        fn when_one_goes_only_its_own_moves(n in 2u8..9, gone: prop::sample::Index, subject: u32) {
            let mut alive = sweepers(n);
            let before = owner(&alive, run(subject));
            let gone = alive.remove(gone.index(alive.len()));
            prop_assert!(before == Some(gone) || owner(&alive, run(subject)) == before);
        }
    }

    #[test]
    fn the_work_is_about_evenly_shared() {
        let alive = sweepers(4);
        for worker in &alive {
            let own = (0..4_000).filter(|n| owner(&alive, run(*n)) == Some(*worker)).count();
            assert!((800..1_200).contains(&own), "{own} of 4000");
        }
    }

    #[test]
    fn nobody_owns_anything_where_nobody_is() {
        assert_eq!(owner(&[], run(1)), None);
    }
}
