//! What the actors know: what they asked for, what was acknowledged, and what was seen last. The auditors hold every read
//! against it; the store under test never sees it.

use crate::budgets::BudgetModel;
use crate::lists::List;
use crate::uploads::UploadModel;
use conveyor_domain::ingest::Source;
use conveyor_domain::{
    CallerId, ClaimToken, Command, Job, JobId, JobSpec, JobStatus, ListFault, LoggedEvent, Run, RunStatus,
    Storage, Task, TaskInput, TimelineEntry, UploadId,
};
use conveyor_store::port::{JobView, RunKey, Settle, Submission};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

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
    /// Its run, by itself.
    pub run_deleted: bool,
}

/// Tasks that were sent and of which it is not known whether they were accepted.
#[derive(Clone, Debug)]
pub struct Addition {
    pub tasks: Vec<TaskInput>,
    pub last_batch: bool,
}

/// The staged list that a job was made of.
#[derive(Clone, Debug)]
pub struct ListModel {
    pub list: List,
    pub source: Source,
    /// Somebody wrote other bytes under the key of the staged ones.
    pub tampered: bool,
    /// An operator has given it up.
    pub purged: bool,
    /// The log of its ingest, as it was read last.
    pub log: Vec<LoggedEvent>,
}

impl ListModel {
    /// Why it cannot be taken, if it cannot.
    pub fn fault(&self) -> Option<ListFault> {
        self.list.fault(self.source.on_invalid_rows)
    }

    /// Whether its ingest may end with this.
    pub fn may_fail_with(&self, fault: ListFault) -> bool {
        self.fault() == Some(fault)
            || (self.tampered && fault == ListFault::SourceChanged)
            || (self.purged && fault == ListFault::IngestFailed)
    }
}

#[derive(Clone, Debug)]
pub struct JobModel {
    /// Short, for people.
    pub number: usize,
    pub key: RunKey,
    pub caller: CallerId,
    /// Its limits and whether it is paused, as far as is known.
    pub spec: Arc<JobSpec>,
    pub paused: bool,
    /// A change of these that was not answered.
    pub steering: Option<Command>,
    pub budget: BudgetModel,
    pub submitted_open: bool,
    /// Whether a submit of it was answered.
    pub acknowledged: bool,
    pub presence: Presence,
    /// The tasks that are known to be accepted, by index. Records of a list that are no tasks leave gaps.
    pub tasks: BTreeMap<u32, TaskInput>,
    pub next_index: u32,
    pub list: Option<ListModel>,
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
    /// Its timeline, as it was read last.
    pub timeline: Vec<TimelineEntry>,
}

impl fmt::Display for JobModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {}", self.number)
    }
}

impl JobModel {
    fn new(number: usize, job: &Job, list: Option<ListModel>) -> JobModel {
        let closed = Facts { latched: job.status == JobStatus::Closed, ..Facts::default() };
        JobModel {
            number,
            key: RunKey { job: job.id, run: job.latest_run },
            caller: job.caller,
            spec: Arc::clone(&job.spec),
            paused: false,
            steering: None,
            budget: BudgetModel::new(job.spec.limits()),
            submitted_open: job.spec.submitted_open,
            acknowledged: false,
            presence: Presence::Unknown,
            tasks: BTreeMap::new(),
            next_index: 0,
            list,
            unanswered: None,
            asked: closed,
            known: closed,
            last: None,
            ended: None,
            settled: BTreeMap::new(),
            terminal: BTreeMap::new(),
            timeline: Vec::new(),
        }
    }

    pub fn total(&self) -> u32 {
        u32::try_from(self.tasks.len()).unwrap_or(u32::MAX)
    }

    /// Tasks that are now known to be accepted, behind the others.
    pub fn take(&mut self, tasks: Vec<TaskInput>) {
        for task in tasks {
            self.tasks.insert(self.next_index, task);
            self.next_index += 1;
        }
    }

    /// Records of its list that are now known to be read, up to this one.
    pub fn read_to(&mut self, index: u32) {
        if let Some(list) = &self.list {
            let read = list.list.tasks(self.next_index, index).map(|(index, task)| (index, task.clone()));
            self.tasks.extend(read);
            self.next_index = index;
        }
    }

    pub fn ends_with(&self, tasks: &[TaskInput]) -> bool {
        self.tasks.len() >= tasks.len()
            && self.tasks.values().rev().zip(tasks.iter().rev()).all(|(a, b)| a == b)
    }

    /// Whether its list was still being read when it was last seen, or nobody has looked yet.
    pub fn is_ingesting(&self) -> bool {
        self.list.is_some() && self.last.as_ref().is_none_or(|view| is_read(&view.latest_run().run))
    }

    /// Whether it may still take tasks, as far as is known.
    pub fn may_take_tasks(&self) -> bool {
        self.submitted_open && self.presence == Presence::There && !self.asked.latched
    }

    /// Whether its run was last seen to be deleted and removed.
    pub fn run_is_removed(&self) -> bool {
        self.last.as_ref().is_some_and(|view| view.latest_run().run.storage == Storage::Removed)
    }

    pub fn is_deleted(&self) -> bool {
        self.asked.deleted || self.presence == Presence::Gone
    }

    /// Whether its run was last seen in an end state, or the job is on its way out.
    pub fn is_over(&self) -> bool {
        let ended = |view: &JobView| view.latest_run().run.status.is_terminal();
        self.is_deleted() || self.last.as_ref().is_some_and(ended)
    }

    /// Whether nothing is left to do: ended, deleted and gone, or at rest until more tasks come.
    pub fn rests(&self) -> bool {
        let Some(view) = &self.last else { return true };
        let run = &view.latest_run().run;
        match self.presence {
            Presence::Unknown | Presence::Gone => true,
            Presence::There if view.job.status == JobStatus::Deleted || is_read(run) => false,
            Presence::There if run.status == RunStatus::Deleted => run.storage == Storage::Removed,
            Presence::There => run.status.is_terminal() || (run.status == RunStatus::Pending && !run.latched),
        }
    }

    pub fn unfinished(&self) -> u64 {
        match &self.last {
            Some(view) if !self.rests() => {
                let records = self.list.as_ref().map_or(0, |list| list.list.len());
                let total = view.latest_run().stats.total.max(records);
                u64::from(total.saturating_sub(view.latest_run().stats.counts.completed()))
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
    pub uploads: Vec<UploadModel>,
    /// Lists that were drawn so far.
    pub lists: u64,
    /// Objects whose bytes are not those that were staged.
    pub tampered: BTreeSet<String>,
}

/// The list that a job is to be made of.
pub fn source_of(acceptance: &Submission) -> &Source {
    &acceptance.list.as_ref().expect("it was drawn with a list").source
}

impl Model {
    /// Before the first attempt to submit it.
    pub fn begin_submit(&mut self, submission: &Submission) {
        let number = self.jobs.len();
        let mut job = JobModel::new(number, &submission.job, None);
        job.take(submission.tasks.iter().map(|(_, input)| input.clone()).collect());
        self.jobs.push(job);
        self.by_id.insert(submission.job.id, number);
    }

    /// Before the first attempt to have it accepted.
    pub fn begin_accept(&mut self, acceptance: &Submission, list: List) {
        let number = self.jobs.len();
        let source = source_of(acceptance).clone();
        self.upload(source.upload).claims.push(acceptance.job.id);
        let tampered = self.tampered.contains(&source.staged.object);
        let list = ListModel { list, source, tampered, purged: false, log: Vec::new() };
        self.jobs.push(JobModel::new(number, &acceptance.job, Some(list)));
        self.by_id.insert(acceptance.job.id, number);
    }

    /// A slot that some caller made. No other exists.
    pub fn upload(&mut self, id: UploadId) -> &mut UploadModel {
        let found = self.uploads.iter_mut().find(|upload| upload.id() == id);
        found.expect("every upload is entered here before it is made")
    }

    /// Whether a job that is there was made of the slot. One whose run was removed has let go of it.
    pub fn is_claimed(&self, upload: &UploadModel) -> bool {
        let there = |job: &JobId| {
            self.find(*job).is_some_and(|job| job.presence == Presence::There && !job.run_is_removed())
        };
        upload.claims.iter().any(there)
    }

    /// Whether a job may have been made of the slot that is not known to be gone.
    pub fn may_be_claimed(&self, upload: UploadId) -> bool {
        let claims = self.uploads.iter().filter(|slot| slot.id() == upload).flat_map(|slot| &slot.claims);
        let holds = |job: &JobModel| job.presence != Presence::Gone && !job.run_is_removed();
        claims.into_iter().any(|job| self.find(*job).is_some_and(holds))
    }

    pub fn any_ingesting(&self) -> bool {
        self.jobs.iter().any(|job| job.presence == Presence::There && job.is_ingesting())
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

/// Whether somebody reads its list, or should. Nobody reads that of a run that was deleted.
fn is_read(run: &Run) -> bool {
    run.is_ingesting() && run.status != RunStatus::Deleted
}
