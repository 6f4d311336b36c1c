//! A look at the tasks of an earlier run before it is replayed (SPEC 6.19): how many will be done again, whether they are all
//! still there, and whether what is asked for makes sense for each.

use crate::invalid_tasks::InvalidTasks;
use crate::problem::{ApiError, Result};
use crate::shares::bodies::{Room, room_within};
use crate::state::ApiState;
use conveyor_domain::{
    CallerId, Method, Params, Replay, ReplayedTask, RunStats, RunStatus, Task, TaskId, TaskStatus, limits,
    params,
};
use conveyor_store::port::{Page, Reader, RunKey, StatusFilter, TasksQuery};

pub(crate) struct Survey<'a> {
    pub state: &'a ApiState,
    pub caller: CallerId,
    /// Whose tasks they are.
    pub key: RunKey,
    pub replay: &'a Replay,
    /// Of the job, and those that win over them and over the tasks' own.
    pub params: &'a Params,
    pub overrides: &'a Params,
}

/// How many tasks are done again, and how many handed down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outlook {
    pub retried: u32,
    pub inherited: u32,
}

/// Tasks that are few, in memory.
#[derive(Debug)]
pub(crate) struct Few {
    pub tasks: Vec<ReplayedTask>,
    /// Until they are written.
    pub room: Room,
}

#[derive(Default)]
struct Seen {
    rows: u32,
    picked: u32,
    invalid: InvalidTasks,
}

impl Survey<'_> {
    /// All tasks, of which there are `total`, with the room that they take; `None` if they are too many, or too much, to be
    /// written on the request.
    pub async fn few(&self, total: u32) -> Result<Option<Few>> {
        let most = self.state.config.inline_tasks_max;
        if total as usize > most {
            return Ok(None);
        }
        let at_most = u64::from(total) * limits::TASK_JSON_MAX_BYTES as u64;
        let at_most = at_most.min(limits::SYNC_LIST_EXPANDED_MAX_BYTES);
        let mut room = room_within(at_most, self.caller, &self.state.bodies).await?;
        let (mut query, mut seen, mut found, mut bytes) = (self.page(), Seen::default(), Vec::new(), 0);
        loop {
            let Page { rows: page, next } = self.read(query).await?;
            bytes += page.iter().map(|task| task.weight() as u64).sum::<u64>();
            page.iter().for_each(|task| self.look(task, &mut seen));
            found.extend(page.into_iter().map(|task| self.replay.replayed(task)));
            if found.len() > most || bytes > limits::SYNC_LIST_EXPANDED_MAX_BYTES {
                return Ok(None);
            }
            match next {
                Some(_) => query.after = next,
                None => break,
            }
        }
        seen.outlook(total)?;
        room.settle(usize::try_from(bytes).unwrap_or(usize::MAX));
        Ok(Some(Few { tasks: found, room }))
    }

    /// By the counters of a run that ended so, where they tell; otherwise all rows are counted. `sure`: no task of it can be
    /// gone by age.
    pub async fn outlook(&self, stats: &RunStats, ended: RunStatus, sure: bool) -> Result<Outlook> {
        let counters = (sure && self.overrides.is_empty()).then(|| self.by_counters(stats, ended)).flatten();
        match counters {
            Some(outlook) => Ok(outlook),
            None => self.count().await?.outlook(stats.total),
        }
    }

    /// `None` where counters do not tell, or are damaged, or may be. That they find no task is never taken for the truth:
    /// rows that were reset under a completed run are counted as done until a reconciliation.
    fn by_counters(&self, stats: &RunStats, ended: RunStatus) -> Option<Outlook> {
        let (selection, total) = (&self.replay.selection, stats.total);
        if selection.is_everything() {
            return Some(Outlook { retried: total, inherited: 0 });
        }
        let has = |status| selection.status.contains(&status);
        let unfinished = [TaskStatus::Pending, TaskStatus::Processing].map(has);
        let tell = selection.is_by_status() && unfinished[0] == unfinished[1];
        let doubtful = stats.is_inconsistent() || unfinished[0] && ended == RunStatus::Completed;
        if !tell || doubtful {
            return None;
        }
        let of = |status: TaskStatus| match status {
            TaskStatus::Successful => stats.counts.successful,
            TaskStatus::Failed => stats.counts.failed_total(),
            TaskStatus::Pending => total.saturating_sub(stats.counts.completed()),
            TaskStatus::Processing => 0,
        };
        let retried: u32 = selection.status.iter().map(|status| of(*status)).sum();
        (retried > 0).then(|| Outlook { retried, inherited: total.saturating_sub(retried) })
    }

    /// Whether what is asked for makes sense, where that is all there is to ask.
    pub async fn sense(&self) -> Result<()> {
        if self.overrides.is_empty() {
            return Ok(());
        }
        let seen = self.count().await?;
        seen.outlook(seen.rows).map(drop)
    }

    async fn count(&self) -> Result<Seen> {
        let (mut query, mut seen) = (self.page(), Seen::default());
        loop {
            let page = self.read(query).await?;
            page.rows.iter().for_each(|task| self.look(task, &mut seen));
            match page.next {
                Some(_) => query.after = page.next,
                None => return Ok(seen),
            }
        }
    }

    async fn read(&self, query: TasksQuery) -> Result<Page<Task, TaskId>> {
        let read = self.state.store().scan_tasks(query, limits::LOOK_ROWS_MAX, Reader::Caller);
        self.state.list(self.caller, read).await
    }

    fn look(&self, task: &Task, seen: &mut Seen) {
        seen.rows += 1;
        if !self.replay.selection.picks(task) {
            return;
        }
        seen.picked += 1;
        if self.overrides.is_empty() {
            return;
        }
        let merged = params::merge(&params::merge(self.params, &task.input.params), self.overrides);
        if let Err(why) = params::check_merged(&merged, task.input.method == Method::Post) {
            seen.invalid.add(task.id.index() as usize, None, why);
        }
    }

    fn page(&self) -> TasksQuery {
        TasksQuery {
            key: self.key,
            filter: StatusFilter::All,
            after: None,
            limit: limits::RESULTS_PAGE_MAX,
            max_bytes: limits::CHUNK_MAX_BYTES,
        }
    }
}

impl Seen {
    /// `total`: how many there were.
    fn outlook(&self, total: u32) -> Result<Outlook> {
        if self.rows != total {
            let detail = "Some tasks of the latest run ended so long ago that they are no longer kept.";
            return Err(ApiError::expired(detail));
        }
        if !self.invalid.is_empty() {
            return Err(ApiError::invalid_tasks(self.picked as usize, &self.invalid));
        }
        Ok(Outlook { retried: self.picked, inherited: self.rows - self.picked })
    }
}
