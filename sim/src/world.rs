//! What all actors share, and the two ways to the store: the one that fails, and the auditors'.

use crate::actors::echo::Past;
use crate::audit;
use crate::clock::SimClock;
use crate::dice::Dice;
use crate::disk::Disk;
use crate::faults::Weather;
use crate::flaky::flaky;
use crate::model::Model;
use crate::settings::Settings;
use crate::tally::Summary;
use crate::trace::Trace;
use crate::violation::Check;
use conveyor_domain::{CallerId, Clock, JobId, Timestamp};
use conveyor_store::Backend;
use conveyor_store::port::JobView;
use std::fmt::Display;
use std::sync::Arc;

#[derive(Debug)]
pub struct World {
    /// The store as its users have it.
    pub backend: Backend,
    /// The store itself, for auditors and for what the queue does by itself.
    pub truth: Backend,
    pub clock: Arc<SimClock>,
    pub dice: Arc<Dice>,
    pub weather: Arc<Weather>,
    pub trace: Trace,
    pub model: Model,
    pub past: Past,
    /// What is counted as it happens.
    pub tally: Summary,
    pub callers: Vec<CallerId>,
    pub step: u64,
}

impl World {
    pub fn new(disk: &Disk, seed: u64, settings: &Settings, callers: usize) -> World {
        let clock = Arc::new(SimClock::default());
        let dice = Arc::new(Dice::new(seed));
        let trace = Trace::new(clock.now(), settings.keep_trace);
        let weather = Arc::new(Weather::new(settings.faults, dice.clone(), trace.clone()));
        World {
            backend: flaky(disk.backend(), weather.clone()),
            truth: disk.backend(),
            callers: (0..callers).map(|_| CallerId::new(clock.now(), dice.entropy())).collect(),
            model: Model::default(),
            past: Past::default(),
            tally: Summary::default(),
            step: 0,
            clock,
            dice,
            weather,
            trace,
        }
    }

    /// The store that the next process opened.
    pub fn use_disk(&mut self, disk: &Disk) {
        self.backend = flaky(disk.backend(), self.weather.clone());
        self.truth = disk.backend();
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn note(&self, event: impl Display) {
        self.trace.note(event);
    }

    /// A job's short name.
    pub fn name(&self, job: JobId) -> String {
        self.model.find(job).map_or_else(|| job.to_string(), ToString::to_string)
    }

    /// Something else at every step, and for every job of a step.
    pub fn turn(&self, job: usize) -> usize {
        usize::try_from(self.step).unwrap_or(0) + job
    }

    /// Every read of a job by anybody passes here.
    pub fn see(&mut self, view: &JobView) -> Check {
        audit::see(self.model.job(view.job.id), view)
    }
}
