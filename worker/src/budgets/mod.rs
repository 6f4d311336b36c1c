//! What this worker may start of each job, and at each site that has a budget: its shares, and how much of them is used
//! (SPEC 6.7). Nothing here waits for the coordinator: whoever asks does so beside the loop, and wakes it with the answer.

mod circuit;
mod part;
mod share;
mod state;

pub use circuit::Verdict;
pub use part::Use;
pub use share::Share;
pub use state::Need;

use crate::Worker;
use conveyor_domain::dispatch::grant::{Limits, Scope};
use futures::future::join_all;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

#[derive(Debug)]
pub struct Budgets {
    shares: Mutex<HashMap<Scope, Arc<Share>>>,
    freed: Arc<Notify>,
}

impl Budgets {
    pub fn new(freed: Arc<Notify>) -> Budgets {
        Budgets { shares: Mutex::default(), freed }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Scope, Arc<Share>>> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The share of a budget, under the limits that are known now.
    pub fn share(&self, scope: &Scope, limits: Limits) -> Arc<Share> {
        let mut shares = self.lock();
        let share = match shares.get(scope) {
            Some(share) => share.clone(),
            None => {
                let share = Arc::new(Share::new(scope.clone(), self.freed.clone()));
                shares.insert(scope.clone(), share.clone());
                share
            }
        };
        share.learn(limits);
        share
    }

    /// Something may be startable.
    pub fn wake(&self) {
        self.freed.notify_one();
    }

    pub fn find(&self, scope: &Scope) -> Option<Arc<Share>> {
        self.lock().get(scope).cloned()
    }

    /// Renews shares that are in use, whether or not their runs still take new work, asks for starts that tasks wait for, and gives back those that are not:
    /// others may have a use for them, and a renewal is a write.
    pub fn upkeep(&self, worker: &Arc<Worker>, tasks: &TaskTracker) {
        let now = worker.clock.now();
        self.lock().retain(|_, share| {
            let wanted = Arc::strong_count(share) > 1;
            if share.is_due_for_renewal() || share.is_waited_for(now) {
                share.renew(worker, tasks);
            } else if share.is_idle(wanted) && share.holds_any() {
                let (share, worker) = (share.clone(), worker.clone());
                tasks.spawn(async move { share.give_back(&worker).await });
            } else if share.is_idle(wanted) && !wanted {
                // Nobody else has it, so nobody can begin to use it.
                return false;
            }
            true
        });
    }

    /// When the earliest of them has something new to say by itself.
    pub fn wake_in(&self, worker: &Worker) -> Option<std::time::Duration> {
        let now = worker.clock.now();
        self.lock().values().filter_map(|share| share.wake_at(now)).min().map(|at| now.until(at))
    }

    pub async fn give_all_back(&self, worker: &Worker) {
        let shares: Vec<Arc<Share>> = self.lock().drain().map(|(_, share)| share).collect();
        join_all(shares.iter().map(|share| share.give_back(worker))).await;
    }
}
