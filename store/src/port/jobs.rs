use super::{Once, Page, Result, RunKey};
use async_trait::async_trait;
use conveyor_domain::ingest::Source;
use conveyor_domain::{
    CallerId, Command, IngestEvent, Job, JobId, JobStatus, NewRun, ReplayedTask, Run, RunId, RunStats,
    TaskInput, TaskRef, Timestamp, limits,
};

/// A job and its first run, with its tasks at their indexes.
#[derive(Clone, Debug)]
pub struct Submission {
    pub job: Job,
    /// `None` for a scheduled job: its tasks are those of the template.
    pub run: Option<Run>,
    pub tasks: Vec<(u32, TaskInput)>,
    /// The list that the tasks were read from, if it was staged.
    pub list: Option<Box<SubmittedList>>,
    pub once: Option<Once>,
}

/// A staged list that was short enough to be read on the request.
#[derive(Clone, Debug)]
pub struct SubmittedList {
    pub source: Source,
    /// What its ingest logs after `accepted`, to `latched`.
    pub log: Vec<IngestEvent>,
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

#[derive(Clone, Debug)]
pub struct Added {
    pub view: JobView,
    /// Refs that still have to be sent. Empty where rows and refs are one transaction.
    pub unsent: Vec<TaskRef>,
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

/// Runs that changed.
#[derive(Clone, Debug, Default)]
pub struct ChangedRuns {
    pub active: Vec<ActiveRun>,
    /// No longer `running`.
    pub gone: Vec<RunKey>,
}

/// Jobs and runs.
#[async_trait]
pub trait JobStore: Send + Sync {
    /// Over how many partitions the rows of a new job's tasks are best spread; fixed on the job from then on.
    fn task_shards(&self, _expected_tasks: u64, _open: bool) -> u32 {
        1
    }

    /// Makes a job, its run and its tasks durable and visible, all or nothing. Repeating it changes nothing.
    /// Returns the refs that still have to be sent. `NotFound` if the upload of its list is not there,
    /// `Changed` if other bytes are staged in it by now, `Conflict` if what was claimed for it is lost.
    async fn submit(&self, submission: Submission) -> Result<Vec<TaskRef>>;

    /// Adds tasks behind those that the job's run has. `Conflict` if what was claimed for it is lost.
    async fn add_tasks(
        &self,
        job: JobId,
        tasks: Vec<TaskInput>,
        last_batch: bool,
        run_tasks_max: u32,
        once: Option<Once>,
        now: Timestamp,
    ) -> Result<Added>;

    /// Begins another run of a job and makes it visible with its tasks, or with the ingest that brings them, all or nothing.
    /// Of two who decided on the same latest run, one is refused. `Conflict` if what was claimed for it is lost.
    async fn start_run(&self, start: StartRun, now: Timestamp) -> Result<JobView>;

    /// Decides a command on the job and its latest run and writes the outcome, in one step.
    async fn apply(&self, job: JobId, command: Command, now: Timestamp) -> Result<JobView>;

    /// Decides the deletion of one run of a job and writes the outcome, in one step. `NotFound` if there is none.
    async fn delete_run(&self, key: RunKey, now: Timestamp) -> Result<RunView>;

    /// Whoever's job it is: for operators and repairs.
    async fn any_job(&self, job: JobId) -> Result<Option<JobView>>;

    /// A job of this caller; another's is not there.
    async fn job(&self, caller: CallerId, job: JobId) -> Result<Option<JobView>>;

    async fn jobs(&self, query: JobsQuery) -> Result<Page<JobView, JobId>>;

    /// A run that was deleted and removed is not there.
    async fn run(&self, job: JobId, run: RunId) -> Result<Option<RunView>>;

    /// Without those that were deleted and removed. A distributed backend goes by the ids of runs, so by the clocks of the
    /// processes that began them.
    async fn runs(&self, query: RunsQuery) -> Result<Page<RunView, RunId>>;

    /// Runs whose status is `running`, paused ones among them. May lag behind on a distributed backend; nothing may depend
    /// on it being fresh.
    async fn active_runs(&self) -> Result<Vec<ActiveRun>>;

    /// Runs that the latest `active_runs` of this process left out, because they could not be read then.
    fn unread_runs(&self) -> Vec<RunKey> {
        Vec::new()
    }

    /// Says what time it is, before every look: what becomes visible from then on is found by `changed_runs` since then,
    /// however long ago it was decided.
    fn tell(&self, now: Timestamp);

    /// What became visible of runs since a moment: those that changed, and those of a job that changed its limits. Some may
    /// be told that did not change. May lag behind like `active_runs`, and by what clocks differ: look back further than
    /// the last look.
    async fn changed_runs(&self, since: Timestamp) -> Result<ChangedRuns>;

    /// Whether a write would be answered now.
    async fn ready(&self) -> Result<()>;
}
