//! This worker's part of one budget.

use super::Use;
use crate::Worker;
use conveyor_domain::grant::{Ask, Grant, Hold, Limits, Scope};
use conveyor_domain::rate::Rate;
use conveyor_domain::{Timestamp, limits};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

#[derive(Debug)]
pub struct Share {
    pub scope: Scope,
    state: Mutex<State>,
    /// Starts have come, for tasks that wait for theirs.
    pub(super) started: Notify,
    /// Wakes the loop: something may be startable.
    pub(super) freed: Arc<Notify>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// As the job says, or the jobs that share a site.
    learned: Limits,
    learned_at: Option<Instant>,
    /// What the coordinator decided by.
    granted: Limits,
    permits: u32,
    /// What to go down to, as others wait.
    fair: u32,
    expires: Timestamp,
    pub(super) used: u32,
    /// The most that was used since this moment.
    peak: u32,
    peak_since: Option<Instant>,
    pub(super) starts: VecDeque<Timestamp>,
    /// Uses that have no start yet.
    pub(super) unstarted: u32,
    more_starts_at: Option<Timestamp>,
    held_until: Option<Timestamp>,
    asked: Option<Instant>,
    asking: bool,
    gateway: GatewayHealth,
}

/// How often in a row the gateway was not up to its work, and how long it was then left alone.
#[derive(Debug, Default)]
struct GatewayHealth {
    failures: u32,
    pause: Duration,
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
        let due = state.more_starts_at.is_none_or(|at| at <= now) && state.age() >= limits::REDISCOVER_AFTER;
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
        self.ask_beside(worker, tasks, most);
    }

    pub fn holds_any(&self) -> bool {
        self.lock().permits > 0
    }

    /// Not used, and not for a while.
    pub fn is_idle(&self) -> bool {
        let state = self.lock();
        state.used == 0 && !state.asking && state.age() >= limits::GRANT_RENEW_EVERY
    }

    pub fn is_due_for_renewal(&self) -> bool {
        let state = self.lock();
        let outdated =
            state.granted.revision != state.learned.revision && state.age() >= limits::REDISCOVER_AFTER;
        let too_many = state.permits > state.used.max(state.fair) && state.age() >= limits::GRANT_ASK_EVERY;
        state.used > 0 && !state.asking && (outdated || too_many || state.age() >= limits::GRANT_RENEW_EVERY)
    }

    /// How many tasks may be received for it now.
    pub fn room(&self, now: Timestamp) -> u32 {
        self.lock().room(limits::START_LEAD, now)
    }

    /// Whether it has room, or may ask for some now.
    pub fn may_have_room(&self, most: u32, now: Timestamp) -> bool {
        let mut state = self.lock();
        state.room(limits::START_LEAD, now) > 0 || (!state.asking && state.could_have_more(most, now))
    }

    /// How many that are there already may wait for their start.
    pub fn room_soon(&self, now: Timestamp) -> u32 {
        self.lock().room(limits::STARTS_AHEAD, now)
    }

    /// When it may have room again, as far as is known.
    pub fn free_at(&self, now: Timestamp) -> Timestamp {
        let state = self.lock();
        state.held_until.max(state.more_starts_at).unwrap_or(now).max(now.after(limits::GRANT_ASK_EVERY))
    }

    /// How often it has room for one more, about, if a call takes so long.
    pub fn room_every(&self, call: Duration) -> Duration {
        let limits = self.lock().limits();
        let by_calls = limits.max_inflight.map(|cap| call / cap.max(1)).unwrap_or_default();
        limits.rate.map(Rate::interval).unwrap_or_default().max(by_calls)
    }

    /// Asks for more, if it has nothing to give and it is time. `most` is what this worker could use in all.
    pub fn want_more(self: &Arc<Self>, worker: &Arc<Worker>, tasks: &TaskTracker, most: u32) {
        let now = worker.clock.now();
        let ask = {
            let state = self.lock();
            !state.asking && state.could_have_more(most, now)
        };
        if ask {
            self.ask_beside(worker, tasks, most);
        }
    }

    /// Asks beside whatever the caller does; the loop is woken by the answer.
    pub fn ask_beside(self: &Arc<Self>, worker: &Arc<Worker>, tasks: &TaskTracker, most: u32) {
        let (share, worker) = (self.clone(), worker.clone());
        let Some(ask) = share.prepare(&worker, most, 0) else { return };
        tasks.spawn(async move { share.send(&worker, ask).await });
    }

    /// Asks for so many more, and waits for the answer. Whoever finds it being asked already does without.
    pub async fn ask_now(&self, worker: &Worker, more: u32) {
        let most = self.lock().used.saturating_add(more);
        if let Some(ask) = self.prepare(worker, most, more) {
            self.send(worker, ask).await;
        }
    }

    fn prepare(&self, worker: &Worker, most: u32, more: u32) -> Option<Ask> {
        let now = worker.clock.now();
        let mut state = self.lock();
        if state.asking {
            return None;
        }
        state.asking = true;
        let review = state.peak_since.is_none_or(|at| at.elapsed() >= limits::GRANT_RENEW_EVERY);
        let want = state.want(most, more, review);
        if review {
            (state.peak, state.peak_since) = (state.used, Some(Instant::now()));
        }
        if state.lapses(now) {
            // Others may have what was ours. What is under way stays so.
            state.permits = state.used;
        }
        // While the answer is on its way no more is used than is asked for: what the coordinator writes down is the truth.
        state.permits = state.permits.min(want.min(state.fair).max(state.used));
        state.drop_late(now);
        let starts = state.limits().rate.map_or(0, |rate| {
            let ahead = rate.starts_in(limits::STARTS_AHEAD).saturating_add(rate.tokens_max());
            let useful = want.min(ahead).max(more).max(state.unstarted);
            useful.saturating_sub(u32::try_from(state.starts.len()).unwrap_or(u32::MAX))
        });
        let startable = state.unstarted.saturating_add(state.permits - state.used);
        Some(Ask { worker: worker.id, in_use: state.permits, want, starts, startable, limits: state.learned })
    }

    async fn send(&self, worker: &Worker, ask: Ask) {
        let asked = Instant::now();
        // However this ends, by an error or by being dropped: it can be asked again.
        let _over = Asking(self);
        let answer = worker.backend.coordinator.ask(&self.scope, ask, worker.clock.now()).await;
        metrics::counter!("conveyor_budget_asks_total").increment(1);
        let mut state = self.lock();
        state.asked = Some(asked);
        match answer {
            Ok(grant) => state.keep(grant),
            Err(error) => tracing::warn!(scope = %self.scope, %error, "no answer to a request for permits"),
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
        if let Err(error) = worker.backend.coordinator.give_back(&self.scope, worker.id, now).await {
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
        state.unstarted += 1;
        state.peak = state.peak.max(state.used);
        Some(Use::counted(self.clone()))
    }

    /// When the loop should look at it, if nothing else happens.
    pub fn wake_at(&self, now: Timestamp) -> Option<Timestamp> {
        let state = self.lock();
        state.limits().rate?;
        let lead = i64::try_from(limits::START_LEAD.as_millis()).unwrap_or(0);
        let receive = state.starts.get(state.unstarted as usize).map(|at| Timestamp(at.0 - lead));
        let known = [receive, state.more_starts_at, state.held_until];
        known.into_iter().flatten().filter(|at| *at > now).min()
    }

    /// Leaves the budget alone, here and everywhere, because its other side said so.
    pub async fn hold(&self, worker: &Worker, pause: Duration) {
        let now = worker.clock.now();
        let until = now.after(pause.min(limits::RETRY_AFTER_MAX));
        // Many calls may be told the same at once: the first of them tells the others.
        if !self.lock().hold_until(until) {
            return;
        }
        let told = worker.backend.coordinator.hold(&self.scope, Hold::Until(until), now).await;
        if let Err(error) = told {
            tracing::warn!(scope = %self.scope, %error, "others do not know that they have to wait");
        }
    }

    /// Takes note of how the gateway answered. After too many failures in a row it is to be left alone for so long.
    pub fn note_answer(&self, overloaded: Option<Option<Duration>>) -> Option<Duration> {
        let mut state = self.lock();
        let Some(asked_for) = overloaded else {
            state.gateway = GatewayHealth::default();
            return None;
        };
        state.gateway.failures += 1;
        if state.gateway.failures < limits::GATEWAY_FAILURES_MAX {
            return None;
        }
        state.gateway.failures = 0;
        state.gateway.pause =
            (state.gateway.pause * 2).clamp(limits::GATEWAY_PAUSE, limits::GATEWAY_PAUSE_MAX);
        let asked_for = asked_for.unwrap_or_default().min(limits::GATEWAY_PAUSE_MAX);
        Some(state.gateway.pause.max(asked_for))
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

impl State {
    fn age(&self) -> Duration {
        self.asked.map_or(Duration::MAX, |at| at.elapsed())
    }

    /// Near its end a share starts nothing: what is started must be over, or renewed, before others may have the permits.
    pub(super) fn lapses(&self, now: Timestamp) -> bool {
        now.after(limits::GRANT_MARGIN) >= self.expires
    }

    pub(super) fn is_held(&self, now: Timestamp) -> bool {
        self.held_until.is_some_and(|until| until > now)
    }

    /// Starts nothing before this. True if that is news worth telling: a second more is not.
    fn hold_until(&mut self, until: Timestamp) -> bool {
        let news = self.held_until.is_none_or(|held| held.after(Duration::from_secs(1)) < until);
        self.held_until = self.held_until.max(Some(until));
        news
    }

    /// Jobs that share a site need not agree: of what was learned lately the strictest holds.
    fn learn(&mut self, limits: Limits) {
        let recent = self.learned_at.is_some_and(|at| at.elapsed() < limits::GRANT_RENEW_EVERY);
        let strictest = if recent { limits.stricter(self.learned) } else { limits };
        if limits.revision < self.learned.revision {
            return;
        }
        if strictest == limits {
            self.learned_at = Some(Instant::now());
        }
        self.learned = strictest;
    }

    /// What holds for it: what was learned, and what the coordinator went by.
    pub(super) fn limits(&self) -> Limits {
        self.learned.stricter(self.granted)
    }

    fn want(&self, most: u32, more: u32, review: bool) -> u32 {
        let cap = self.learned.max_inflight.unwrap_or(u32::MAX);
        let want = match self.peak >= self.permits {
            // All of it was used: more could be.
            true => most,
            // Now and then what was not used for a while goes back.
            false if review => self.peak.max(1),
            false => self.permits,
        };
        want.max(self.used.saturating_add(more)).min(cap.max(self.used))
    }

    fn room(&mut self, lead: Duration, now: Timestamp) -> u32 {
        if self.lapses(now) || self.is_held(now) {
            return 0;
        }
        let cap = self.limits().max_inflight.unwrap_or(u32::MAX);
        let permits = self.permits.min(cap).min(self.fair).saturating_sub(self.used);
        if self.limits().rate.is_none() {
            return permits;
        }
        self.drop_late(now);
        let soon = now.after(lead);
        let starts = self.starts.iter().take_while(|at| **at <= soon).count();
        permits.min(u32::try_from(starts).unwrap_or(u32::MAX).saturating_sub(self.unstarted))
    }

    /// Whether the coordinator may have something that would make room.
    fn could_have_more(&self, most: u32, now: Timestamp) -> bool {
        let age = self.age();
        if self.is_held(now) {
            return false;
        }
        if self.asked.is_none() || self.granted.revision != self.learned.revision {
            return age >= limits::REDISCOVER_AFTER;
        }
        let most = most.min(self.limits().max_inflight.unwrap_or(u32::MAX));
        let permits = self.permits <= self.used && self.permits < most;
        if self.lapses(now) || permits {
            return age >= limits::GRANT_ASK_EVERY;
        }
        let Some(rate) = self.limits().rate else { return false };
        // Half of what is ahead is a good moment: asking takes time as well.
        let low = rate.starts_in(limits::STARTS_AHEAD / 2).max(1) as usize;
        let due = self.more_starts_at.is_none_or(|at| at <= now);
        self.starts.len().saturating_sub(self.unstarted as usize) < low
            && due
            && age >= limits::REDISCOVER_AFTER
    }

    pub(super) fn drop_late(&mut self, now: Timestamp) {
        let Some(rate) = self.limits().rate else { return self.starts.clear() };
        // Of a clock that was wrong: they would keep others from being asked for.
        let latest = now.after(limits::STARTS_AHEAD + limits::GRANT_MARGIN);
        self.starts.retain(|at| *at <= latest);
        while self.starts.front().is_some_and(|at| at.after(rate.late_max()) < now) {
            self.starts.pop_front();
            metrics::counter!("conveyor_starts_lost_total").increment(1);
        }
    }

    fn keep(&mut self, grant: Grant) {
        self.permits = grant.permits.max(self.used);
        self.fair = grant.fair;
        self.expires = grant.expires;
        self.granted = grant.limits;
        if grant.limits.revision > self.learned.revision {
            self.learn(grant.limits);
        }
        self.starts.extend(grant.starts);
        self.more_starts_at = grant.more_starts_at;
        self.held_until = self.held_until.max(grant.held_until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_already_is_not_told_again() {
        let mut state = State::default();
        assert!(state.hold_until(Timestamp(10_000)));
        assert!(!state.hold_until(Timestamp(10_900)), "about the same");
        assert!(!state.hold_until(Timestamp(4_000)), "it waits for longer than that");
        assert_eq!(state.held_until, Some(Timestamp(10_900)));
        assert!(state.hold_until(Timestamp(12_000)));
    }
}
