//! A worker incarnation that keeps to the protocol (SPEC 6 and 8), one action a step, in whatever order chance leaves open.
//! Everything it knows is lost when it dies; what it did not hear it repeats, or leaves to the message that comes back.

mod finish;
mod flight;
mod outcome;
mod take;

use crate::audit::grants::Belief;
use crate::dice::Dice;
use crate::settings::Habits;
use crate::violation::Check;
use crate::world::World;
use bytes::Bytes;
use conveyor_domain::grant::Holding;
use conveyor_domain::{JobId, RunId, Timestamp, WorkerId, limits};
use conveyor_store::port::{ActiveRun, BlobKey, RunKey};
use flight::{Flight, Phase};
use std::collections::{BTreeMap, BTreeSet};

const SLOTS: (u32, u32) = (3, 12);
/// Small, so that tasks get there.
const CLAIMS_MAX: u32 = 3;

/// This worker's part of a job's permits.
#[derive(Clone, Copy, Debug)]
struct Share {
    cap: u32,
    holding: Holding,
    asked: Timestamp,
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
    Ask(JobId, u32),
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
        let of =
            |(job, share): (&JobId, &Share)| Belief { worker: self.id, job: *job, holding: share.holding };
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
            Action::Ask(job, cap) => self.ask(world, job, cap).await,
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
            if room > 0 {
                actions.push((if self.dry.contains(&key.run) { 1 } else { 5 }, Action::Receive(key, room)));
            }
            if self.dry.contains(&key.run) && !self.flights.iter().any(|f| f.key == key) {
                actions.push((4, Action::CheckEnd(key)));
            }
        }
        actions.extend(self.next_ask(now).map(|(job, cap)| (4, Action::Ask(job, cap))));
        for job in self.shares.keys() {
            if self.used(*job) == 0 && !self.runs.iter().any(|active| active.job.id == *job) {
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
        if of_run().any(|f| matches!(f.phase, Phase::Received)) {
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

    /// How many tasks of the job could be started now.
    fn room(&self, job: JobId, now: Timestamp) -> u32 {
        let Some(share) = self.shares.get(&job) else { return 0 };
        if now.after(limits::GRANT_MARGIN) >= share.holding.expires {
            return 0;
        }
        let held = u32::try_from(self.flights.len()).unwrap_or(u32::MAX);
        share.holding.permits.saturating_sub(self.used(job)).min(self.slots.saturating_sub(held))
    }

    /// The job whose permits it is most urgent to ask for: one without any, or the one that waited longest.
    fn next_ask(&self, now: Timestamp) -> Option<(JobId, u32)> {
        let known = self.runs.iter().map(|active| (active.job.id, active.job.spec.max_inflight));
        let in_use = self.shares.iter().filter(|(job, _)| self.used(**job) > 0);
        let due = |(job, cap): &(JobId, u32)| {
            self.shares.get(job).is_none_or(|share| {
                let wants_more = share.holding.permits < (*cap).min(self.slots);
                let every =
                    if wants_more { limits::GRANT_RENEW_EVERY / 3 } else { limits::GRANT_RENEW_EVERY };
                share.asked.until(now) >= every
            })
        };
        known
            .chain(in_use.map(|(job, share)| (*job, share.cap)))
            .filter(due)
            .min_by_key(|(job, _)| (self.shares.get(job).map(|share| share.asked), *job))
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
