//! What the actors know: what they asked for, what was acknowledged, and what was seen last. The auditors hold every read
//! against it; the store under test never sees it.

use conveyor_domain::task::Outcome;
use conveyor_domain::{CallerId, ClaimToken, JobId, JobStatus, Run, RunStatus, Task, TaskInput};
use conveyor_store::port::{JobView, RunKey, Settle, Submission};
use std::collections::BTreeMap;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Its submit was not answered, and nobody has seen it.
    Unknown,
    There,
    /// Was there, was deleted, and cannot be found any more.
    Gone,
}

/// Things that happen to a job at most once and are never undone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub latched: bool,
    pub stopped: bool,
    pub failed: bool,
    pub deleted: bool,
}

/// Tasks that were sent and of which it is not known whether they were accepted.
#[derive(Clone, Debug)]
pub struct Addition {
    pub tasks: Vec<TaskInput>,
    pub last_batch: bool,
}

#[derive(Clone, Debug)]
pub struct JobModel {
    /// Short, for people.
    pub number: usize,
    pub key: RunKey,
    pub caller: CallerId,
    pub cap: u32,
    pub submitted_open: bool,
    /// Whether a submit of it was answered.
    pub acknowledged: bool,
    pub presence: Presence,
    /// The tasks that are known to be accepted, by index.
    pub tasks: Vec<TaskInput>,
    pub unanswered: Option<Addition>,
    /// What was asked for, and so may be true.
    pub asked: Facts,
    /// What was acknowledged, and so must be true.
    pub known: Facts,
    /// The latest read.
    pub last: Option<JobView>,
    /// The run as it was when it was first seen to have ended.
    pub ended: Option<Run>,
    /// Acknowledged terminal settles, by index.
    pub settled: BTreeMap<u32, Settle>,
    /// Terminal rows as they were first seen, by index.
    pub terminal: BTreeMap<u32, Task>,
}

impl fmt::Display for JobModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {}", self.number)
    }
}

impl JobModel {
    fn new(number: usize, submission: &Submission) -> JobModel {
        let closed = Facts { latched: submission.run.latched, ..Facts::default() };
        JobModel {
            number,
            key: RunKey { job: submission.job.id, run: submission.run.id },
            caller: submission.job.caller,
            cap: submission.job.spec.max_inflight,
            submitted_open: submission.job.spec.submitted_open,
            acknowledged: false,
            presence: Presence::Unknown,
            tasks: submission.tasks.iter().map(|(_, input)| input.clone()).collect(),
            unanswered: None,
            asked: closed,
            known: closed,
            last: None,
            ended: None,
            settled: BTreeMap::new(),
            terminal: BTreeMap::new(),
        }
    }

    pub fn total(&self) -> u32 {
        u32::try_from(self.tasks.len()).unwrap_or(u32::MAX)
    }

    /// Whether it may still take tasks, as far as is known.
    pub fn may_take_tasks(&self) -> bool {
        self.submitted_open && self.presence == Presence::There && !self.asked.latched
    }

    pub fn is_deleted(&self) -> bool {
        self.asked.deleted || self.presence == Presence::Gone
    }

    /// Whether its run was last seen in an end state, or the job is on its way out.
    pub fn is_over(&self) -> bool {
        let ended = |view: &JobView| view.latest.run.status.is_terminal();
        self.is_deleted() || self.last.as_ref().is_some_and(ended)
    }

    /// Whether nothing is left to do: ended, deleted and gone, or at rest until more tasks come.
    pub fn rests(&self) -> bool {
        let Some(view) = &self.last else { return true };
        let run = &view.latest.run;
        match self.presence {
            Presence::Unknown | Presence::Gone => true,
            Presence::There if view.job.status == JobStatus::Deleted => false,
            Presence::There => run.status.is_terminal() || (run.status == RunStatus::Pending && !run.latched),
        }
    }

    pub fn unfinished(&self) -> u64 {
        match &self.last {
            Some(view) if !self.rests() => {
                u64::from(view.latest.stats.total.saturating_sub(view.latest.stats.counts.completed()))
            }
            Some(_) | None => 0,
        }
    }

    /// The claim under which a task was acknowledged to have ended.
    pub fn settled_under(&self, index: u32) -> Option<ClaimToken> {
        self.settled.get(&index).map(|settle| settle.token)
    }
}

#[derive(Debug, Default)]
pub struct Model {
    pub jobs: Vec<JobModel>,
    by_id: BTreeMap<JobId, usize>,
}

impl Model {
    /// Before the first attempt to submit it.
    pub fn begin_submit(&mut self, submission: &Submission) {
        let number = self.jobs.len();
        self.jobs.push(JobModel::new(number, submission));
        self.by_id.insert(submission.job.id, number);
    }

    /// A job that some actor submitted. No other exists.
    pub fn job(&mut self, id: JobId) -> &mut JobModel {
        let number = *self.by_id.get(&id).expect("every job is entered here before it is submitted");
        &mut self.jobs[number]
    }

    pub fn find(&self, id: JobId) -> Option<&JobModel> {
        self.by_id.get(&id).map(|number| &self.jobs[*number])
    }
}

/// Whether an outcome ends its task.
pub fn is_end(outcome: &Outcome) -> bool {
    outcome.status().is_terminal()
}
