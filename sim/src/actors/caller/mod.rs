//! A caller: submits, adds, closes, stops, deletes and reads its own jobs, and repeats what was not answered.

mod change;
mod look;

use crate::faults::Answer;
use crate::model::{Addition, JobModel, Presence};
use crate::violation::{Check, Rule, Violation};
use crate::world::World;
use conveyor_domain::job::JobSpec;
use conveyor_domain::lifecycle::{self, Command};
use conveyor_domain::{CallerId, JobId, RunId, TaskInput};
use conveyor_store::port::Submission;

const TASKS_MAX: u32 = 40;
/// Small, so that additions run into it.
const RUN_TASKS_MAX: u32 = 90;
const CAP_MAX: u32 = 10;
/// A caller with this many jobs underway submits no more, and with this many at all deletes some.
const LIVE_JOBS_MAX: usize = 3;
const JOBS_MAX: usize = 7;

#[derive(Clone, Debug)]
enum Request {
    Submit(Submission),
    Add {
        job: JobId,
        addition: Addition,
    },
    /// Was the addition accepted? Reading tells; sending it again could add it twice.
    ReadBack {
        job: JobId,
        addition: Addition,
    },
    Command {
        job: JobId,
        command: Command,
    },
    Read(JobId),
    Page(JobId),
}

#[derive(Debug)]
pub struct Caller {
    number: usize,
    id: CallerId,
    /// What was asked and not answered.
    unanswered: Option<Request>,
}

#[derive(Clone, Copy)]
enum Kind {
    Submit,
    Add,
    Close,
    Stop,
    Delete,
    Read,
    Page,
}

impl Caller {
    pub fn new(number: usize, id: CallerId) -> Caller {
        Caller { number, id, unanswered: None }
    }

    pub async fn step(&mut self, world: &mut World) -> Check {
        let Some(request) = self.unanswered.take().or_else(|| self.draw(world)) else { return Ok(()) };
        self.unanswered = match request {
            Request::Submit(submission) => self.submit(world, submission).await?,
            Request::Add { job, addition } => self.add(world, job, addition).await?,
            Request::ReadBack { job, addition } => self.read_back(world, job, addition).await?,
            Request::Command { job, command } => self.command(world, job, command).await?,
            Request::Read(job) => self.read(world, job).await?,
            Request::Page(job) => self.page(world, job).await?,
        };
        Ok(())
    }

    fn draw(&self, world: &mut World) -> Option<Request> {
        let own = |job: &&JobModel| job.caller == self.id && job.presence == Presence::There;
        let jobs: Vec<&JobModel> = world.model.jobs.iter().filter(own).collect();
        let live = jobs.iter().filter(|job| !job.is_over()).count();
        let crowded = jobs.len() >= JOBS_MAX;
        let kinds = [
            (if live < LIVE_JOBS_MAX && !crowded { 30 } else { 0 }, Kind::Submit),
            (25, Kind::Add),
            (6, Kind::Close),
            (3, Kind::Stop),
            (if crowded { 30 } else { 3 }, Kind::Delete),
            (10, Kind::Read),
            (10, Kind::Page),
        ];
        let kind = world.dice.weighted(&kinds)?;
        if let Kind::Submit = kind {
            let submission = self.new_submission(world);
            world.model.begin_submit(&submission);
            return Some(Request::Submit(submission));
        }
        // Mostly what makes sense, now and then what is bound to be refused.
        let sensible = |job: &&&JobModel| match kind {
            Kind::Add => job.may_take_tasks(),
            Kind::Close | Kind::Stop => !job.is_over(),
            Kind::Delete => job.is_over() || job.number.is_multiple_of(4),
            Kind::Submit | Kind::Read | Kind::Page => true,
        };
        let preferred: Vec<&JobModel> = jobs.iter().filter(sensible).copied().collect();
        let blindly = world.dice.chance(0.2);
        let job = *world.dice.pick(if blindly { &jobs } else { &preferred })?;
        let id = job.key.job;
        Some(match kind {
            Kind::Submit | Kind::Read => Request::Read(id),
            Kind::Add if job.unanswered.is_some() => Request::Read(id),
            Kind::Add => Request::Add { job: id, addition: new_addition(world, job) },
            Kind::Close => Request::Command { job: id, command: Command::Close },
            Kind::Stop => Request::Command { job: id, command: Command::Stop },
            Kind::Delete => Request::Command { job: id, command: Command::Delete },
            Kind::Page => Request::Page(id),
        })
    }

    fn new_submission(&self, world: &World) -> Submission {
        let (dice, now) = (&world.dice, world.now());
        let (job, run) = (JobId::new(now, dice.entropy()), RunId::new(now, dice.entropy()));
        let open = dice.chance(0.5);
        let count = if open && dice.chance(0.2) { 0 } else { dice.between(1, list_max(world)) };
        let spec = JobSpec { max_inflight: dice.between(1, CAP_MAX), ..JobSpec::default() };
        let rows = lifecycle::submit(job, run, self.id, spec, open, count, now);
        Submission {
            job: rows.job,
            run: rows.run,
            tasks: (0..).zip(inputs(world.model.jobs.len(), 0, count)).collect(),
            list: None,
        }
    }
}

fn wrong<T: std::fmt::Debug>(name: &str, what: &str, outcome: &Answer<T>) -> Violation {
    Violation { rule: Rule::Lifecycle, text: format!("{name}: {what} was answered {outcome:?}") }
}

fn new_addition(world: &World, job: &JobModel) -> Addition {
    let count = world.dice.between(1, list_max(world));
    Addition { tasks: inputs(job.number, job.total(), count), last_batch: world.dice.chance(0.2) }
}

/// Most lists are short, so that many jobs see their end.
fn list_max(world: &World) -> u32 {
    if world.dice.chance(0.25) { TASKS_MAX } else { TASKS_MAX / 5 }
}

/// No two tasks of a simulation look the same, so a row in the wrong place is noticed.
fn inputs(job: usize, first: u32, count: u32) -> Vec<TaskInput> {
    (first..first + count)
        .map(|index| TaskInput::from_url(&format!("https://example.com/{job}/{index}")).expect("a valid URL"))
        .collect()
}
