//! What is parked: messages by run and by the domains that they draw on, and how many there may be.

use crate::Worker;
use crate::budgets::Share;
use crate::context::RunContext;
use crate::prediction::Sites;
use conveyor_domain::grant::Scope;
use conveyor_domain::{CallerId, RunId, Timestamp, limits};
use conveyor_store::port::{Delivery, Receipt};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

#[derive(Debug)]
pub struct Parked {
    pub delivery: Delivery,
    pub since: Instant,
    /// Its queue hides it at least until then.
    pub hidden_until: Instant,
}

/// A message that was taken out, and what it draws on.
pub type Removed = (Sites, Parked);

/// Messages of a run that draw on the same domains.
#[derive(Debug)]
pub struct Group {
    pub sites: Sites,
    pub shares: Vec<Arc<Share>>,
    pub messages: VecDeque<Parked>,
}

#[derive(Debug)]
pub struct OfRun {
    pub context: Arc<RunContext>,
    /// The first one is served first, then moves to the end.
    pub groups: VecDeque<Group>,
}

#[derive(Debug, Default)]
pub struct State {
    pub runs: HashMap<RunId, OfRun>,
    by_caller: HashMap<CallerId, u32>,
    pub by_site: HashMap<Scope, u32>,
    /// Callers that had no room left: they get some when a quarter is free, so that receives bring more than one message.
    full: HashSet<CallerId>,
    count: u32,
}

impl Group {
    fn waiting(&self) -> u32 {
        u32::try_from(self.messages.len()).unwrap_or(u32::MAX)
    }

    /// How many of its messages could start now.
    pub fn room(&self, now: Timestamp) -> u32 {
        let rooms = self.shares.iter().zip(&self.sites).map(|(share, (_, limits))| {
            share.learn(*limits);
            share.room(now)
        });
        rooms.fold(self.waiting(), u32::min)
    }

    /// Asks for more starts if there could be, for at most so many messages. Returns how many the answers may bring.
    pub fn ask(&self, worker: &Arc<Worker>, tasks: &TaskTracker, most: u32) -> u32 {
        let wanted = self.waiting().min(most);
        let asked = self.shares.iter().filter(|share| {
            share.want_more(worker, tasks, share.used().saturating_add(wanted));
            share.is_asking()
        });
        // All of them: what one has no start for needs none of the others, but that is known only by its answer.
        asked.map(|share| share.answer_max().min(wanted)).max().unwrap_or(0)
    }
}

impl State {
    fn of(&self, caller: CallerId) -> u32 {
        self.by_caller.get(&caller).copied().unwrap_or(0)
    }

    /// How many more a caller may park. Dynamic threshold (SPEC 6.28): only while it has fewer than are free.
    pub fn room(&mut self, caller: CallerId) -> u32 {
        let (own, free) = (self.of(caller), limits::PARKED_MAX.saturating_sub(self.count));
        // Each one that is parked is one more here, and one less there.
        let by_threshold = free.saturating_sub(own).div_ceil(2);
        let room = limits::PARKED_CALLER_MAX.saturating_sub(own).min(by_threshold);
        if room == 0 {
            self.full.insert(caller);
        } else if room >= own.saturating_add(room) / 4 {
            self.full.remove(&caller);
        }
        if self.full.contains(&caller) { 0 } else { room }
    }

    /// Whether one more may be parked: what is on its way when the room ends still fits.
    pub fn has_room(&self, caller: CallerId) -> bool {
        let (own, most) = (self.of(caller), |max: u32| max + max / 4);
        own < most(limits::PARKED_CALLER_MAX) && own < most(limits::PARKED_MAX).saturating_sub(self.count)
    }

    fn count(&mut self, caller: CallerId, sites: &Sites) {
        self.count += 1;
        *self.by_caller.entry(caller).or_default() += 1;
        for (scope, _) in sites {
            *self.by_site.entry(scope.clone()).or_default() += 1;
        }
        metrics::gauge!("conveyor_messages_parked").increment(1.0);
    }

    pub fn uncount(&mut self, caller: CallerId, sites: &Sites) {
        fn less<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, u32>, key: &K) {
            let left = counts.get_mut(key).map_or(0, |count| {
                *count -= 1;
                *count
            });
            if left == 0 {
                counts.remove(key);
            }
        }
        self.count -= 1;
        less(&mut self.by_caller, &caller);
        sites.iter().for_each(|(scope, _)| less(&mut self.by_site, scope));
        metrics::gauge!("conveyor_messages_parked").decrement(1.0);
    }

    fn group(&mut self, run: &Arc<RunContext>, sites: Sites, shares: Vec<Arc<Share>>) -> &mut Group {
        let of_run = self
            .runs
            .entry(run.key.run)
            .or_insert_with(|| OfRun { context: run.clone(), groups: VecDeque::new() });
        let place = of_run.groups.iter().position(|group| group.sites == sites).unwrap_or_else(|| {
            of_run.groups.push_back(Group { sites, shares, messages: VecDeque::new() });
            of_run.groups.len() - 1
        });
        &mut of_run.groups[place]
    }

    pub fn add(
        &mut self,
        run: &Arc<RunContext>,
        sites: Sites,
        shares: Vec<Arc<Share>>,
        messages: impl IntoIterator<Item = Parked>,
    ) {
        for parked in messages {
            self.count(run.job.caller, &sites);
            self.group(run, sites.clone(), shares.clone()).messages.push_back(parked);
        }
    }

    pub fn add_first(
        &mut self,
        run: &Arc<RunContext>,
        sites: Sites,
        shares: Vec<Arc<Share>>,
        parked: Parked,
    ) {
        self.count(run.job.caller, &sites);
        self.group(run, sites, shares).messages.push_front(parked);
    }

    /// Takes out those that fit, in their order.
    pub fn remove(
        &mut self,
        mut fits: impl FnMut(RunId, &Parked) -> bool,
    ) -> Vec<(Arc<RunContext>, Sites, Parked)> {
        let mut removed = Vec::new();
        for (run, of_run) in &mut self.runs {
            for group in &mut of_run.groups {
                let (out, stay) =
                    std::mem::take(&mut group.messages).into_iter().partition(|m| fits(*run, m));
                group.messages = stay;
                let out: VecDeque<Parked> = out;
                removed.extend(out.into_iter().map(|m| (of_run.context.clone(), group.sites.clone(), m)));
            }
        }
        for (run, sites, _) in &removed {
            self.uncount(run.job.caller, sites);
            self.tidy(run.key.run);
        }
        removed
    }

    /// Takes out those that fit, by run.
    pub fn leave(
        &mut self,
        fits: impl FnMut(RunId, &Parked) -> bool,
    ) -> Vec<(Arc<RunContext>, Vec<Receipt>)> {
        let mut left: HashMap<RunId, (Arc<RunContext>, Vec<Receipt>)> = HashMap::new();
        for (run, _, parked) in self.remove(fits) {
            left.entry(run.key.run).or_insert_with(|| (run, Vec::new())).1.push(parked.delivery.receipt);
        }
        left.into_values().collect()
    }

    /// Drops groups that have nothing left, and with them their hold on a share.
    pub fn tidy(&mut self, run: RunId) {
        let Some(of_run) = self.runs.get_mut(&run) else { return };
        of_run.groups.retain(|group| !group.messages.is_empty());
        if of_run.groups.is_empty() {
            self.runs.remove(&run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(n: u8) -> CallerId {
        CallerId::from_bytes([n; 16])
    }

    #[test]
    fn a_caller_that_is_full_gets_room_again_when_a_quarter_is_free() {
        let (mut state, sites) = (State::default(), Sites::new());
        let (max, quarter) = (limits::PARKED_CALLER_MAX, limits::PARKED_CALLER_MAX / 4);
        (0..max - 1).for_each(|_| state.count(caller(1), &sites));
        assert_eq!((state.room(caller(1)), state.room(caller(2))), (1, max));
        state.count(caller(1), &sites);
        assert_eq!(state.room(caller(1)), 0);
        (1..quarter).for_each(|_| state.uncount(caller(1), &sites));
        assert_eq!(state.room(caller(1)), 0, "receives would bring one message each");
        state.uncount(caller(1), &sites);
        assert_eq!(state.room(caller(1)), quarter);
    }

    #[test]
    fn callers_that_park_all_they_may_leave_room_for_the_next() {
        let (mut state, sites) = (State::default(), Sites::new());
        for n in 1..=12 {
            let room = state.room(caller(n));
            assert!(room > 0, "caller {n} finds {} parked", state.count);
            (0..room.min(1_000)).for_each(|_| state.count(caller(n), &sites));
            assert!(state.count <= limits::PARKED_MAX && state.has_room(caller(n + 1)));
        }
        assert_eq!(state.room(caller(1)), 0, "it has more than are free");
    }
}
