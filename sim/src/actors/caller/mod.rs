//! A caller: submits, stages lists, adds, closes, pauses, resumes, limits, stops, deletes and reads its
//! own jobs, and repeats what was not answered.

mod change;
mod delete;
mod look;
pub mod stage;
mod steer;

use crate::faults::Answer;
use crate::lists::List;
use crate::model::{Addition, JobModel, Presence};
use crate::uploads::{StagedList, UploadModel};
use crate::violation::{Check, Rule, Violation};
use crate::world::World;
use conveyor_domain::{CallerId, Command, JobId, RunId, TaskInput, Upload, UploadId, lifecycle};
use conveyor_store::port::Submission;

const TASKS_MAX: u32 = 40;
/// Small, so that additions run into it.
const RUN_TASKS_MAX: u32 = 90;
const CAP_MAX: u32 = 10;
/// A caller with this many jobs underway submits no more, and with this many at all deletes some.
const LIVE_JOBS_MAX: usize = 3;
const JOBS_MAX: usize = 7;
/// Slots that wait for their bytes or for a job.
const SLOTS_MAX: usize = 3;

#[derive(Clone, Debug)]
enum Request {
    Submit(Submission),
    MakeSlot {
        upload: Upload,
        list: List,
    },
    /// The bytes of a list, into a new object.
    Send {
        upload: UploadId,
        list: List,
    },
    /// The object becomes the slot's.
    Stage {
        upload: UploadId,
        staged: StagedList,
    },
    Accept(Submission),
    /// The same, after somebody has put other bytes into the slot.
    AcceptLate(Submission),
    Abort(UploadId),
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
    /// Pause, resume or other limits.
    Steer {
        job: JobId,
        command: Command,
    },
    /// Its run, by itself.
    DeleteRun(JobId),
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
    MakeSlot,
    Slot(SlotKind),
    Job(JobKind),
}

#[derive(Clone, Copy)]
enum SlotKind {
    StageAgain,
    Accept,
    Abort,
}

#[derive(Clone, Copy)]
enum JobKind {
    Add,
    Close,
    Stop,
    Pause,
    Resume,
    Limits,
    Delete,
    DeleteRun,
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
            Request::MakeSlot { upload, list } => self.make_slot(world, upload, list).await?,
            Request::Send { upload, list } => self.send(world, upload, list).await?,
            Request::Stage { upload, staged } => self.stage(world, upload, staged).await?,
            Request::Accept(acceptance) => self.accept(world, acceptance).await?,
            Request::AcceptLate(acceptance) => self.accept_late(world, acceptance).await?,
            Request::Abort(upload) => self.abort(world, upload).await?,
            Request::Add { job, addition } => self.add(world, job, addition).await?,
            Request::ReadBack { job, addition } => self.read_back(world, job, addition).await?,
            Request::Command { job, command } => self.command(world, job, command).await?,
            Request::Steer { job, command } => self.steer(world, job, command).await?,
            Request::DeleteRun(job) => self.delete_run(world, job).await?,
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
        let may_submit = live < LIVE_JOBS_MAX && !crowded;
        let slots = self.slots(world);
        let staged = slots.iter().filter(|slot| slot.staged.is_some()).count();
        let kinds = [
            (if may_submit { 18 } else { 0 }, Kind::Submit),
            (if slots.len() < SLOTS_MAX { 16 } else { 0 }, Kind::MakeSlot),
            (if may_submit && staged > 0 { 40 } else { 0 }, Kind::Slot(SlotKind::Accept)),
            (if slots.is_empty() { 0 } else { 5 }, Kind::Slot(SlotKind::StageAgain)),
            (if slots.is_empty() { 0 } else { 2 }, Kind::Slot(SlotKind::Abort)),
            (25, Kind::Job(JobKind::Add)),
            (6, Kind::Job(JobKind::Close)),
            (3, Kind::Job(JobKind::Stop)),
            (3, Kind::Job(JobKind::Pause)),
            (8, Kind::Job(JobKind::Resume)),
            (8, Kind::Job(JobKind::Limits)),
            (if crowded { 30 } else { 3 }, Kind::Job(JobKind::Delete)),
            (if crowded { 10 } else { 3 }, Kind::Job(JobKind::DeleteRun)),
            (10, Kind::Job(JobKind::Read)),
            (10, Kind::Job(JobKind::Page)),
        ];
        let kind = world.dice.weighted(&kinds)?;
        match kind {
            Kind::Submit => {
                let submission = self.new_submission(world);
                world.model.begin_submit(&submission);
                Some(Request::Submit(submission))
            }
            Kind::MakeSlot => {
                let (upload, list) = self.new_upload(world);
                Some(Request::MakeSlot { upload, list })
            }
            Kind::Slot(kind) => self.of_slot(world, kind),
            Kind::Job(kind) => self.of_job(world, kind),
        }
    }

    /// Slots of which something can be made, as far as is known.
    fn slots<'a>(&self, world: &'a World) -> Vec<&'a UploadModel> {
        let now = world.now();
        let usable = |slot: &&UploadModel| slot.upload.caller == self.id && slot.is_usable(now);
        let unclaimed = |slot: &&UploadModel| !world.model.is_claimed(slot);
        world.model.uploads.iter().filter(usable).filter(unclaimed).collect()
    }

    fn of_slot(&self, world: &mut World, kind: SlotKind) -> Option<Request> {
        let now = world.now();
        // Now and then one that is claimed, expired or aborted: several jobs may be made of one, and nothing of the others.
        let blindly = world.dice.chance(0.15);
        let own = |slot: &&UploadModel| slot.upload.caller == self.id && slot.presence == Presence::There;
        let all: Vec<&UploadModel> = world.model.uploads.iter().filter(own).collect();
        let mut slots = if blindly { all } else { self.slots(world) };
        if let SlotKind::Accept = kind {
            slots.retain(|slot| slot.staged.is_some());
        }
        let slot = *world.dice.pick(&slots)?;
        let (id, spec, gone) = (slot.id(), slot.upload.spec.clone(), slot.may_be_gone(now));
        match kind {
            SlotKind::Accept => {
                let acceptance = self.new_acceptance(world, id)?;
                let late = world.weather.races();
                Some(if late { Request::AcceptLate(acceptance) } else { Request::Accept(acceptance) })
            }
            SlotKind::StageAgain if !gone => {
                stage::another_list(world, &spec).map(|list| Request::Send { upload: id, list })
            }
            SlotKind::StageAgain | SlotKind::Abort => Some(Request::Abort(id)),
        }
    }

    fn of_job(&self, world: &World, kind: JobKind) -> Option<Request> {
        let own = |job: &&JobModel| job.caller == self.id && job.presence == Presence::There;
        let jobs: Vec<&JobModel> = world.model.jobs.iter().filter(own).collect();
        // Mostly what makes sense, now and then what is bound to be refused.
        let sensible = |job: &&&JobModel| match kind {
            JobKind::Add => job.may_take_tasks(),
            JobKind::Close | JobKind::Stop | JobKind::Limits => !job.is_over(),
            JobKind::Pause => !job.is_over() && !job.paused,
            JobKind::Resume => !job.is_over() && job.paused,
            JobKind::Delete => job.is_over() || job.number.is_multiple_of(4),
            JobKind::DeleteRun => !job.asked.run_deleted && (job.is_over() || job.number.is_multiple_of(3)),
            JobKind::Read | JobKind::Page => true,
        };
        let preferred: Vec<&JobModel> = jobs.iter().filter(sensible).copied().collect();
        let blindly = world.dice.chance(0.2);
        let job = *world.dice.pick(if blindly { &jobs } else { &preferred })?;
        let id = job.key.job;
        Some(match kind {
            JobKind::Add if job.unanswered.is_some() => Request::Read(id),
            JobKind::Add => Request::Add { job: id, addition: new_addition(world, job) },
            JobKind::Close => Request::Command { job: id, command: Command::Close },
            JobKind::Stop => Request::Command { job: id, command: Command::Stop },
            JobKind::Pause => Request::Steer { job: id, command: Command::Pause },
            JobKind::Resume => Request::Steer { job: id, command: Command::Resume },
            JobKind::Limits => {
                let change = steer::draw_change(&world.dice);
                Request::Steer { job: id, command: Command::Limits(change) }
            }
            JobKind::Delete => Request::Command { job: id, command: Command::Delete },
            JobKind::DeleteRun => Request::DeleteRun(id),
            JobKind::Read => Request::Read(id),
            JobKind::Page => Request::Page(id),
        })
    }

    fn new_submission(&self, world: &World) -> Submission {
        let (dice, now) = (&world.dice, world.now());
        let (job, run) = (JobId::new(now, dice.entropy()), RunId::new(now, dice.entropy()));
        let open = dice.chance(0.5);
        let count = if open && dice.chance(0.2) { 0 } else { dice.between(1, list_max(world)) };
        let spec = steer::draw_spec(dice);
        let rows = lifecycle::submit(job, run, self.id, spec, open, count, now);
        Submission {
            job: rows.job,
            run: Some(rows.run),
            tasks: (0..).zip(inputs(world.model.jobs.len(), 0, count)).collect(),
            list: None,
            once: None,
        }
    }
}

fn wrong<T: std::fmt::Debug>(name: &str, what: &str, outcome: &Answer<T>) -> Violation {
    Violation { rule: Rule::Lifecycle, text: format!("{name}: {what} was answered {outcome:?}") }
}

fn new_addition(world: &World, job: &JobModel) -> Addition {
    let count = world.dice.between(1, list_max(world));
    Addition { tasks: inputs(job.number, job.next_index, count), last_batch: world.dice.chance(0.2) }
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
