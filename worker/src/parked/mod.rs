//! Parked messages (SPEC 6.7): their domains have no start for them yet, so they wait here, unclaimed and hidden in their
//! queue, and need neither slot nor permit. When a domain has room, the oldest one that waits for it is claimed again and
//! starts. All of this can be lost at any moment: a message that is not kept hidden returns by itself.

mod state;

use self::state::{Extended, Parked, State};
use crate::Worker;
use crate::batch::Room;
use crate::budgets::{Budgets, Use};
use crate::context::RunContext;
use crate::prediction::Sites;
use crate::slot::Slot;
use conveyor_domain::dispatch::grant::Scope;
use conveyor_domain::{CallerId, DomainWait, RunId, Timestamp, limits};
use conveyor_store::port::{Delivery, Receipt};
use std::collections::HashSet;
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
        self.lock().has_room(caller)
    }

    /// How many wait for a site, and for nothing else: they go first.
    pub fn ahead_at(&self, scope: &Scope) -> u32 {
        self.lock().ahead_at(scope)
    }

    /// Whether anything but their domains keeps messages of a run waiting.
    pub fn stall(&self, run: RunId, stalled: bool) {
        if let Some(of_run) = self.lock().runs.get_mut(&run) {
            of_run.stalled = stalled;
        }
    }

    /// Its claim is released. It was hidden when it was received, or since.
    pub fn park(&self, worker: &Worker, run: &Arc<RunContext>, ticket: Ticket, receipt: Receipt) {
        let visibility = worker.config.visibility;
        let delivery = Delivery { body: ticket.body, receipt, receives: ticket.receives };
        let now = Instant::now();
        let hidden_until = now + visibility - limits::extend_every(visibility);
        let parked = Parked { delivery, since: now, hidden_until, extension: None };
        let shares = ticket.sites.iter().map(|(scope, limits)| self.budgets.share(scope, *limits)).collect();
        // Held before the settler lets it go: a run that holds something is not at its end.
        run.hold(1);
        self.lock().add(run, ticket.sites, shares, parked);
        self.budgets.wake();
    }

    /// Whether any message of a run is parked; the run as it is known now.
    pub fn has_any(&self, run: &Arc<RunContext>) -> bool {
        self.lock().renew(run)
    }

    /// How many of a run's messages could start now, by their domains, and how many perhaps in a moment; `most` is what the
    /// job has room for. Asks for more starts where there could be, for no more messages than that at once: nobody else
    /// could use them.
    pub fn startable(
        &self,
        (worker, tasks): (&Arc<Worker>, &TaskTracker),
        run: RunId,
        (most, meet): (u32, Option<Instant>),
        now: Timestamp,
    ) -> (u32, u32) {
        let state = self.lock();
        let Some(of_run) = state.runs.get(&run) else { return (0, 0) };
        let mut startable: u32 = 0;
        for group in &of_run.groups {
            if startable >= most {
                return (most, 0);
            }
            startable = startable.saturating_add(group.room(now));
        }
        let mut missing = most.saturating_sub(startable);
        for group in &of_run.groups {
            if missing == 0 {
                break;
            }
            missing = missing.saturating_sub(group.ask(worker, tasks, missing, meet));
        }
        let startable = startable.min(most);
        (startable, most - startable - missing)
    }

    /// Takes up to `most` messages of a run, each with its room: `rest` is that of the job and of the worker.
    pub fn take(
        &self,
        run: &Arc<RunContext>,
        most: usize,
        now: Timestamp,
        mut rest: impl FnMut() -> Option<(Slot, Use)>,
    ) -> Vec<(Delivery, Room)> {
        let mut state = self.lock();
        state.renew(run);
        let Some(of_run) = state.runs.get_mut(&run.key.run) else { return Vec::new() };
        let (mut taken, mut freed) = (Vec::new(), Vec::new());
        'groups: for _ in 0..of_run.groups.len() {
            let Some(group) = of_run.groups.front_mut() else { break };
            while let Some(place) = group.next() {
                if taken.len() >= most {
                    break 'groups;
                }
                let Some(sites) = group.shares.iter().map(|share| share.take(now)).collect() else { break };
                let Some((slot, permit)) = rest() else { break 'groups };
                let Some(parked) = group.messages.remove(place) else { break };
                taken.push((parked.delivery, Room { slot, permit: Some(permit), sites }));
                freed.push(group.sites.clone());
            }
            of_run.groups.rotate_left(1);
        }
        freed.iter().for_each(|sites| state.uncount(run, sites));
        state.tidy(run.key.run);
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
            let count = state.waiting_for(scope);
            let until = share.free_at(now).after(share.room_every(call).saturating_mul(count));
            Some((until, domain))
        });
        let (until, domain) = waits.max()?;
        let least = now.after(limits::DOMAIN_WAIT_TOLD_EVERY + limits::BOUNCE_MIN);
        Some(DomainWait { domain: domain.clone(), until: until.max(least) })
    }

    /// Returns the messages of runs that are not wanted here to their queues, to be received at once.
    pub fn release(
        &self,
        worker: &Arc<Worker>,
        tasks: &TaskTracker,
        unwanted: impl Fn(CallerId, RunId) -> bool,
    ) {
        let mut state = self.lock();
        let runs = state.runs.iter().filter(|(run, of_run)| unwanted(of_run.context.job.caller, **run));
        let unwanted: HashSet<RunId> = runs.map(|(run, _)| *run).collect();
        if unwanted.is_empty() {
            return;
        }
        for (run, messages) in
            state.leave(|run, parked| unwanted.contains(&run) && parked.extension.is_none())
        {
            let worker = worker.clone();
            tasks.spawn(async move { give_back(&worker, &run, messages).await });
        }
    }

    /// Extensions that were under way will not be answered.
    pub fn forget_extensions(&self) {
        self.lock().forget_extensions();
    }

    /// Returns everything that is not being extended.
    pub async fn release_all(&self, worker: &Worker) {
        let all = self.lock().leave(|_, parked| parked.extension.is_none());
        for (run, messages) in all {
            give_back(worker, &run, messages).await;
        }
    }

    /// Keeps messages hidden that would come back soon, and returns those that have waited for too long. Called every
    /// [`limits::extend_every`].
    pub async fn keep_hidden(&self, worker: &Worker) {
        let visibility = worker.config.visibility;
        let soon = Instant::now() + 2 * limits::extend_every(visibility);
        let is_old = |parked: &Parked| parked.since.elapsed() >= limits::PARKED_FOR_MAX;
        let old = self.lock().leave(|_, parked| is_old(parked) && parked.extension.is_none());
        for (run, messages) in old {
            give_back(worker, &run, messages).await;
        }
        let runs: Vec<RunId> = self.lock().runs.keys().copied().collect();
        for run in runs {
            let Some((context, messages)) = self.lock().extend(run, soon) else { continue };
            let (names, receipts): (Vec<u64>, Vec<Receipt>) = messages.into_iter().unzip();
            let (queue, hidden_until) = (&worker.backend.queue, Instant::now() + 2 * visibility);
            let answers =
                match queue.extend(context.queue, receipts, 2 * visibility, worker.clock.now()).await {
                    Ok(renewed) => {
                        worker.outages.succeeded(NOT_HIDDEN);
                        let answer = |renewed: Option<Receipt>| match renewed {
                            Some(receipt) => Extended::Until(hidden_until, receipt),
                            None => Extended::Gone,
                        };
                        names.into_iter().zip(renewed.into_iter().map(answer)).collect()
                    }
                    Err(error) => {
                        worker.outages.failed(NOT_HIDDEN, &error);
                        names.into_iter().map(|name| (name, Extended::Unknown)).collect()
                    }
                };
            self.lock().extended(run, answers);
        }
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
