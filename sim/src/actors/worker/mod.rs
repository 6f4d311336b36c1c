//! A worker incarnation that keeps to the protocol (SPEC 6 and 8), one action a step, in whatever order chance leaves open.
//! Everything it knows is lost when it dies; what it did not hear it repeats, or leaves to the message that comes back.

mod finish;
mod flight;
mod outcome;
mod take;
mod unused;

use crate::audit::grants::Belief;
use crate::dice::Dice;
use crate::settings::Habits;
use crate::violation::Check;
use crate::world::World;
use bytes::Bytes;
use conveyor_domain::dispatch::grant::{Holding, Limits};
use conveyor_domain::{JobId, Rate, RunId, Timestamp, WorkerId, limits};
use conveyor_store::port::{ActiveRun, BlobKey, RunKey};
use flight::{Flight, Phase};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const SLOTS: (u32, u32) = (3, 12);
/// Small, so that tasks get there.
const CLAIMS_MAX: u32 = 3;

/// This worker's part of a job's budget.
#[derive(Clone, Debug)]
struct Share {
    limits: Limits,
    holding: Holding,
    /// Moments at which a task may be started, the earliest first.
    starts: Vec<Timestamp>,
    more_starts_at: Option<Timestamp>,
    held_until: Option<Timestamp>,
    asked: Timestamp,
}

impl Share {
    fn is_held(&self, now: Timestamp) -> bool {
        self.held_until.is_some_and(|until| until > now)
    }

    /// Starts whose time is now, or comes within this; not those that it is too late for.
    fn starts_within(&self, lead: Duration, now: Timestamp) -> u32 {
        let late_max = self.limits.rate.map_or(Duration::ZERO, Rate::late_max);
        let usable = |start: &&Timestamp| **start <= now.after(lead) && start.after(late_max) >= now;
        u32::try_from(self.starts.iter().filter(usable).count()).unwrap_or(u32::MAX)
    }
}

/// A result object that is not stored yet.
#[derive(Clone, Debug)]
struct Object {
    key: BlobKey,
    bytes: Bytes,
}

#[derive(Debug)]
pub struct Worker {
    name: String,
    id: WorkerId,
    slots: u32,
    habits: Habits,
    runs: Vec<ActiveRun>,
    refreshed: Option<Timestamp>,
    shares: BTreeMap<JobId, Share>,
    flights: Vec<Flight>,
    unsaved: BTreeMap<u64, Object>,
    objects: u64,
    /// Runs whose queue was found empty since their end was last looked for.
    dry: BTreeSet<RunId>,
    /// Until when it stands still, as a process does that the machine does not run.
    stalled: Option<Timestamp>,
}

/// The next thing that a worker may do.
#[derive(Clone, Copy, Debug)]
enum Action {
    Discover,
    Ask(JobId, Limits),
    GiveBack(JobId),
    Receive(RunKey, u32),
    Claim(RunKey),
    Finish(RunKey),
    Put(u64),
    Settle(RunKey),
    Return(RunKey),
    Extend(RunKey),
    CheckEnd(RunKey),
}

impl Worker {
    pub fn new(name: String, habits: Habits, now: Timestamp, dice: &Dice) -> Worker {
        Worker {
            name,
            id: WorkerId::new(now, dice.entropy()),
            slots: dice.between(SLOTS.0, SLOTS.1),
            habits,
            runs: Vec::new(),
            refreshed: None,
            shares: BTreeMap::new(),
            flights: Vec::new(),
            unsaved: BTreeMap::new(),
            objects: 0,
            dry: BTreeSet::new(),
            stalled: None,
        }
    }

    pub fn beliefs(&self) -> impl Iterator<Item = Belief> + '_ {
        let of = |(job, share): (&JobId, &Share)| Belief {
            worker: self.id,
            job: *job,
            holding: share.holding,
            in_use: self.used(*job),
        };
        self.shares.iter().map(of)
    }

    pub fn stall(&mut self, until: Timestamp) {
        self.stalled = Some(until);
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub async fn step(&mut self, world: &mut World) -> Check {
        if self.stalled.is_some_and(|until| until > world.now()) {
            return Ok(());
        }
        self.stalled = None;
        let actions = self.actions(world.now());
        match world.dice.weighted(&actions).unwrap_or(Action::Discover) {
            Action::Discover => self.discover(world).await,
            Action::Ask(job, limits) => self.ask(world, job, limits).await,
            Action::GiveBack(job) => self.give_back(world, job).await,
            Action::Receive(key, room) => self.receive(world, key, room).await,
            Action::Claim(key) => self.claim(world, key).await,
            Action::Finish(key) => self.finish(world, key).await,
            Action::Put(object) => self.put(world, object).await,
            Action::Settle(key) => self.settle(world, key).await,
            Action::Return(key) => self.give_messages_back(world, key).await,
            Action::Extend(key) => self.extend(world, key).await,
            Action::CheckEnd(key) => self.check_end(world, key).await,
        }
    }

    /// What can be done now, and how eager the worker is for it. What is under way goes before what is new.
    fn actions(&self, now: Timestamp) -> Vec<(u32, Action)> {
        let mut actions = Vec::new();
        if self.refreshed.is_none_or(|at| at.until(now) >= limits::DISCOVER_EVERY) {
            actions.push((2, Action::Discover));
        }
        for active in &self.runs {
            let key = RunKey { job: active.job.id, run: active.run.id };
            let room = self.room(key.job, now);
            if room > 0 && !active.run.paused {
                actions.push((if self.dry.contains(&key.run) { 1 } else { 5 }, Action::Receive(key, room)));
            }
            if self.dry.contains(&key.run) && !self.flights.iter().any(|f| f.key == key) {
                actions.push((4, Action::CheckEnd(key)));
            }
        }
        actions.extend(self.next_ask(now).map(|(job, limits)| (4, Action::Ask(job, limits))));
        for job in self.shares.keys() {
            if self.used(*job) == 0 && !self.works_on(*job) {
                actions.push((1, Action::GiveBack(*job)));
            }
        }
        actions.extend(self.unsaved.keys().map(|object| (9, Action::Put(*object))));
        for key in flight::runs(&self.flights) {
            self.flight_actions(key, now, &mut actions);
        }
        actions
    }

    fn flight_actions(&self, key: RunKey, now: Timestamp, actions: &mut Vec<(u32, Action)>) {
        let of_run = || self.flights.iter().filter(|f| f.key == key);
        if of_run().any(|f| matches!(f.phase, Phase::Received)) && self.may_start(key.job, now) > 0 {
            actions.push((9, Action::Claim(key)));
        }
        if of_run().any(|f| f.is_worked_off(now)) {
            actions.push((9, Action::Finish(key)));
        }
        if of_run().any(|f| self.can_settle(f)) {
            actions.push((9, Action::Settle(key)));
        }
        if of_run().any(|f| matches!(f.phase, Phase::Over(_))) {
            actions.push((9, Action::Return(key)));
        }
        if of_run().any(|f| f.hidden.until(now) >= limits::extend_every(limits::VISIBILITY)) {
            actions.push((4, Action::Extend(key)));
        }
    }

    /// Permits of the job that are in use: from the receipt of a message until the work on its task is over.
    fn used(&self, job: JobId) -> u32 {
        let uses =
            |f: &&Flight| f.key.job == job && matches!(f.phase, Phase::Received | Phase::Working { .. });
        u32::try_from(self.flights.iter().filter(uses).count()).unwrap_or(u32::MAX)
    }

    fn works_on(&self, job: JobId) -> bool {
        self.runs.iter().any(|active| active.job.id == job && !active.run.paused)
    }

    /// How many tasks of the job could be received now: those with a permit, and with a start where there is a rate.
    fn room(&self, job: JobId, now: Timestamp) -> u32 {
        let Some(share) = self.shares.get(&job) else { return 0 };
        if now.after(limits::GRANT_MARGIN) >= share.holding.expires || share.is_held(now) {
            return 0;
        }
        let held = u32::try_from(self.flights.len()).unwrap_or(u32::MAX);
        let room = share.holding.permits.saturating_sub(self.used(job)).min(self.slots.saturating_sub(held));
        if share.limits.rate.is_none() {
            return room;
        }
        room.min(share.starts_within(limits::START_LEAD, now).saturating_sub(self.unstarted(job)))
    }

    /// Tasks of the job that were received and not started yet.
    fn unstarted(&self, job: JobId) -> u32 {
        let waits = |f: &&Flight| f.key.job == job && matches!(f.phase, Phase::Received);
        u32::try_from(self.flights.iter().filter(waits).count()).unwrap_or(u32::MAX)
    }

    /// How many tasks of the job may be started at this moment.
    fn may_start(&self, job: JobId, now: Timestamp) -> u32 {
        match self.shares.get(&job) {
            Some(share) if share.is_held(now) => 0,
            Some(share) if share.limits.rate.is_some() => share.starts_within(Duration::ZERO, now),
            Some(_) | None => u32::MAX,
        }
    }

    /// The job whose budget it is most urgent to ask: one without any, or the one that waited longest.
    fn next_ask(&self, now: Timestamp) -> Option<(JobId, Limits)> {
        let running = self.runs.iter().filter(|active| !active.run.paused);
        let known = running.map(|active| (active.job.id, active.job.spec.limits()));
        let in_use = self.shares.iter().filter(|(job, _)| self.used(**job) > 0);
        known
            .chain(in_use.map(|(job, share)| (*job, share.limits)))
            .filter(|(job, limits)| self.is_ask_due(*job, *limits, now))
            .min_by_key(|(job, _)| (self.shares.get(job).map(|share| share.asked), *job))
    }

    fn wanted(&self, limits: Limits) -> u32 {
        limits.max_inflight.map_or(self.slots, |cap| cap.min(self.slots))
    }

    /// Starts that it could use beyond those that it has.
    fn starts_wanted(&self, job: JobId, limits: Limits, now: Timestamp) -> u32 {
        let has = self.shares.get(&job).map_or(0, |share| share.starts_within(limits::STARTS_AHEAD * 2, now));
        if limits.rate.is_some() { self.wanted(limits).saturating_sub(has) } else { 0 }
    }

    fn is_ask_due(&self, job: JobId, limits: Limits, now: Timestamp) -> bool {
        let Some(share) = self.shares.get(&job) else { return true };
        let wants_more =
            share.holding.permits < self.wanted(limits) || limits.revision > share.limits.revision;
        let every = if wants_more { limits::GRANT_RENEW_EVERY / 3 } else { limits::GRANT_RENEW_EVERY };
        let starts_due = self.starts_wanted(job, share.limits, now) > 0
            && !share.is_held(now)
            && share.asked < now
            && share.more_starts_at.is_none_or(|at| at <= now);
        share.asked.until(now) >= every || starts_due
    }

    /// Whether the task has an outcome whose body is stored.
    fn can_settle(&self, flight: &Flight) -> bool {
        match &flight.phase {
            Phase::Done { object, .. } => {
                self.habits.stores_last || object.is_none_or(|n| !self.unsaved.contains_key(&n))
            }
            Phase::Received | Phase::Working { .. } | Phase::Over(_) => false,
        }
    }
}
