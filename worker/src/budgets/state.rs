//! What a worker knows of its share of one budget, and what it may start by that.

use super::circuit::Circuit;
use crate::outage::Backoff;
use conveyor_domain::dispatch::grant::{Ask, Limits};
use conveyor_domain::{Grant, Rate, Timestamp, WorkerId, limits};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// A hold that is longer than the known one by less than this is the same hold.
const HOLD_NEWS: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct State {
    /// As the job says, or the jobs that share a site.
    pub learned: Limits,
    pub learned_at: Option<Instant>,
    /// What the coordinator decided by.
    pub granted: Limits,
    pub permits: u32,
    /// What to go down to, as others wait.
    pub fair: u32,
    /// When the share lapses, on the monotonic clock. Also by the worker's clock, which knows of a machine that slept.
    pub expires: Option<(Instant, Timestamp)>,
    pub used: u32,
    /// When a part of it was last taken or given back.
    pub used_at: Option<Instant>,
    /// The most that was used since this moment.
    pub peak: u32,
    pub peak_since: Option<Instant>,
    pub starts: VecDeque<Start>,
    /// Uses that have no start yet.
    pub unstarted: u32,
    /// Uses that took a start since some were last asked for ahead.
    pub begun: u32,
    pub more_starts_at: Option<Instant>,
    /// The latest that was handed out.
    last_start: Option<Instant>,
    pub held_until: Option<Timestamp>,
    pub asked: Option<Instant>,
    pub asking: bool,
    /// Requests that are not answered are not repeated at once.
    pub backoff: Backoff,
    pub circuit: Circuit,
}

/// A moment at which a call may begin, counted on this worker's monotonic clock from when the grant was received: never
/// before the moment that the coordinator meant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub at: Instant,
    /// From the request to the answer: so much later than meant it may be.
    round_trip: Duration,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Need {
    /// Permits that this worker could use in all.
    pub most: u32,
    /// Tasks that are there, and have neither permit nor start.
    pub waiting: u32,
    /// More tasks may come: starts are worth having ahead of them.
    pub ahead: bool,
}

impl Start {
    /// What is left of the lateness that a rate allows, but never nothing: then no start would ever be in time.
    pub fn good_until(self, rate: Rate) -> Instant {
        self.at + rate.late_max().saturating_sub(self.round_trip).max(rate.late_min())
    }
}

impl State {
    pub fn age(&self) -> Duration {
        self.asked.map_or(Duration::MAX, |at| at.elapsed())
    }

    /// Near its end a share starts nothing: what is started must be over, or renewed, before others may have the permits.
    pub fn lapses(&self, now: Timestamp) -> bool {
        self.expires.is_none_or(|(at, by_clock)| {
            Instant::now() + limits::GRANT_MARGIN >= at || now.after(limits::GRANT_MARGIN) >= by_clock
        })
    }

    pub fn is_held(&self, now: Timestamp) -> bool {
        // Further ahead than this it was said by a clock that has been set back since.
        let longest = now.after(limits::RETRY_AFTER_MAX + limits::GRANT_MARGIN);
        self.held_until.is_some_and(|until| until > now && until <= longest)
    }

    /// Whether its next start may be at this moment or earlier, as far as is known.
    pub fn may_start_by(&self, moment: Instant) -> bool {
        let Some(rate) = self.limits().rate else { return true };
        let next = self.more_starts_at.map(|at| at + limits::STARTS_AHEAD);
        next.max(self.last_start.map(|last| last + rate.interval())).is_none_or(|next| next <= moment)
    }

    pub fn are_starts_due(&self) -> bool {
        self.more_starts_at.is_none_or(|at| at <= Instant::now())
    }

    /// Starts nothing before this. True if that is news worth telling: a second more is not.
    pub fn hold_until(&mut self, until: Timestamp) -> bool {
        let news = self.held_until.is_none_or(|held| held.after(HOLD_NEWS) < until);
        self.held_until = self.held_until.max(Some(until));
        news
    }

    /// Jobs that share a site need not agree: of what was learned lately the strictest holds.
    pub fn learn(&mut self, limits: Limits) {
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
    pub fn limits(&self) -> Limits {
        self.learned.stricter(self.granted)
    }

    /// What to ask for. Until the answer is there no more is used than this says.
    pub fn request(&mut self, worker: WorkerId, need: Need, now: Timestamp) -> Ask {
        let review = self.peak_since.is_none_or(|at| at.elapsed() >= limits::GRANT_RENEW_EVERY);
        let want = self.want(need, review);
        if review {
            (self.peak, self.peak_since) = (self.used, Some(Instant::now()));
        }
        if self.lapses(now) {
            // Others may have what was ours. What is under way stays so.
            self.permits = self.used;
            self.starts.clear();
        }
        // What the coordinator writes down is the truth.
        self.permits = self.permits.min(want.min(self.fair).max(self.used));
        self.drop_late();
        let useful = self.useful_starts(want, need);
        if need.ahead {
            self.begun = 0;
        }
        Ask {
            worker,
            in_use: self.permits,
            want,
            starts: useful.saturating_sub(u32::try_from(self.starts.len()).unwrap_or(u32::MAX)),
            startable: self.unstarted.saturating_add(self.permits - self.used),
            limits: self.learned,
        }
    }

    fn want(&self, need: Need, review: bool) -> u32 {
        let cap = self.learned.max_inflight.unwrap_or(u32::MAX);
        let want = match self.peak >= self.permits {
            // All of it was used: more could be.
            true => need.most,
            // Now and then what was not used for a while goes back.
            false if review => self.peak.max(1),
            false => self.permits,
        };
        want.max(self.used.saturating_add(need.waiting)).min(cap.max(self.used))
    }

    /// How many starts are worth having. Nobody knows how many tasks will come, and a start without a task is lost to all
    /// workers: ahead of them only what the rate brings in a moment, and twice that as long as all of it is used. So a
    /// burst is asked for in a few steps, by those who have the tasks for it.
    fn useful_starts(&self, want: u32, need: Need) -> u32 {
        let Some(rate) = self.limits().rate else { return 0 };
        let there = self.unstarted.saturating_add(need.waiting);
        if !need.ahead {
            return there;
        }
        let could_start = want.saturating_sub(self.used).saturating_add(self.unstarted);
        let likely = rate.starts_in(limits::STARTS_AHEAD).max(self.begun.saturating_mul(2));
        there.max(likely.min(could_start))
    }

    pub fn room(&mut self, lead: Duration, now: Timestamp) -> u32 {
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
    pub fn could_have_more(&self, need: Need, now: Timestamp) -> bool {
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
        let most = need.most.min(self.limits().max_inflight.unwrap_or(u32::MAX));
        let permits = self.permits <= self.used && self.permits < most;
        if self.lapses(now) || permits {
            return age >= limits::GRANT_ASK_EVERY;
        }
        let Some(rate) = self.limits().rate else { return false };
        // Half of what is ahead is a good moment: asking takes time as well.
        let low = rate.starts_in(limits::STARTS_AHEAD / 2).max(1) as usize;
        let due = self.are_starts_due();
        self.starts.len().saturating_sub(self.unstarted as usize) < low
            && self.starts.len() < self.useful_starts(most, need) as usize
            && due
            && age >= limits::REDISCOVER_AFTER
    }

    pub fn drop_late(&mut self) {
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
    pub fn keep(
        &mut self,
        grant: Grant,
        probes: bool,
        asked: (Instant, Timestamp),
        received: (Instant, Timestamp),
    ) {
        if grant.limits.rate != self.granted.rate {
            // They would be as late as the other rate allows.
            self.starts.clear();
        }
        self.permits = grant.permits.max(self.used);
        self.fair = grant.fair;
        self.expires = Some((asked.0 + grant.lasts(), asked.1.after(grant.lasts())));
        self.granted = grant.limits;
        if grant.limits.revision > self.learned.revision {
            self.learn(grant.limits);
        }
        let (at, round_trip) = (received.0, received.0 - asked.0);
        let mut starts = grant.starts.len();
        if grant.limits.rate.is_some_and(|rate| round_trip > rate.round_trip_max()) {
            // They may be too late already. With none at all a slow coordinator would stop everything.
            starts = starts.min(1);
            metrics::counter!("conveyor_starts_lost_total").increment((grant.starts.len() - starts) as u64);
        }
        let starts = grant.starts[..starts].iter();
        self.starts.extend(starts.map(|start| Start { at: at + grant.after(*start), round_trip }));
        self.last_start = self.starts.iter().map(|start| start.at).max().max(self.last_start);
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
pub(super) fn most_starts(rate: Rate) -> u32 {
    rate.starts_in(limits::STARTS_AHEAD).saturating_add(rate.burst())
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::Budget;

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

    /// Calls of every other answer begin as late as they may, the others at once.
    #[tokio::test(start_paused = true)]
    async fn calls_keep_to_the_bound_however_long_an_answer_takes() {
        for (per_second, burst) in [(10.0, 10), (50.0, 10), (50.0, 1), (1.0, 1)] {
            let rate = Rate::new(per_second, Some(burst)).unwrap();
            let limits = Limits { rate: Some(rate), ..Limits::default() };
            let worker = WorkerId::from_bytes([1; 16]);
            let ask = Ask { worker, in_use: 0, want: 100, starts: 100, startable: 100, limits };
            let (mut budget, mut state, began) = (Budget::default(), State::default(), Instant::now());
            let clock = |at: Instant| Timestamp(1_000_000 + i64::try_from((at - began).as_millis()).unwrap());
            let (mut calls, mut slow) = (Vec::new(), 0.0);
            for (n, round_trip_ms) in [1_500, 5, 90, 5, 3_000, 5, 99, 5].into_iter().enumerate() {
                let asked = (Instant::now(), clock(Instant::now()));
                let grant = budget.ask(&ask, asked.1);
                tokio::time::advance(Duration::from_millis(round_trip_ms)).await;
                slow += if round_trip_ms > 1_000 { 1.0 } else { 0.0 };
                state.keep(grant, false, asked, (Instant::now(), clock(Instant::now())));
                let begins = |start: Start| if n % 2 == 0 { start.good_until(rate) } else { start.at };
                calls.extend(state.starts.drain(..).map(|start| (begins(start) - began).as_secs_f64()));
            }
            calls.sort_by(f64::total_cmp);
            for (first, from) in calls.iter().enumerate() {
                for (last, to) in calls.iter().enumerate().skip(first) {
                    let window = to - from + rate.lateness_max().as_secs_f64();
                    let most = f64::from(burst) + per_second * window + slow + 1e-6;
                    let count = last - first + 1;
                    assert!(count as f64 <= most, "{rate:?}: {count} from {from} to {to}, not {most}");
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_asked_for_by_those_who_use_it() {
        let limits = |per_second| Limits { rate: Rate::new(per_second, Some(100)).ok(), ..Limits::default() };
        let (mut budget, mut state) = (Budget::default(), State::default());
        let (now, worker) = (Timestamp(1_000_000), WorkerId::from_bytes([1; 16]));
        let mut ask = |state: &mut State, need| {
            let grant = budget.ask(&state.request(worker, need, now), now);
            let asked = (Instant::now(), now);
            state.keep(grant, false, asked, asked);
            state.asked = Some(asked.0);
            state.starts.len()
        };
        state.learn(limits(0.1));
        let any = Need { most: 500, ahead: true, ..Need::default() };
        assert_eq!(ask(&mut state, any), 1);
        tokio::time::advance(limits::REDISCOVER_AFTER).await;
        state.unstarted = 1;
        assert!(!state.could_have_more(any, now), "a task may have been received for it, or none");
        state.unstarted = 0;
        let mut asked_for = Vec::new();
        for _ in 0..6 {
            state.begun = u32::try_from(state.starts.drain(..).count()).unwrap();
            asked_for.push(ask(&mut state, any));
        }
        assert_eq!(asked_for, [2, 4, 8, 16, 32, 37]);
        state.begun = 100;
        state.learn(Limits { revision: 1, ..limits(0.2) });
        assert_eq!(ask(&mut state, any), 0, "starts of another rate are not kept");
        assert_eq!(state.request(worker, Need { most: 500, waiting: 7, ahead: false }, now).starts, 7);
        assert_eq!(state.request(worker, Need { most: 500, ..Need::default() }, now).starts, 0, "a renewal");
    }
}
