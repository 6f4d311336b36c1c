//! Whose turn it is, what strikes between the turns, and when the auditors look.

use crate::actors::caller::Caller;
use crate::actors::ingester::Ingester;
use crate::actors::worker::Worker;
use crate::actors::{echo, sweeper};
use crate::audit::grants::Belief;
use crate::audit::{self, Care, completion, ingest, uploads};
use crate::disk::Disk;
use crate::model::{JobModel, Presence};
use crate::settings::Settings;
use crate::tally::Summary;
use crate::violation::{Check, Failure, Violation};
use crate::world::World;
use crate::{objects, operator, queues};
use conveyor_domain::Timestamp;
use std::path::Path;
use std::time::Duration;

const CALLERS: usize = 2;
/// Steps that a drain may take, beyond those for each unfinished task.
const DRAIN_STEPS: u64 = 800;
const DRAIN_STEPS_A_TASK: u64 = 40;

/// Plays one seed to its end: steps with faults, then a drain without, then a last audit.
pub fn play(seed: u64, settings: Settings) -> Result<Summary, Box<Failure>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime without I/O and timers needs nothing that could be missing");
    runtime.block_on(async {
        let mut simulation = Simulation::new(seed, settings)?;
        simulation.run().await?;
        Ok(simulation.summary())
    })
}

#[derive(Clone, Copy)]
enum Turn {
    Caller,
    Worker,
    Ingester,
    Sweeper,
    Echo,
}

#[derive(Debug)]
pub struct Simulation {
    seed: u64,
    settings: Settings,
    // The world lets go of the store before the disk does.
    pub world: World,
    callers: Vec<Caller>,
    workers: Vec<Worker>,
    ingesters: Vec<Ingester>,
    incarnations: u64,
    disk: Disk,
}

impl Simulation {
    pub fn new(seed: u64, settings: Settings) -> Result<Simulation, Box<Failure>> {
        let begin = crate::clock::BEGIN;
        let nowhere = |violation| failure(seed, 0, settings, violation, None);
        let disk = Disk::new(begin).map_err(nowhere)?;
        let world = World::new(&disk, seed, &settings, CALLERS);
        let mut simulation = Simulation {
            seed,
            settings,
            world,
            callers: Vec::new(),
            workers: Vec::new(),
            ingesters: Vec::new(),
            incarnations: 0,
            disk,
        };
        simulation.start_actors();
        Ok(simulation)
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    pub fn data_dir(&self) -> &Path {
        self.disk.path()
    }

    pub fn summary(&self) -> Summary {
        let World { step, weather, trace, tally, .. } = &self.world;
        Summary {
            steps: *step,
            lost_steps: weather.lost_steps(),
            lost_answers: weather.lost_answers(),
            trace_hash: trace.hash(),
            ..*tally
        }
    }

    /// Every step, the drain and the last audit.
    pub async fn run(&mut self) -> Result<(), Box<Failure>> {
        self.steps(self.settings.steps).await?;
        self.drain().await
    }

    /// Steps with faults, with the auditors looking in between.
    pub async fn steps(&mut self, steps: u64) -> Result<(), Box<Failure>> {
        for _ in 0..steps {
            let done = self.step().await;
            self.or_failure(done)?;
        }
        Ok(())
    }

    /// A full audit, now.
    pub async fn audit(&mut self) -> Result<(), Box<Failure>> {
        let audited = self.look(Care::Whole).await;
        self.or_failure(audited)
    }

    /// Without faults and new requests everything comes to its end (SPEC 3.3).
    pub async fn drain(&mut self) -> Result<(), Box<Failure>> {
        let drained = self.drain_steps().await;
        self.or_failure(drained)
    }

    fn or_failure(&self, outcome: Check) -> Result<(), Box<Failure>> {
        outcome.map_err(|violation| {
            failure(self.seed, self.world.step, self.settings, violation, Some(&self.world))
        })
    }

    fn start_actors(&mut self) {
        let callers = self.world.callers.iter().enumerate();
        self.callers = callers.map(|(number, id)| Caller::new(number, *id)).collect();
        let count = self.world.dice.between(2, 4);
        self.workers = (0..count).map(|_| self.new_worker()).collect();
        let count = self.world.dice.between(1, 3);
        self.ingesters = (0..count).map(|_| self.new_ingester()).collect();
    }

    fn new_ingester(&mut self) -> Ingester {
        self.incarnations += 1;
        Ingester::new(format!("ingester {}", self.incarnations), &self.world)
    }

    fn new_worker(&mut self) -> Worker {
        self.incarnations += 1;
        let name = format!("worker {}", self.incarnations);
        Worker::new(name, self.settings.habits, self.world.now(), &self.world.dice)
    }

    async fn step(&mut self) -> Check {
        self.begin_step();
        let jump = self.world.dice.chance(self.settings.faults.time_jump);
        let passes = if jump { self.world.dice.ms(20_000, 100_000) } else { self.passing_time() };
        self.pass(passes);
        if jump {
            self.world.note(format!("  fault: {} s pass at once", passes.as_secs()));
        }
        if self.world.dice.chance(self.settings.faults.duplicate) {
            queues::duplicate(&mut self.world).await?;
        }
        if self.world.dice.chance(self.settings.faults.lost_message) {
            queues::lose(&mut self.world).await?;
        }
        if self.world.dice.chance(self.settings.faults.tampering) {
            objects::tamper(&mut self.world).await?;
        }
        if self.world.dice.chance(self.settings.faults.outage) {
            self.world.weather.begin_outage(self.world.dice.between(3, 12));
        }
        let turns = [
            (22, Turn::Caller),
            (66, Turn::Worker),
            (if self.world.model.any_ingesting() { 40 } else { 2 }, Turn::Ingester),
            (5, Turn::Sweeper),
            (5, Turn::Echo),
        ];
        match self.world.dice.weighted(&turns).unwrap_or(Turn::Worker) {
            Turn::Caller => {
                let at = self.world.dice.below(self.callers.len());
                self.callers[at].step(&mut self.world).await?;
            }
            Turn::Worker => self.worker_step().await?,
            Turn::Ingester => self.ingester_step().await?,
            Turn::Sweeper => sweeper::step(&mut self.world).await?,
            Turn::Echo => echo::step(&mut self.world).await?,
        }
        if self.world.weather.is_killed() {
            self.crash()?;
            self.look(Care::Whole).await?;
        } else if self.world.step.is_multiple_of(self.settings.audit_every.max(1)) {
            self.look(Care::InTurn).await?;
        }
        Ok(())
    }

    fn begin_step(&mut self) {
        self.world.step += 1;
        self.world.trace.begin_step(self.world.step, self.world.now());
    }

    fn pass(&self, time: Duration) {
        self.world.clock.pass(time);
        self.world.trace.begin_step(self.world.step, self.world.now());
    }

    /// Often none at all: much happens within one millisecond.
    fn passing_time(&self) -> Duration {
        let dice = &self.world.dice;
        match dice.between(0, 9) {
            0..=3 => Duration::ZERO,
            4..=7 => dice.ms(1, 300),
            8 => dice.ms(300, 2_000),
            _ => dice.ms(1_000, 6_000),
        }
    }

    async fn worker_step(&mut self) -> Check {
        let at = self.world.dice.below(self.workers.len());
        if self.world.dice.chance(self.settings.faults.worker_death) {
            self.workers[at] = self.new_worker();
            self.world.tally.worker_deaths += 1;
            self.world.note(format!("  fault: a worker dies; worker {} takes its place", self.incarnations));
        }
        if let Some(until) = self.stall(self.workers[at].name()) {
            self.workers[at].stall(until);
        }
        self.workers[at].step(&mut self.world).await
    }

    async fn ingester_step(&mut self) -> Check {
        let at = self.world.dice.below(self.ingesters.len());
        if self.world.dice.chance(self.settings.faults.worker_death) {
            let name = self.ingesters[at].name().to_owned();
            if self.world.dice.chance(0.3) {
                self.ingesters[at].retire();
                self.world.note(format!("  {name} is asked to end"));
            } else {
                // With all it had under way, wherever that stood.
                self.ingesters[at] = self.new_ingester();
                self.world.tally.ingester_deaths += 1;
                self.world.note(format!("  fault: {name} dies"));
            }
        }
        if let Some(until) = self.stall(self.ingesters[at].name()) {
            self.ingesters[at].stall(until);
        }
        self.ingest(at).await
    }

    /// Until when somebody stands still, if that is drawn.
    fn stall(&self, name: &str) -> Option<Timestamp> {
        if !self.world.dice.chance(self.settings.faults.worker_stall) {
            return None;
        }
        let pause = self.world.dice.ms(20_000, 120_000);
        self.world.note(format!("  fault: {name} stands still for {} s", pause.as_secs()));
        Some(self.world.now().after(pause))
    }

    async fn ingest(&mut self, at: usize) -> Check {
        self.ingesters[at].step(&mut self.world).await?;
        if self.ingesters[at].has_retired() {
            self.ingesters[at] = self.new_ingester();
        }
        Ok(())
    }

    /// Everybody in the process forgets everything; the next one finds what is on the disk.
    fn crash(&mut self) -> Check {
        self.world.note("  the process is started again");
        self.world.tally.crashes += 1;
        self.ingesters.clear();
        let next = self.disk.killed_and_started_again(self.world.now())?;
        self.world.use_disk(&next);
        self.disk = next;
        self.world.weather.started_again();
        self.world.model.jobs.iter_mut().for_each(|job| job.budget.revision = 0);
        self.start_actors();
        Ok(())
    }

    async fn look(&mut self, care: Care) -> Check {
        let beliefs: Vec<Belief> = self.workers.iter().flat_map(Worker::beliefs).collect();
        audit::all(&mut self.world, &beliefs, care).await
    }

    async fn drain_steps(&mut self) -> Check {
        self.world.weather.calm_down();
        self.world.note("the faults are over");
        self.look(Care::Whole).await?;
        operator::resume_all(&mut self.world).await?;
        let unfinished: u64 = self.world.model.jobs.iter().map(|job| job.unfinished()).sum();
        let last = self.world.step + DRAIN_STEPS + DRAIN_STEPS_A_TASK * unfinished;
        while self.world.step < last {
            self.begin_step();
            self.pass(self.world.dice.ms(0, 300));
            if self.world.step.is_multiple_of(40) {
                // What dead workers hid and hold comes back now.
                self.pass(self.world.dice.ms(5_000, 30_000));
                sweeper::step(&mut self.world).await?;
                operator::step(&mut self.world).await?;
                self.look(Care::InTurn).await?;
                if self.world.model.jobs.iter().all(|job| job.rests()) {
                    break;
                }
            } else if self.world.model.any_ingesting() && self.world.step.is_multiple_of(2) {
                let at = self.world.dice.below(self.ingesters.len());
                self.ingest(at).await?;
            } else {
                let at = usize::try_from(self.world.step).unwrap_or(0) % self.workers.len();
                self.workers[at].step(&mut self.world).await?;
            }
        }
        self.look(Care::Whole).await?;
        completion::at_the_end(&self.world)?;
        self.every_object().await?;
        self.clear_away().await
    }

    /// When every job is deleted and every slot has expired, nothing is left of any list.
    async fn clear_away(&mut self) -> Check {
        self.world.note("everything is deleted");
        operator::delete_all(&mut self.world).await?;
        let expire = self.world.model.uploads.iter().map(|slot| slot.upload.expires).max();
        self.pass(expire.map_or(Duration::ZERO, |last| self.world.now().until(last)));
        // Jobs go with the first sweep, and with them their claims; then the slots.
        for _ in 0..2 {
            sweeper::step(&mut self.world).await?;
        }
        self.look(Care::Whole).await?;
        echo::make_all_again(&mut self.world).await?;
        uploads::nothing_left(&self.world, self.disk.path()).await
    }

    /// At the end nothing may wait for its turn: every body and every report is read.
    async fn every_object(&mut self) -> Check {
        let kept = |job: &&JobModel| job.presence == Presence::There && !job.asked.run_deleted;
        for job in self.world.model.jobs.iter().filter(kept) {
            for row in job.terminal.values() {
                audit::rows::body(&self.world, job, row).await?;
            }
            ingest::every_report(&self.world, job).await?;
        }
        Ok(())
    }
}

fn failure(
    seed: u64,
    step: u64,
    settings: Settings,
    violation: Violation,
    world: Option<&World>,
) -> Box<Failure> {
    Box::new(Failure {
        seed,
        step,
        settings,
        violation,
        recent: world.map(|world| world.trace.recent()).unwrap_or_default(),
    })
}
