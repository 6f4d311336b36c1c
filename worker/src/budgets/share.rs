//! This worker's part of one budget.

use super::Use;
use super::circuit::Circuit;
use crate::Worker;
use crate::outage::Backoff;
use conveyor_domain::grant::{Ask, Grant, Hold, Limits, Scope};
use conveyor_domain::rate::Rate;
use conveyor_domain::{Timestamp, limits};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

/// A hold that is longer than the known one by less than this is the same hold.
const HOLD_NEWS: Duration = Duration::from_secs(1);
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
    /// When the share lapses, on the monotonic clock. Also by the worker's clock, which knows of a machine that slept.
    expires: Option<(Instant, Timestamp)>,
    pub(super) used: u32,
    /// When a part of it was last taken or given back.
    pub(super) used_at: Option<Instant>,
    /// The most that was used since this moment.
    peak: u32,
    peak_since: Option<Instant>,
    pub(super) starts: VecDeque<Start>,
    /// Uses that have no start yet.
    pub(super) unstarted: u32,
    more_starts_at: Option<Instant>,
    held_until: Option<Timestamp>,
    asked: Option<Instant>,
    asking: bool,
    /// Requests that are not answered are not repeated at once.
    backoff: Backoff,
    pub(super) circuit: Circuit,
}

/// A moment at which a call may begin, counted on this worker's monotonic clock from when the grant was received: never
/// before the moment that the coordinator meant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub at: Instant,
    /// From the request to the answer: so much later than meant it may be.
    round_trip: Duration,
}

impl Start {
    /// What is left of the lateness that a rate allows, but never nothing: then no start would ever be in time.
    pub fn good_until(self, rate: Rate) -> Instant {
        self.at + rate.late_max().saturating_sub(self.round_trip).max(rate.late_min())
    }
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
        self.ask_beside(worker, tasks, most);
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
        if state.asking || state.backoff.is_resting() {
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
            state.starts.clear();
        }
        // While the answer is on its way no more is used than is asked for: what the coordinator writes down is the truth.
        state.permits = state.permits.min(want.min(state.fair).max(state.used));
        state.drop_late();
        let starts = state.limits().rate.map_or(0, |rate| {
            let ahead = most_starts(rate);
            let useful = want.min(ahead).max(more).max(state.unstarted);
            useful.saturating_sub(u32::try_from(state.starts.len()).unwrap_or(u32::MAX))
        });
        let startable = state.unstarted.saturating_add(state.permits - state.used);
        Some(Ask { worker: worker.id, in_use: state.permits, want, starts, startable, limits: state.learned })
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
        state.used_at = Some(Instant::now());
        state.unstarted += 1;
        state.peak = state.peak.max(state.used);
        Some(Use::counted(self.clone()))
    }

    /// When the loop should look at it, if nothing else happens.
    pub fn wake_at(&self, now: Timestamp) -> Option<Timestamp> {
        let state = self.lock();
        state.limits().rate?;
        let receive =
            state.starts.get(state.unstarted as usize).map(|start| ahead(start.at - limits::START_LEAD, now));
        let more_starts = state.more_starts_at.map(|at| ahead(at, now));
        let known = [receive, more_starts, state.held_until];
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
        let told = worker.backend.coordinator.hold(&self.scope, Hold::Until(until), now).await;
        if let Err(error) = told {
            tracing::warn!(scope = %self.scope, %error, "others do not know that they have to wait");
        }
    }

    /// How long a task that waits for its start has to wait at least.
    pub(super) fn held_for(&self, now: Timestamp) -> Option<Duration> {
        self.lock().held_until.filter(|until| *until > now).map(|until| now.until(until))
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
        self.expires.is_none_or(|(at, by_clock)| {
            Instant::now() + limits::GRANT_MARGIN >= at || now.after(limits::GRANT_MARGIN) >= by_clock
        })
    }

    pub(super) fn is_held(&self, now: Timestamp) -> bool {
        // Further ahead than this it was said by a clock that has been set back since.
        let longest = now.after(limits::RETRY_AFTER_MAX + limits::GRANT_MARGIN);
        self.held_until.is_some_and(|until| until > now && until <= longest)
    }

    fn are_starts_due(&self) -> bool {
        self.more_starts_at.is_none_or(|at| at <= Instant::now())
    }

    /// Starts nothing before this. True if that is news worth telling: a second more is not.
    pub(super) fn hold_until(&mut self, until: Timestamp) -> bool {
        let news = self.held_until.is_none_or(|held| held.after(HOLD_NEWS) < until);
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
        let permits = self.circuit.room(permits, self.unstarted);
        if self.limits().rate.is_none() {
            return permits;
        }
        self.drop_late();
        let soon = Instant::now() + lead;
        let starts = self.starts.iter().take_while(|start| start.at <= soon).count();
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
        let next_start =
            self.more_starts_at.filter(|_| self.limits().rate.is_some() && self.starts.is_empty());
        if next_start.is_some_and(|at| at > Instant::now()) && age < limits::GRANT_RENEW_EVERY {
            // Permits are of no use before there is a start.
            return false;
        }
        let most = most.min(self.limits().max_inflight.unwrap_or(u32::MAX));
        let permits = self.permits <= self.used && self.permits < most;
        if self.lapses(now) || permits {
            return age >= limits::GRANT_ASK_EVERY;
        }
        let Some(rate) = self.limits().rate else { return false };
        // Half of what is ahead is a good moment: asking takes time as well.
        let low = rate.starts_in(limits::STARTS_AHEAD / 2).max(1) as usize;
        let due = self.are_starts_due();
        self.starts.len().saturating_sub(self.unstarted as usize) < low
            && due
            && age >= limits::REDISCOVER_AFTER
    }

    pub(super) fn drop_late(&mut self) {
        let Some(rate) = self.limits().rate else { return self.starts.clear() };
        let now = Instant::now();
        while self.starts.front().is_some_and(|start| start.good_until(rate) < now) {
            self.starts.pop_front();
            metrics::counter!("conveyor_starts_lost_total").increment(1);
        }
    }

    /// Takes over a grant. Of its times only the distances from its decision count, on this worker's own clocks: from when
    /// it was asked for where later would be too late, from when it was received where earlier would be too early.
    /// `probes` if what the budget is held for is a gateway that failed another worker.
    fn keep(
        &mut self,
        grant: Grant,
        probes: bool,
        asked: (Instant, Timestamp),
        received: (Instant, Timestamp),
    ) {
        self.permits = grant.permits.max(self.used);
        self.fair = grant.fair;
        self.expires = Some((asked.0 + grant.lasts(), asked.1.after(grant.lasts())));
        self.granted = grant.limits;
        if grant.limits.revision > self.learned.revision {
            self.learn(grant.limits);
        }
        let (at, round_trip) = (received.0, received.0 - asked.0);
        let starts = grant.starts.iter().map(|start| Start { at: at + grant.after(*start), round_trip });
        self.starts.extend(starts);
        // The answer before this one may have taken longer.
        self.starts.make_contiguous().sort_by_key(|start| start.at);
        self.more_starts_at = grant.more_starts_at.map(|more| at + grant.after(more));
        let held = grant.held_until.map(|until| received.1.after(grant.after(until)));
        // An answer repeats a hold that is known; times may differ a little.
        let known = self.held_until.map_or(received.1, |held| held.after(HOLD_NEWS)).max(received.1);
        if probes && held.is_some_and(|until| until > known) {
            self.circuit.open();
        }
        self.held_until = self.held_until.max(held);
    }
}

/// What a full bucket hands out at once.
fn most_starts(rate: Rate) -> u32 {
    rate.starts_in(limits::STARTS_AHEAD).saturating_add(rate.burst())
}

/// A moment of the monotonic clock, as a clock shows it that shows `now`.
fn ahead(at: Instant, now: Timestamp) -> Timestamp {
    now.after(at.saturating_duration_since(Instant::now()))
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

    fn grant(decided_at: i64) -> Grant {
        Grant {
            decided_at: Timestamp(decided_at),
            permits: 5,
            fair: 5,
            expires: Timestamp(decided_at + 30_000),
            starts: [0, 100, 200].map(|ms| Timestamp(decided_at + ms)).to_vec(),
            more_starts_at: Some(Timestamp(decided_at + 300)),
            held_until: None,
            limits: Limits { rate: Rate::new(10.0, Some(40)).ok(), ..Limits::default() },
        }
    }

    /// Whether it may start something, and how many starts are less than this away.
    fn seen(state: &mut State, now: Timestamp) -> (bool, u32) {
        (state.lapses(now), state.room(Duration::ZERO, now))
    }

    #[tokio::test(start_paused = true)]
    async fn a_grant_counts_on_the_workers_own_clock_whoever_decided_it_by_which() {
        const DAY: i64 = 24 * 3_600_000;
        for decided_at in [1_000_000, 1_000_000 - 60 * DAY, 1_000_000 + 60 * DAY, 1_060_000] {
            let (mut state, own) = (State::default(), |ms: i64| Timestamp(1_000_000 + ms));
            let asked = (Instant::now(), own(0));
            tokio::time::advance(Duration::from_millis(40)).await;
            state.keep(grant(decided_at), false, asked, (Instant::now(), own(40)));
            assert_eq!(seen(&mut state, own(40)), (false, 1), "decided at {decided_at}");
            tokio::time::advance(Duration::from_millis(99)).await;
            assert_eq!(
                seen(&mut state, own(139)),
                (false, 1),
                "100 ms from the answer, not from the request"
            );
            tokio::time::advance(Duration::from_millis(1)).await;
            assert_eq!(seen(&mut state, own(140)), (false, 2));
            assert!(!state.are_starts_due());
            // 30 s from the request, and 5 s before that it starts nothing.
            tokio::time::advance(Duration::from_millis(24_859)).await;
            assert!(!state.lapses(own(24_999)) && state.are_starts_due());
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(state.lapses(own(25_000)));
            assert!(state.lapses(own(140)), "though its own clock was set back");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_share_lapses_when_the_machine_slept_and_a_hold_ends_when_the_clock_was_set_back() {
        let (mut state, own) = (State::default(), |ms: i64| Timestamp(60 * 24 * 3_600_000 + ms));
        let held_until = Some(Timestamp(1_000_500));
        state.keep(
            Grant { held_until, ..grant(1_000_000) },
            false,
            (Instant::now(), own(0)),
            (Instant::now(), own(0)),
        );
        assert!(state.is_held(own(499)) && !state.is_held(own(500)));
        assert!(!state.lapses(own(0)) && state.lapses(own(25_000)), "only the wall clock went on");
        assert!(!state.is_held(Timestamp(0)), "60 days back");
    }

    #[test]
    fn what_the_round_trip_took_is_not_left_for_lateness() {
        let (burst, strict) = (Rate::new(50.0, Some(10)).unwrap(), Rate::new(50.0, Some(1)).unwrap());
        let start = Start { at: Instant::now(), round_trip: Duration::from_millis(30) };
        let left = |rate| start.good_until(rate) - start.at;
        assert_eq!(left(burst), Duration::from_millis(99 - 30));
        assert_eq!(left(strict), limits::START_LATE_MIN, "or no call would ever be in time");
    }
}
