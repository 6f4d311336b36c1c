//! This worker's part of one budget.

use super::Use;
use super::state::{Need, State, most_starts};
use crate::Worker;
use conveyor_domain::dispatch::grant::{Ask, Change, Limits, Scope};
use conveyor_domain::{Rate, Timestamp, limits};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

const NO_GRANT: &str = "no answer to a request for permits";

#[derive(Debug)]
pub struct Share {
    pub scope: Scope,
    state: Mutex<State>,
    /// Starts have come, for tasks that wait for theirs.
    pub(super) started: Notify,
    /// Wakes the loop: something may be startable.
    pub(super) freed: Arc<Notify>,
}

impl Share {
    pub fn new(scope: Scope, freed: Arc<Notify>) -> Share {
        Share { scope, state: Mutex::default(), started: Notify::new(), freed }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn learn(&self, limits: Limits) {
        let mut state = self.lock();
        state.learn(limits);
        if state.limits().rate.is_none() && state.unstarted > 0 {
            self.started.notify_waiters();
        }
    }

    /// Whether tasks are there that have no start, and starts may be had for them. Their queue may be empty by now.
    pub fn is_waited_for(&self, now: Timestamp) -> bool {
        let state = self.lock();
        let waited_for = state.unstarted as usize > state.starts.len() && state.limits().rate.is_some();
        let due = state.are_starts_due() && state.age() >= limits::REDISCOVER_AFTER;
        waited_for && due && !state.asking && !state.is_held(now)
    }

    pub fn used(&self) -> u32 {
        self.lock().used
    }

    /// Asks to keep what it has, and for starts that are waited for.
    pub fn renew(self: &Arc<Self>, worker: &Arc<Worker>, tasks: &TaskTracker) {
        let most = {
            let state = self.lock();
            state.permits.max(state.used)
        };
        self.ask_beside(worker, tasks, Need { most, ..Need::default() });
    }

    pub fn holds_any(&self) -> bool {
        self.lock().permits > 0
    }

    /// Not used, and not for a while. `wanted` if parked messages wait for it.
    pub fn is_idle(&self, wanted: bool) -> bool {
        let state = self.lock();
        let domain = matches!(self.scope, Scope::Domain(..));
        let enough = if domain && !wanted { limits::DOMAIN_SHARE_IDLE } else { limits::GRANT_RENEW_EVERY };
        // Permits without a cap are nobody else's.
        let kept = wanted && state.limits().max_inflight.is_none();
        let unused = !domain || state.used_at.is_none_or(|at| at.elapsed() >= enough);
        state.used == 0 && !state.asking && !kept && unused && state.age() >= enough
    }

    pub fn is_due_for_renewal(&self) -> bool {
        let state = self.lock();
        let outdated =
            state.granted.revision != state.learned.revision && state.age() >= limits::REDISCOVER_AFTER;
        let too_many = state.permits > state.used.max(state.fair) && state.age() >= limits::GRANT_ASK_EVERY;
        state.used > 0 && !state.asking && (outdated || too_many || state.age() >= limits::GRANT_RENEW_EVERY)
    }

    pub fn is_strict(&self) -> bool {
        self.lock().limits().rate.is_some_and(Rate::is_strict)
    }

    /// The first moment that no task has yet, of a rate whose moments do not meet those of another by themselves.
    pub fn strict_start(&self) -> Option<Instant> {
        let state = self.lock();
        let strict = state.limits().rate.is_some_and(Rate::is_strict);
        state.starts.get(state.unstarted as usize).filter(|_| strict).map(|start| start.at)
    }

    pub fn may_start_by(&self, moment: Instant) -> bool {
        self.lock().may_start_by(moment)
    }

    pub fn is_asking(&self) -> bool {
        self.lock().asking
    }

    /// How many tasks one answer may bring the starts for.
    pub fn answer_max(&self) -> u32 {
        let limits = self.lock().limits();
        limits.rate.map_or(u32::MAX, most_starts).min(limits.max_inflight.unwrap_or(u32::MAX))
    }

    /// How many tasks may be received for it now.
    pub fn room(&self, now: Timestamp) -> u32 {
        self.lock().room(limits::START_LEAD, now)
    }

    /// Whether it has room, or may ask for some now.
    pub fn may_have_room(&self, need: Need, now: Timestamp) -> bool {
        let mut state = self.lock();
        state.room(limits::START_LEAD, now) > 0 || (!state.asking && state.could_have_more(need, now))
    }

    /// How many that are there already may wait for their start.
    pub fn room_soon(&self, now: Timestamp) -> u32 {
        self.lock().room(limits::STARTS_AHEAD, now)
    }

    /// When it may have room again, as far as is known.
    pub fn free_at(&self, now: Timestamp) -> Timestamp {
        let state = self.lock();
        let more_starts = state.more_starts_at.map(|at| ahead(at, now));
        let held = state.held_until.filter(|_| state.is_held(now));
        held.max(more_starts).unwrap_or(now).max(now.after(limits::GRANT_ASK_EVERY))
    }

    /// How often it has room for one more, about, if a call takes so long.
    pub fn room_every(&self, call: Duration) -> Duration {
        let limits = self.lock().limits();
        let by_calls = limits.max_inflight.map(|cap| call / cap.max(1)).unwrap_or_default();
        limits.rate.map(Rate::interval).unwrap_or_default().max(by_calls)
    }

    /// Asks for more, if it has nothing to give and it is time.
    pub fn want_more(self: &Arc<Self>, worker: &Arc<Worker>, tasks: &TaskTracker, need: Need) {
        let now = worker.clock.now();
        let ask = {
            let state = self.lock();
            !state.asking && state.could_have_more(need, now)
        };
        if ask {
            self.ask_beside(worker, tasks, need);
        }
    }

    /// Asks beside whatever the caller does; the loop is woken by the answer.
    fn ask_beside(self: &Arc<Self>, worker: &Arc<Worker>, tasks: &TaskTracker, need: Need) {
        let (share, worker) = (self.clone(), worker.clone());
        let Some(ask) = share.prepare(&worker, need) else { return };
        tasks.spawn(async move { share.send(&worker, ask).await });
    }

    /// Asks for so many more, and waits for the answer. Whoever finds it being asked already does without.
    pub async fn ask_now(&self, worker: &Worker, more: u32) {
        let most = self.lock().used.saturating_add(more);
        if let Some(ask) = self.prepare(worker, Need { most, waiting: more, ahead: false }) {
            self.send(worker, ask).await;
        }
    }

    fn prepare(&self, worker: &Worker, need: Need) -> Option<Ask> {
        let mut state = self.lock();
        if state.asking || state.backoff.is_resting() {
            return None;
        }
        state.asking = true;
        Some(state.request(worker.id, need, worker.clock.now()))
    }

    async fn send(&self, worker: &Worker, ask: Ask) {
        let (asked, asked_at) = (Instant::now(), worker.clock.now());
        // However this ends, by an error or by being dropped: it can be asked again.
        let _over = Asking(self);
        let answer = worker.backend.coordinator.ask(&self.scope, ask, asked_at).await;
        metrics::counter!("conveyor_budget_asks_total").increment(1);
        let mut state = self.lock();
        state.asked = Some(asked);
        match answer {
            Ok(grant) => {
                state.backoff.succeeded();
                worker.outages.succeeded(NO_GRANT);
                let probes = matches!(self.scope, Scope::Job(_));
                state.keep(grant, probes, (asked, asked_at), (Instant::now(), worker.clock.now()));
            }
            Err(error) => {
                state.backoff.failed(NO_GRANT, asked, &worker.entropy);
                drop(state);
                worker.outages.failed(NO_GRANT, &error);
            }
        }
    }

    /// Gives back what is held, unless it is being used or asked for. Like a request: two at once could overtake each other.
    pub async fn give_back(&self, worker: &Worker) {
        {
            let mut state = self.lock();
            if state.asking || state.used > 0 || state.permits == 0 {
                return;
            }
            state.asking = true;
            state.permits = 0;
            state.starts.clear();
        }
        let _over = Asking(self);
        let now = worker.clock.now();
        if let Err(error) =
            worker.backend.coordinator.change(&self.scope, Change::GiveBack(worker.id), now).await
        {
            tracing::warn!(scope = %self.scope, %error, "a share could not be given back; it lapses by itself");
        }
    }

    /// Takes one task's part. The caller has seen that there is room, or decides by the answer.
    pub fn take(self: &Arc<Self>, now: Timestamp) -> Option<Use> {
        self.take_within(limits::START_LEAD, now)
    }

    /// The same for a task that is there already.
    pub fn take_soon(self: &Arc<Self>, now: Timestamp) -> Option<Use> {
        self.take_within(limits::STARTS_AHEAD, now)
    }

    fn take_within(self: &Arc<Self>, lead: Duration, now: Timestamp) -> Option<Use> {
        let mut state = self.lock();
        if state.room(lead, now) == 0 {
            return None;
        }
        state.used += 1;
        state.used_at = Some(Instant::now());
        state.unstarted += 1;
        state.peak = state.peak.max(state.used);
        Some(Use::counted(self.clone()))
    }

    /// When the loop should look at it, if nothing else happens.
    pub fn wake_at(&self, now: Timestamp) -> Option<Timestamp> {
        let state = self.lock();
        state.limits().rate?;
        let next = state.starts.get(state.unstarted as usize);
        let [receive, meet] = [limits::START_LEAD, limits::START_LATE_MIN]
            .map(|lead| next.map(|start| ahead(start.at - lead, now)));
        let more_starts = state.more_starts_at.map(|at| ahead(at, now));
        let known = [receive, meet, more_starts, state.held_until];
        known.into_iter().flatten().filter(|at| *at > now).min()
    }

    /// Leaves the budget alone, here and everywhere, because its other side said so.
    pub async fn hold(&self, worker: &Worker, pause: Duration) {
        let now = worker.clock.now();
        let until = now.after(pause.min(limits::RETRY_AFTER_MAX));
        // Many calls may be told the same at once: the first of them tells the others.
        if self.lock().hold_until(until) {
            self.tell_hold(worker, until).await;
        }
    }

    /// Tells the other workers of a hold that is kept here already.
    pub async fn tell_hold(&self, worker: &Worker, until: Timestamp) {
        let now = worker.clock.now();
        let told = worker.backend.coordinator.change(&self.scope, Change::HoldUntil(until), now).await;
        if let Err(error) = told {
            tracing::warn!(scope = %self.scope, %error, "others do not know that they have to wait");
        }
    }

    /// How long a task that waits for its start has to wait at least.
    pub(super) fn blocked_for(&self, now: Timestamp) -> Option<Duration> {
        let state = self.lock();
        let held = state.held_until.filter(|until| *until > now).map(|until| now.until(until));
        held.or_else(|| state.circuit.next_probe()?.checked_duration_since(Instant::now()))
    }
}

/// A request under way.
struct Asking<'a>(&'a Share);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.lock().asking = false;
        self.0.started.notify_waiters();
        self.0.freed.notify_one();
    }
}

/// A moment of the monotonic clock, as a clock shows it that shows `now`.
fn ahead(at: Instant, now: Timestamp) -> Timestamp {
    now.after(at.saturating_duration_since(Instant::now()))
}
