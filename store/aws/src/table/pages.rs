//! Pages of a run's tasks, dense and in task-id order, over any number of partitions (SPEC 5.3).
//!
//! Ids sort by index, so a page is a window of indexes: every partition is asked for its rows in that window, and what they
//! return is wanted to the last row. Nothing is read to be thrown away, and the place to go on from is one id.
//!
//! A filter is applied by DynamoDB after it has read a row, so a filtered page has a budget: rows that it looks at, and read
//! units that they cost.

use super::item::{Item, number, readable_items};
use super::read::{Filter, Range};
use super::rows::RunRow;
use super::tasks::{decode_task, is_void, status_number, task_id};
use super::{Table, keys};
use crate::client::count_read_rows;
use conveyor_domain::{Task, TaskId, TaskStatus, limits};
use conveyor_store::port::{Page, StatusFilter, TasksQuery};
use conveyor_store::{Error, Result};
use futures::future::try_join_all;

/// Indexes that are asked for at once, to begin with: rows can be large, and all of a window are in memory together.
const FIRST_WINDOW_MAX: u32 = 256;
/// Indexes that are asked for at once when few of them have a row that is wanted.
const WINDOW_MAX: u32 = 1 << 16;

impl Table {
    pub async fn page(&self, query: TasksQuery, look: u32) -> Result<Page<Task, TaskId>> {
        let run = self.find_listed(query.key).await?.ok_or(Error::NotFound)?;
        let first = query.after.map_or(0, |task| task.index().saturating_add(1));
        let mut draft = Draft::new(query, look);
        let stopped = match run.shards {
            0 | 1 => self.page_of_one(&run, &mut draft, first).await?,
            _ => self.page_of_many(&run, &mut draft, first).await?,
        };
        let next = stopped.map(|index| TaskId::of(run.run.id_seed, index));
        Ok(Page { rows: draft.tasks, next })
    }

    /// One partition: one query, unless its answer would be too large. Returns the index that it stopped at, if that is not
    /// the last.
    async fn page_of_one(&self, run: &RunRow, draft: &mut Draft, first: u32) -> Result<Option<u32>> {
        let Some(last) = run.run.next_index.checked_sub(1).filter(|last| *last >= first) else {
            return Ok(None);
        };
        let (low, high) = keys::task_range(run.run.id, first, last);
        let range = Range::between(keys::job_partition(run.run.job), low, high).filtered(draft.query.filter);
        let mut from = None;
        loop {
            let rows = match draft.query.filter {
                StatusFilter::All => draft.missing().min(draft.rows_left),
                StatusFilter::Successful | StatusFilter::Failed | StatusFilter::Unfinished => draft.rows_left,
            };
            let step = self.step(&range.clone().by(rows), from).await?;
            draft.look_at(shown(run, &step.items)?, step.scanned, step.units);
            if draft.is_full() {
                return Ok(draft.last_index());
            }
            let Some(next) = step.next else { return Ok(None) };
            if draft.is_spent() {
                return Ok(Some(task_id(&next)?.index()));
            }
            from = Some(next);
        }
    }

    /// Many partitions: window after window.
    async fn page_of_many(&self, run: &RunRow, draft: &mut Draft, mut first: u32) -> Result<Option<u32>> {
        let partitions = keys::task_partitions(run.run.job, run.shards);
        let mut window = draft.query.limit.clamp(1, FIRST_WINDOW_MAX);
        while first < run.run.next_index {
            // An index has one row at most, so a window looks at no more rows than it is wide.
            let last = first.saturating_add(window.min(draft.rows_left) - 1).min(run.run.next_index - 1);
            let (low, high) = keys::task_range(run.run.id, first, last);
            let read = partitions.iter().map(|partition| {
                let range = Range::between(partition.clone(), low.clone(), high.clone());
                let range = range.filtered(draft.query.filter);
                async move { self.step(&range, None).await }
            });
            let (mut found, mut scanned, mut units, mut last) = (Vec::new(), 0, 0.0, last);
            for part in try_join_all(read).await? {
                found.extend(shown(run, &part.items)?);
                scanned += part.scanned;
                units += part.units;
                // One that has more than an answer holds: beyond that place the others are not to be believed either.
                let stopped_at = part.next.as_ref().map(task_id).transpose()?;
                last = stopped_at.map_or(last, |task| last.min(task.index()));
            }
            found.retain(|task: &Task| task.id.index() <= last);
            found.sort_by_key(|task: &Task| task.id);
            let (rows, width) = (found.len(), last - first + 1);
            draft.look_at(found, scanned, units);
            if draft.is_full() {
                return Ok(draft.last_index());
            }
            first = last + 1;
            if draft.is_spent() && first < run.run.next_index {
                return Ok(Some(last));
            }
            window = next_window(width, rows, draft.missing() as usize).min(draft.affordable(width, units));
        }
        Ok(None)
    }
}

/// How many indexes are likely to hold what is still missing, from how many the last window had.
fn next_window(asked: u32, found: usize, missing: usize) -> u32 {
    // Never much further than before: what is found so far may be an exception.
    let most = asked.saturating_mul(4).min(WINDOW_MAX);
    if found == 0 {
        return most;
    }
    let likely = (missing.min(FIRST_WINDOW_MAX as usize) as f64 * f64::from(asked) / found as f64).ceil();
    likely.clamp(1.0, f64::from(most)) as u32
}

/// A page that fills up, and what may still be looked at for it.
struct Draft {
    query: TasksQuery,
    tasks: Vec<Task>,
    bytes: usize,
    rows_left: u32,
    units_left: f64,
}

impl Draft {
    fn new(query: TasksQuery, look: u32) -> Draft {
        let units_left = f64::from(limits::LOOK_UNITS_MAX);
        Draft { query, tasks: Vec::new(), bytes: 0, rows_left: look.max(1), units_left }
    }

    fn missing(&self) -> u32 {
        self.query.limit.saturating_sub(u32::try_from(self.tasks.len()).unwrap_or(u32::MAX))
    }

    fn is_full(&self) -> bool {
        self.missing() == 0 || self.bytes >= self.query.max_bytes
    }

    fn is_spent(&self) -> bool {
        self.rows_left == 0 || self.units_left <= 0.0
    }

    fn last_index(&self) -> Option<u32> {
        self.tasks.last().map(|task| task.id.index())
    }

    /// How many indexes can be looked at for what is left, if so many cost so much.
    fn affordable(&self, indexes: u32, units: f64) -> u32 {
        let most = f64::from(indexes) * self.units_left / units.max(f64::MIN_POSITIVE);
        most.clamp(1.0, f64::from(WINDOW_MAX)) as u32
    }

    /// Takes what has room of the rows that were looked at.
    fn look_at(&mut self, tasks: Vec<Task>, scanned: u64, units: f64) {
        self.rows_left = self.rows_left.saturating_sub(u32::try_from(scanned).unwrap_or(u32::MAX));
        self.units_left -= units;
        let before = self.tasks.len();
        for task in tasks {
            if self.is_full() {
                break;
            }
            self.bytes += task.weight();
            self.tasks.push(task);
        }
        count_read_rows(scanned, (self.tasks.len() - before) as u64);
    }
}

/// The tasks among these rows that count.
fn shown(run: &RunRow, items: &[Item]) -> Result<Vec<Task>> {
    let shows = |item: &Item| !is_void(item) && task_id(item).is_ok_and(|task| run.shows(task.index()));
    let read = |item: &Item| if shows(item) { decode_task(item).map(Some) } else { Ok(None) };
    Ok(readable_items("task", items, read)?.into_iter().flatten().collect())
}

impl Range {
    fn filtered(self, filter: StatusFilter) -> Range {
        let [_, processing, successful, failed] = TaskStatus::ALL.map(status_number);
        match filter {
            StatusFilter::All => self,
            StatusFilter::Successful => self.only(equal(successful)),
            StatusFilter::Failed => self.only(equal(failed)),
            StatusFilter::Unfinished => {
                self.only(Filter { expression: "st <= :st", values: vec![(":st", number(processing))] })
            }
        }
    }
}

fn equal(status: u8) -> Filter {
    Filter { expression: "st = :st", values: vec![(":st", number(status))] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_follow_the_density_of_rows() {
        assert_eq!(next_window(100, 100, 50), 50);
        assert_eq!(next_window(100, 50, 50), 100);
        assert_eq!(next_window(100, 0, 100), 400, "nothing found: four times as far");
        assert_eq!(next_window(WINDOW_MAX, 0, 1_000), WINDOW_MAX);
        assert_eq!(next_window(1, 0, 1), 4);
    }
}
