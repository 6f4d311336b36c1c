//! Pages of a run's tasks, dense and in task-id order, over any number of partitions (SPEC 5.3).
//!
//! Ids sort by index, so a page is a window of indexes: every partition is asked for its rows in that window, and what they
//! return is wanted to the last row. Nothing is read to be thrown away, and the place to go on from is one id.

use super::item::{Item, number};
use super::read::{Filter, Range};
use super::rows::RunRow;
use super::tasks::{decode_task, task_id};
use super::{Table, keys};
use crate::client::count_read_rows;
use conveyor_domain::{Task, TaskStatus};
use conveyor_store::port::{StatusFilter, TasksQuery};
use conveyor_store::{Error, Result};
use futures::future::try_join_all;

/// Indexes that are asked for at once, to begin with: rows can be large, and all of a window are in memory together.
const FIRST_WINDOW_MAX: u32 = 256;
/// Indexes that are asked for at once when few of them have a row that is wanted.
const WINDOW_MAX: u32 = 1 << 16;

impl Table {
    pub async fn page(&self, query: TasksQuery) -> Result<Vec<Task>> {
        let run = self.find_run(query.key).await?.ok_or(Error::NotFound)?;
        let first = query.after.map_or(0, |task| task.index().saturating_add(1));
        match run.shards {
            0 | 1 => self.page_of_one(&run, query, first).await,
            _ => self.page_of_many(&run, query, first).await,
        }
    }

    /// One partition: one query, unless its answer would be too large.
    async fn page_of_one(&self, run: &RunRow, query: TasksQuery, first: u32) -> Result<Vec<Task>> {
        let Some(last) = run.run.next_index.checked_sub(1).filter(|last| *last >= first) else {
            return Ok(Vec::new());
        };
        let (low, high) = keys::task_range(run.run.id, first, last);
        let mut range = Range::between(keys::job_partition(run.run.job), low, high);
        range = match status_filter(query.filter) {
            Some(filter) => range.only(filter),
            None => range.by(query.limit),
        };
        let (mut page, mut from) = (Page::new(query), None);
        loop {
            let step = self.step(&range, from).await?;
            let added = page.add(shown(run, &step.items)?);
            count_read_rows(step.scanned, added);
            from = step.next;
            if from.is_none() || page.is_full() {
                return Ok(page.tasks);
            }
        }
    }

    /// Many partitions: window after window.
    async fn page_of_many(&self, run: &RunRow, query: TasksQuery, mut first: u32) -> Result<Vec<Task>> {
        let partitions = keys::task_partitions(run.run.job, run.shards);
        let mut page = Page::new(query);
        let mut window = query.limit.clamp(1, FIRST_WINDOW_MAX);
        while !page.is_full() && first < run.run.next_index {
            let last = first.saturating_add(window - 1).min(run.run.next_index - 1);
            let (low, high) = keys::task_range(run.run.id, first, last);
            let missing = page.missing();
            let read = partitions.iter().map(|partition| {
                let range = Range::between(partition.clone(), low.clone(), high.clone());
                let range = match status_filter(query.filter) {
                    Some(filter) => range.only(filter),
                    None => range,
                };
                self.window(range, missing)
            });
            let (mut found, mut scanned, mut last) = (Vec::new(), 0, last);
            for part in try_join_all(read).await? {
                found.extend(shown(run, &part.items)?);
                scanned += part.scanned;
                // One that had enough before its end: beyond that place the others are not to be believed either.
                last = part.stopped_at.map_or(last, |index| last.min(index));
            }
            found.retain(|task: &Task| task.id.index() <= last);
            found.sort_by_key(|task: &Task| task.id);
            let rows = found.len();
            count_read_rows(scanned, page.add(found));
            window = next_window(last - first + 1, rows, page.missing());
            first = last + 1;
        }
        Ok(page.tasks)
    }

    /// The rows of a window in one partition, and no more of them than a page can use.
    async fn window(&self, range: Range, enough: usize) -> Result<Part> {
        let (mut part, mut from) = (Part::default(), None);
        loop {
            let step = self.step(&range, from).await?;
            part.items.extend(step.items);
            part.scanned += step.scanned;
            from = step.next;
            if from.is_none() {
                return Ok(part);
            }
            if part.items.len() >= enough {
                part.stopped_at = part.items.last().map(task_id).transpose()?.map(|task| task.index());
                return Ok(part);
            }
        }
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

/// What one partition has of a window.
#[derive(Default)]
struct Part {
    items: Vec<Item>,
    scanned: u64,
    /// The index of its last row here, if it has more.
    stopped_at: Option<u32>,
}

/// A page that fills up.
struct Page {
    query: TasksQuery,
    tasks: Vec<Task>,
    bytes: usize,
}

impl Page {
    fn new(query: TasksQuery) -> Page {
        Page { query, tasks: Vec::new(), bytes: 0 }
    }

    fn missing(&self) -> usize {
        (self.query.limit as usize).saturating_sub(self.tasks.len())
    }

    fn is_full(&self) -> bool {
        self.missing() == 0 || self.bytes >= self.query.max_bytes
    }

    /// Takes what has room, and returns how many that were.
    fn add(&mut self, tasks: Vec<Task>) -> u64 {
        let before = self.tasks.len();
        for task in tasks {
            if self.is_full() {
                break;
            }
            self.bytes += task.weight();
            self.tasks.push(task);
        }
        (self.tasks.len() - before) as u64
    }
}

/// The tasks among these rows that count.
fn shown(run: &RunRow, items: &[Item]) -> Result<Vec<Task>> {
    let mut tasks = Vec::with_capacity(items.len());
    for item in items {
        if run.shows(task_id(item)?.index()) {
            tasks.push(decode_task(item)?);
        }
    }
    Ok(tasks)
}

fn status_filter(filter: StatusFilter) -> Option<Filter> {
    let statuses = TaskStatus::ALL.map(super::tasks::status_number);
    let [_, processing, successful, failed] = statuses;
    match filter {
        StatusFilter::All => None,
        StatusFilter::Successful => Some(equal(successful)),
        StatusFilter::Failed => Some(equal(failed)),
        StatusFilter::Unfinished => {
            Some(Filter { expression: "st <= :st", values: vec![(":st", number(processing))] })
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
