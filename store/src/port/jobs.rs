use super::over::port;
use super::{Once, Page, Result, RunKey};
use conveyor_domain::ingest::Source;
use conveyor_domain::{
    CallerId, Command, IngestEvent, Job, JobId, JobStatus, NewRun, ReplayedTask, Run, RunId, RunStats,
    TaskInput, Timestamp, limits,
};

/// A job and its first run, with its tasks at their indexes.
#[derive(Clone, Debug)]
pub struct Submission {
    pub job: Job,
    /// `None` for a scheduled job: its tasks are those of the template.
    pub run: Option<Run>,
    pub tasks: Vec<(u32, TaskInput)>,
    /// The list that its tasks are read from, if it was staged.
    pub list: Option<Box<SubmittedList>>,
    pub once: Option<Once>,
}

impl Submission {
    /// A job and its first run, whose list is left to an ingester.
    pub fn of_list(job: Job, run: Run, source: Source, once: Option<Once>) -> Submission {
        let list = Some(Box::new(SubmittedList { source, log: Vec::new() }));
        Submission { job, run: Some(run), tasks: Vec::new(), list, once }
    }
}

/// A staged list.
#[derive(Clone, Debug)]
pub struct SubmittedList {
    pub source: Source,
    /// What its ingest logs after `accepted`, to `latched`, if it was short enough to be read on the request. Nothing, if
    /// it is left to an ingester.
    pub log: Vec<IngestEvent>,
}

impl SubmittedList {
    /// Left to an ingester.
    pub fn is_unread(&self) -> bool {
        self.log.is_empty()
    }

    /// All that is logged of its ingest.
    pub fn events(&self) -> impl Iterator<Item = IngestEvent> {
        let accepted = IngestEvent::Accepted { source: self.source.clone() };
        std::iter::once(accepted).chain(self.log.iter().cloned())
    }
}

/// Another run of a job that is there.
#[derive(Clone, Debug)]
pub struct StartRun {
    pub job: JobId,
    pub run: NewRun,
    /// Its tasks, if they are written with it.
    pub tasks: Vec<ReplayedTask>,
    /// The first event of its ingest, if they are ingested.
    pub log: Option<IngestEvent>,
    pub once: Option<Once>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunView {
    pub run: Run,
    pub stats: RunStats,
}

/// A job with its latest run, read in one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobView {
    pub job: Job,
    /// `None` until a schedule fires for the first time.
    pub latest: Option<RunView>,
}

#[cfg(any(test, feature = "conformance"))]
impl JobView {
    /// Of a job that has one.
    pub fn latest_run(&self) -> &RunView {
        self.latest.as_ref().expect("a job that has fired")
    }
}

/// A page of one caller's jobs, newest first.
#[derive(Clone, Copy, Debug)]
pub struct JobsQuery {
    pub caller: CallerId,
    pub status: Option<JobStatus>,
    /// Only jobs with a schedule, or only those without.
    pub scheduled: Option<bool>,
    /// Only jobs older than this one.
    pub before: Option<JobId>,
    pub limit: u32,
    /// How many jobs the page may look at, whether or not they pass the filter.
    pub look: u32,
}

impl JobsQuery {
    /// Whether a job of the caller is one that was asked for.
    pub fn admits(&self, job: &Job) -> bool {
        let scheduled = job.spec.schedule.is_some();
        self.status.is_none_or(|status| job.status == status)
            && self.scheduled.is_none_or(|asked| asked == scheduled)
    }
}

/// A page of a job's runs, newest first.
#[derive(Clone, Copy, Debug)]
pub struct RunsQuery {
    pub job: JobId,
    /// Only runs older than this one.
    pub before: Option<RunId>,
    pub limit: u32,
    /// How many runs the page may look at, those that were removed included.
    pub look: u32,
}

impl RunsQuery {
    pub fn newest(job: JobId, limit: u32) -> RunsQuery {
        RunsQuery { job, before: None, limit, look: limits::LIST_LOOK_MAX }
    }
}

/// What a worker needs to know about a run that has work.
#[derive(Clone, Debug)]
pub struct ActiveRun {
    pub job: Job,
    pub run: Run,
    pub stats: RunStats,
}

/// How far a look at runs has seen: what became visible from then on, the next one finds. A look goes back further than the
/// last one, by what clocks differ and what a distributed backend lags behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangeCursor(pub Timestamp);

impl ChangeCursor {
    /// Of a look that is taken now.
    pub fn at(now: Timestamp) -> ChangeCursor {
        let overlap = i64::try_from(limits::DISCOVER_OVERLAP.as_millis()).unwrap_or(0);
        ChangeCursor(Timestamp(now.0 - overlap))
    }
}

/// Runs that changed, or all that are `running`.
#[derive(Clone, Debug)]
pub struct ChangedRuns {
    pub active: Vec<ActiveRun>,
    /// No longer `running`. None of a look at all runs.
    pub gone: Vec<RunKey>,
    /// Could not be read now, and are found again by a later look.
    pub unread: Vec<RunKey>,
    pub next: ChangeCursor,
}

impl ChangedRuns {
    /// Of a look that is taken now, until something is found.
    pub fn none(now: Timestamp) -> ChangedRuns {
        ChangedRuns { active: Vec::new(), gone: Vec::new(), unread: Vec::new(), next: ChangeCursor::at(now) }
    }
}

port! {
    /// Jobs and runs.
    pub trait JobStore, decorated by OverJobStore over store {
        /// Makes a job, its run and its tasks durable and visible, all or nothing, and sends their refs; of a list that is left
        /// to an ingester, the control message. Repeating it changes nothing. `NotFound` if the upload of its list is not there,
        /// `Changed` if other bytes are staged in it by now, `Conflict` if what was claimed for it is lost.
        async fn submit(&self, submission: Submission) -> Result<()>;

        /// Adds tasks behind those that the job's run has. `Conflict` if what was claimed for it is lost.
        async fn add_tasks(
            &self,
            job: JobId,
            tasks: Vec<TaskInput>,
            last_batch: bool,
            run_tasks_max: u32,
            once: Option<Once>,
            now: Timestamp,
        ) -> Result<JobView>;

        /// Begins another run of a job and makes it visible with its tasks, or with the ingest that brings them, all or nothing.
        /// Of two who decided on the same latest run, one is refused. `Conflict` if what was claimed for it is lost.
        async fn start_run(&self, start: StartRun, now: Timestamp) -> Result<JobView>;

        /// Decides a command on the job and its latest run and writes the outcome, in one step.
        async fn apply(&self, job: JobId, command: Command, now: Timestamp) -> Result<JobView>;

        /// Decides the deletion of one run of a job and writes the outcome, in one step. `NotFound` if there is none.
        async fn delete_run(&self, key: RunKey, now: Timestamp) -> Result<RunView>;

        /// A job of this caller, to whom another's is not there; without one, whoever's it is: for operators and repairs.
        async fn job(&self, caller: Option<CallerId>, job: JobId) -> Result<Option<JobView>>;

        async fn jobs(&self, query: JobsQuery) -> Result<Page<JobView, JobId>>;

        /// A run that was deleted and removed is not there.
        async fn run(&self, job: JobId, run: RunId) -> Result<Option<RunView>>;

        /// Without those that were deleted and removed. A distributed backend goes by the ids of runs, so by the clocks of the
        /// processes that began them.
        async fn runs(&self, query: RunsQuery) -> Result<Page<RunView, RunId>>;

        /// What became visible of runs since an earlier look: those that changed, and those of a job that changed its limits.
        /// Some may be returned that did not change. Without a cursor, all runs whose status is `running`, paused ones among
        /// them. May lag behind on a distributed backend; nothing may depend on it being fresh. Also of a look that fails, the
        /// store has learned the time: what this process writes from then on counts as changed no earlier.
        async fn changed_runs(&self, since: Option<ChangeCursor>, now: Timestamp) -> Result<ChangedRuns>;

        /// Whether a write would be answered now.
        async fn ready(&self) -> Result<()>;
    }
}
