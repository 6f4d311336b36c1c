use super::over::port;
use super::{Page, Reader, Result, Store};
use conveyor_domain::repair::Subject;
use conveyor_domain::{
    Attempt, ClaimToken, JobId, Outcome, RunId, Spend, Task, TaskId, TaskInput, TaskRef, TaskStatus,
    Timestamp, WorkerId, limits,
};

/// Where a run's rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunKey {
    pub job: JobId,
    pub run: RunId,
}

impl RunKey {
    /// The run that this is about, if it is about one.
    pub fn of(subject: Subject) -> Option<RunKey> {
        match subject {
            Subject::Run(job, run) => Some(RunKey { job, run }),
            Subject::Job(_) | Subject::Upload(_) | Subject::Letter(_) | Subject::Queue(_) => None,
        }
    }
}

impl From<RunKey> for Subject {
    fn from(RunKey { job, run }: RunKey) -> Subject {
        Subject::Run(job, run)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedTask {
    pub task: TaskId,
    pub token: ClaimToken,
    /// The attempt that this claim makes, from 1.
    pub attempt: u32,
    pub input: TaskInput,
}

/// The answer to a claim (SPEC 6.3).
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    Claimed(ClaimedTask),
    /// Claimed, to be failed: too many claims came to nothing.
    Exhausted(ClaimedTask),
    Terminal,
    Early(Timestamp),
    /// Its run is paused.
    Paused,
    Gone,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Settle {
    pub task: TaskId,
    pub token: ClaimToken,
    pub outcome: Outcome,
    /// What the attempt cost. Of a release nothing is kept.
    pub spend: Spend,
}

impl Settle {
    pub fn new(claimed: &ClaimedTask, outcome: Outcome) -> Settle {
        Settle { task: claimed.task, token: claimed.token, outcome, spend: Spend::default() }
    }

    /// What is kept and added up of it.
    pub fn charged(&self) -> Spend {
        match self.outcome {
            Outcome::Successful(_) | Outcome::Failed { .. } | Outcome::Retry { .. } => self.spend,
            Outcome::Release => Spend::default(),
        }
    }
}

/// Settles of one run by one worker, to be written and counted together.
#[derive(Clone, Debug)]
pub struct SettleGroup {
    pub key: RunKey,
    pub worker: WorkerId,
    pub settles: Vec<Settle>,
}

/// The answer to a settle (SPEC 6.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    Applied,
    /// An earlier send of the same settle won; its answer was lost.
    Already,
    /// Another claim superseded this one, or the row is gone.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StatusFilter {
    #[default]
    All,
    Successful,
    Failed,
    /// Not terminal yet.
    Unfinished,
}

impl StatusFilter {
    pub fn admits(self, status: TaskStatus) -> bool {
        match self {
            StatusFilter::All => true,
            StatusFilter::Successful => status == TaskStatus::Successful,
            StatusFilter::Failed => status == TaskStatus::Failed,
            StatusFilter::Unfinished => !status.is_terminal(),
        }
    }
}

/// A page of a run's tasks, in task-id order.
#[derive(Clone, Copy, Debug)]
pub struct TasksQuery {
    pub key: RunKey,
    pub filter: StatusFilter,
    pub after: Option<TaskId>,
    pub limit: u32,
    /// The page ends early, never without a row, once its rows weigh this much ([`Task::weight`]).
    pub max_bytes: usize,
}

impl dyn Store + '_ {
    /// A dense page of tasks, for roles: as many scans as that takes, each of which leaves room for others in between.
    pub async fn tasks(&self, mut query: TasksQuery) -> Result<Vec<Task>> {
        let mut tasks: Vec<Task> = Vec::new();
        loop {
            let page = self.scan_tasks(query, limits::LOOK_ROWS_MAX, Reader::Role).await?;
            query.limit = query.limit.saturating_sub(u32::try_from(page.rows.len()).unwrap_or(u32::MAX));
            let bytes = page.rows.iter().map(Task::weight).sum();
            query.max_bytes = query.max_bytes.saturating_sub(bytes);
            tasks.extend(page.rows);
            match page.next {
                Some(next) if query.limit > 0 && (query.max_bytes > 0 || tasks.is_empty()) => {
                    query.after = Some(next)
                }
                Some(_) | None => return Ok(tasks),
            }
        }
    }
}

port! {
    /// Task rows and their attempts.
    pub trait TaskStore, decorated by OverTaskStore over store {
        /// Writes rows that are not there yet, sends their refs, and leaves the others as they are.
        async fn put_tasks(&self, key: RunKey, rows: Vec<(u32, TaskInput)>, now: Timestamp) -> Result<()>;

        /// Claims tasks, each under its own fresh token; one answer per task, in order.
        async fn claim(
            &self,
            key: RunKey,
            claims: Vec<(TaskRef, ClaimToken)>,
            claims_max: u32,
            now: Timestamp,
        ) -> Result<Vec<Claim>>;

        /// Settles and counts in one step; one answer per settle, in order.
        async fn settle(&self, group: SettleGroup, now: Timestamp) -> Result<Vec<Settled>>;

        /// Gives tasks that are not terminal an end that is known from elsewhere, and counts it, whatever claim they are under
        /// and whatever state their run is in. For each, whether it was given: a terminal one stays as it is.
        /// Only `Successful` and `Failed` are ends.
        async fn restore(
            &self,
            key: RunKey,
            worker: WorkerId,
            ends: Vec<(TaskId, Outcome)>,
            now: Timestamp,
        ) -> Result<Vec<bool>>;

        async fn task(&self, key: RunKey, task: TaskId) -> Result<Option<Task>>;

        /// A page of tasks for which no more than about `look` rows are read: it may be short, or empty, though more follow. Of
        /// rows that a filter can be answered from an index for, only those of the page are read, and the page is dense.
        /// Each row is looked at once, as it is at that moment.
        async fn scan_tasks(&self, query: TasksQuery, look: u32, reader: Reader) -> Result<Page<Task, TaskId>>;

        /// Attempts that reached an end, oldest first. `None` if there is no such task.
        async fn attempts(&self, key: RunKey, task: TaskId) -> Result<Option<Vec<Attempt>>>;
    }
}
