//! Parked messages (SPEC 6.7): their domains have no start for them yet, so they wait here, unclaimed and hidden in their
//! queue, and need neither slot nor permit. When a domain has room, the oldest one that waits for it is claimed again and
//! starts. All of this can be lost at any moment: a message that is not kept hidden returns by itself.

use crate::Worker;
use crate::batch::Room;
use crate::budgets::{Budgets, Share, Use};
use crate::context::RunContext;
use crate::prediction::Sites;
use crate::slot::Slot;
use conveyor_domain::grant::{DomainWait, Scope};
use conveyor_domain::{CallerId, RunId, Timestamp, limits};
use conveyor_store::port::{Delivery, Receipt};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

const NOT_HIDDEN: &str = "parked messages could not be kept hidden";
const NOT_RETURNED: &str = "parked messages could not be returned; they come back by themselves";

/// A message that is to be parked once its claim is released.
#[derive(Debug)]
pub struct Ticket {
    pub sites: Sites,
    pub body: String,
    pub receives: u32,
}

#[derive(Debug)]
struct Parked {
    delivery: Delivery,
    since: Instant,
    /// Its queue hides it at least until then.
    hidden_until: Instant,
}

/// A message that was taken out, and what it draws on.
type Removed = (Sites, Parked);

/// Messages of a run that draw on the same domains.
#[derive(Debug)]
struct Group {
    sites: Sites,
    shares: Vec<Arc<Share>>,
    messages: VecDeque<Parked>,
}

#[derive(Debug)]
struct OfRun {
    context: Arc<RunContext>,
    /// The first one is served first, then moves to the end.
    groups: VecDeque<Group>,
}

#[derive(Debug, Default)]
struct State {
    runs: HashMap<RunId, OfRun>,
    by_caller: HashMap<CallerId, u32>,
    by_site: HashMap<Scope, u32>,
    /// Callers that had no room left: they get some when a quarter is free, so that receives bring more than one message.
    full: HashSet<CallerId>,
    count: u32,
}

#[derive(Debug)]
pub struct Parking {
    budgets: Arc<Budgets>,
    state: Mutex<State>,
}

impl Parking {
    pub fn new(budgets: Arc<Budgets>) -> Parking {
        Parking { budgets, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many more messages of a caller may be received, should all of them have to be parked.
    pub fn room(&self, caller: CallerId) -> u32 {
        self.lock().room(caller)
    }

    /// Whether a message that cannot start may be parked.
    pub fn has_room(&self, caller: CallerId) -> bool {
        let state = self.lock();
        // What is on its way when the room ends still fits.
        let most = |max: u32| max + max / 4;
        state.of(caller) < most(limits::PARKED_CALLER_MAX) && state.count < most(limits::PARKED_MAX)
    }

    pub fn waiting_for(&self, scope: &Scope) -> u32 {
        self.lock().by_site.get(scope).copied().unwrap_or(0)
    }

    /// Its claim is released. It was hidden when it was received, or since.
    pub fn park(&self, worker: &Worker, run: &Arc<RunContext>, ticket: Ticket, receipt: Receipt) {
        let visibility = worker.config.visibility;
        let delivery = Delivery { body: ticket.body, receipt, receives: ticket.receives };
        let now = Instant::now();
        let hidden_until = now + visibility - limits::extend_every(visibility);
        let parked = Parked { delivery, since: now, hidden_until };
        let shares = ticket.sites.iter().map(|(scope, limits)| self.budgets.share(scope, *limits)).collect();
        // Held before the settler lets it go: a run that holds something is not at its end.
        run.hold(1);
        self.lock().add(run, ticket.sites, shares, [parked]);
        self.budgets.wake();
    }

    pub fn has_any(&self, run: RunId) -> bool {
        self.lock().runs.contains_key(&run)
    }

    /// How many of a run's messages could start now, by their domains; `most` is what the job has room for. Asks for more
    /// starts where there could be, for no more messages than that at once: nobody else could use them.
    pub fn startable(
        &self,
        worker: &Arc<Worker>,
        tasks: &TaskTracker,
        run: RunId,
        most: u32,
        now: Timestamp,
    ) -> u32 {
        let state = self.lock();
        let Some(of_run) = state.runs.get(&run) else { return 0 };
        let mut startable: u32 = 0;
        for group in &of_run.groups {
            if startable >= most {
                return most;
            }
            startable = startable.saturating_add(group.room(now));
        }
        let mut missing = most.saturating_sub(startable);
        for group in &of_run.groups {
            if missing == 0 {
                break;
            }
            missing = missing.saturating_sub(group.ask(worker, tasks, missing));
        }
        startable.min(most)
    }

    /// Takes up to `most` messages of a run, each with its room: `rest` is that of the job and of the worker.
    pub fn take(
        &self,
        run: RunId,
        most: usize,
        now: Timestamp,
        mut rest: impl FnMut() -> Option<(Slot, Use)>,
    ) -> Vec<(Delivery, Room)> {
        let mut state = self.lock();
        let Some(of_run) = state.runs.get_mut(&run) else { return Vec::new() };
        let (mut taken, mut freed) = (Vec::new(), Vec::new());
        'groups: for _ in 0..of_run.groups.len() {
            let Some(group) = of_run.groups.front_mut() else { break };
            while !group.messages.is_empty() {
                if taken.len() >= most {
                    break 'groups;
                }
                let Some(sites) = group.shares.iter().map(|share| share.take(now)).collect() else { break };
                let Some((slot, permit)) = rest() else { break 'groups };
                let Some(parked) = group.messages.pop_front() else { break };
                taken.push((parked.delivery, Room { slot, permit: Some(permit), sites }));
                freed.push(group.sites.clone());
            }
            of_run.groups.rotate_left(1);
        }
        let caller = of_run.context.job.caller;
        freed.iter().for_each(|sites| state.uncount(caller, sites));
        state.tidy(run);
        taken
    }

    /// The domain that messages of a run wait for the longest, or this one, and when about the last of them starts.
    pub fn wait_of(&self, run: RunId, only: Option<&str>, now: Timestamp) -> Option<DomainWait> {
        let state = self.lock();
        let of_run = state.runs.get(&run)?;
        let call = of_run.context.usual_call();
        let waits = of_run.groups.iter().flat_map(|group| group.shares.iter().zip(&group.sites));
        let waits = waits.filter_map(|(share, (scope, _))| {
            let Scope::Domain(_, domain) = scope else { return None };
            if only.is_some_and(|only| only != domain) {
                return None;
            }
            let count = state.by_site.get(scope).copied().unwrap_or(0);
            let until = share.free_at(now).after(share.room_every(call).saturating_mul(count));
            Some((until, domain))
        });
        let (until, domain) = waits.max()?;
        let least = now.after(limits::DOMAIN_WAIT_TOLD_EVERY + limits::BOUNCE_MIN);
        Some(DomainWait { domain: domain.clone(), until: until.max(least) })
    }

    /// The job changed, perhaps its limits: where its messages go is found out by their next claims.
    pub fn forget_sites(&self, run: &Arc<RunContext>) {
        let mut state = self.lock();
        let Some(of_run) = state.runs.remove(&run.key.run) else { return };
        let caller = of_run.context.job.caller;
        for group in of_run.groups {
            group.messages.iter().for_each(|_| state.uncount(caller, &group.sites));
            state.add(run, Sites::new(), Vec::new(), group.messages);
        }
    }

    /// Returns the messages of runs that are not wanted here to their queues, to be received at once.
    pub fn release(&self, worker: &Arc<Worker>, tasks: &TaskTracker, unwanted: impl Fn(RunId) -> bool) {
        if !self.lock().runs.keys().any(|run| unwanted(*run)) {
            return;
        }
        for (run, messages) in self.lock().leave(|run, _| unwanted(run)) {
            let worker = worker.clone();
            tasks.spawn(async move { give_back(&worker, &run, messages).await });
        }
    }

    pub async fn release_all(&self, worker: &Worker) {
        let all = self.lock().leave(|_, _| true);
        for (run, messages) in all {
            give_back(worker, &run, messages).await;
        }
    }

    /// Keeps messages hidden that would come back soon, and returns those that have waited for too long. Called every
    /// [`limits::extend_every`].
    pub async fn keep_hidden(&self, worker: &Worker) {
        let visibility = worker.config.visibility;
        let soon = Instant::now() + 2 * limits::extend_every(visibility);
        let old = self.lock().leave(|_, parked| parked.since.elapsed() >= limits::PARKED_FOR_MAX);
        for (run, messages) in old {
            give_back(worker, &run, messages).await;
        }
        // Out of reach meanwhile: an extension may change the receipt.
        let mut due: HashMap<RunId, (Arc<RunContext>, Vec<Removed>)> = HashMap::new();
        for (run, sites, parked) in self.lock().remove(|_, parked| parked.hidden_until < soon) {
            due.entry(run.key.run).or_insert_with(|| (run, Vec::new())).1.push((sites, parked));
        }
        for (run, mut messages) in due.into_values() {
            let receipts = messages.iter().map(|(_, parked)| parked.delivery.receipt.clone()).collect();
            let (queue, hidden_until) = (&worker.backend.queue, Instant::now() + 2 * visibility);
            match queue.extend(run.queue, receipts, 2 * visibility, worker.clock.now()).await {
                Ok(renewed) => {
                    worker.outages.succeeded(NOT_HIDDEN);
                    for ((_, parked), receipt) in messages.iter_mut().zip(&renewed) {
                        if let Some(receipt) = receipt {
                            (parked.delivery.receipt, parked.hidden_until) = (receipt.clone(), hidden_until);
                        }
                    }
                    let mut there = renewed.iter().map(Option::is_some);
                    messages.retain(|_| there.next().unwrap_or(true));
                    run.let_go(u32::try_from(renewed.iter().filter(|r| r.is_none()).count()).unwrap_or(0));
                }
                // They stay: a claim decides, also on a message that has come back meanwhile.
                Err(error) => worker.outages.failed(NOT_HIDDEN, &error),
            }
            let mut state = self.lock();
            for (sites, parked) in messages.into_iter().rev() {
                let shares = sites.iter().map(|(scope, limits)| self.budgets.share(scope, *limits)).collect();
                state.add_first(&run, sites, shares, parked);
            }
        }
    }
}

impl Group {
    fn waiting(&self) -> u32 {
        u32::try_from(self.messages.len()).unwrap_or(u32::MAX)
    }

    /// How many of its messages could start now.
    fn room(&self, now: Timestamp) -> u32 {
        let rooms = self.shares.iter().zip(&self.sites).map(|(share, (_, limits))| {
            share.learn(*limits);
            share.room(now)
        });
        rooms.fold(self.waiting(), u32::min)
    }

    /// Asks for more starts if there could be, for at most so many messages. Returns how many the answers may bring.
    fn ask(&self, worker: &Arc<Worker>, tasks: &TaskTracker, most: u32) -> u32 {
        let wanted = self.waiting().min(most);
        let asked = self.shares.iter().filter(|share| {
            share.want_more(worker, tasks, share.used().saturating_add(wanted));
            share.is_asking()
        });
        // All of them: what one has no start for needs none of the others, but that is known only by its answer.
        asked.map(|share| share.answer_max().min(wanted)).max().unwrap_or(0)
    }
}

async fn give_back(worker: &Worker, run: &RunContext, messages: Vec<Receipt>) {
    let count = u32::try_from(messages.len()).unwrap_or(u32::MAX);
    let later = messages.into_iter().map(|receipt| (receipt, Duration::ZERO)).collect();
    match worker.backend.queue.release(run.queue, later, worker.clock.now()).await {
        Ok(()) => worker.outages.succeeded(NOT_RETURNED),
        Err(error) => worker.outages.failed(NOT_RETURNED, &error),
    }
    run.let_go(count);
}

impl State {
    fn of(&self, caller: CallerId) -> u32 {
        self.by_caller.get(&caller).copied().unwrap_or(0)
    }

    fn room(&mut self, caller: CallerId) -> u32 {
        let own = limits::PARKED_CALLER_MAX.saturating_sub(self.of(caller));
        let room = own.min(limits::PARKED_MAX.saturating_sub(self.count));
        if room == 0 {
            self.full.insert(caller);
        } else if own >= limits::PARKED_CALLER_MAX / 4 {
            self.full.remove(&caller);
        }
        if self.full.contains(&caller) { 0 } else { room }
    }

    fn count(&mut self, caller: CallerId, sites: &Sites) {
        self.count += 1;
        *self.by_caller.entry(caller).or_default() += 1;
        for (scope, _) in sites {
            *self.by_site.entry(scope.clone()).or_default() += 1;
        }
        metrics::gauge!("conveyor_messages_parked").increment(1.0);
    }

    fn uncount(&mut self, caller: CallerId, sites: &Sites) {
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

    fn add(
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

    fn add_first(&mut self, run: &Arc<RunContext>, sites: Sites, shares: Vec<Arc<Share>>, parked: Parked) {
        self.count(run.job.caller, &sites);
        self.group(run, sites, shares).messages.push_front(parked);
    }

    /// Takes out those that fit, in their order.
    fn remove(
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
    fn leave(&mut self, fits: impl FnMut(RunId, &Parked) -> bool) -> Vec<(Arc<RunContext>, Vec<Receipt>)> {
        let mut left: HashMap<RunId, (Arc<RunContext>, Vec<Receipt>)> = HashMap::new();
        for (run, _, parked) in self.remove(fits) {
            left.entry(run.key.run).or_insert_with(|| (run, Vec::new())).1.push(parked.delivery.receipt);
        }
        left.into_values().collect()
    }

    /// Drops groups that have nothing left, and with them their hold on a share.
    fn tidy(&mut self, run: RunId) {
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
    fn all_callers_together_have_a_limit() {
        let (mut state, sites) = (State::default(), Sites::new());
        (0..limits::PARKED_MAX).for_each(|n| state.count(caller((n % 8) as u8), &sites));
        assert_eq!(state.room(caller(9)), 0);
        assert_eq!((state.count, state.by_caller.len()), (limits::PARKED_MAX, 8));
    }
}
