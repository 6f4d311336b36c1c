//! Rows as they are counted: nothing of them is kept but a hash each, and the names of their domains.

use super::Pace;
use crate::invalid_tasks::InvalidTasks;
use conveyor_domain::dispatch::domains::host_of;
use conveyor_domain::ingest::estimate::{Work, estimate};
use conveyor_domain::job::task_input::Invalid;
use conveyor_domain::{DomainLimit, Estimate, JobSpec, TaskBody, TaskInput, UnknownCounts, limits};
use conveyor_wire::{self as wire, Assumes, DomainCount, DomainCounts, DryRun};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub valid: u64,
    pub invalid: InvalidTasks,
    /// Fields of rows of a staged list that are ignored.
    pub unknown: UnknownCounts,
    duplicates: u64,
    /// Of a million rows two are taken for one by their hash in one list of thirty million.
    seen: HashSet<u64>,
    domains: HashMap<String, u64>,
    /// Tasks of domains that are not told apart any more.
    elsewhere: u64,
}

impl Tally {
    pub fn rows(&self) -> u64 {
        self.valid + self.invalid.count as u64
    }

    pub fn add(&mut self, index: usize, line: Option<u64>, row: Result<TaskInput, Invalid>) {
        match row {
            Ok(task) => self.add_valid(&task),
            Err(why) => self.invalid.add_up_to(limits::DRY_RUN_INVALID_MAX, index, line, why),
        }
    }

    fn add_valid(&mut self, task: &TaskInput) {
        self.valid += 1;
        if !self.seen.insert(hash(task)) {
            self.duplicates += 1;
        }
        let Some(host) = host_of(&task.url) else { return };
        let has_room = self.domains.len() < limits::DRY_RUN_DOMAINS_MAX;
        match self.domains.get_mut(&host) {
            Some(tasks) => *tasks += 1,
            None if has_room => {
                self.domains.insert(host, 1);
            }
            None => self.elsewhere += 1,
        }
    }

    /// The budgets of domains that the tasks draw on, and how many do.
    fn sites(&self, spec: &JobSpec) -> Vec<(u64, DomainLimit)> {
        let mut sites: BTreeMap<&str, (u64, DomainLimit)> = BTreeMap::new();
        for (host, tasks) in &self.domains {
            if let Some((name, limit)) = spec.domain_limits.of(host) {
                sites.entry(name).or_insert((0, limit)).0 += tasks;
            }
        }
        sites.into_values().collect()
    }

    pub fn report(self, spec: &JobSpec, pace: Pace, would_answer: u16) -> DryRun {
        let (max_inflight, seconds_per_task) = (spec.max_inflight, pace.seconds_per_task);
        let work = Work { tasks: self.valid, max_inflight, rate: spec.rate, seconds_per_task };
        let estimated = estimate(work, self.sites(spec));
        let (rows, exact, count) = (self.rows(), self.elsewhere == 0, self.domains.len());
        DryRun {
            dry_run: true,
            rows,
            valid: self.valid,
            invalid: self.invalid.count as u64,
            invalid_tasks: self.invalid.named,
            duplicates: self.duplicates,
            domains: DomainCounts { count, exact, top: top(self.domains) },
            would_answer,
            estimate: shown(estimated, pace, max_inflight),
        }
    }
}

fn shown(estimate: Estimate, pace: Pace, max_inflight: u32) -> wire::Estimate {
    // More than a millisecond is more than is known.
    let rounded = |seconds: f64| (seconds * 1000.0).round() / 1000.0;
    let assumes = Assumes {
        seconds_per_task: rounded(pace.seconds_per_task),
        basis: pace.basis.into(),
        measured_tasks: Some(pace.tasks).filter(|tasks| *tasks > 0),
        attempts_per_task: 1,
        max_inflight,
    };
    wire::Estimate { seconds: rounded(estimate.seconds), bound_by: estimate.bound_by.into(), assumes }
}

fn hash(task: &TaskInput) -> u64 {
    let body = match &task.body {
        None => (0, ""),
        Some(TaskBody::Json(text)) => (1, text.as_str()),
        Some(TaskBody::Form(text)) => (2, text.as_str()),
    };
    let mut hasher = DefaultHasher::new();
    (task.method.is_get(), &task.url, body).hash(&mut hasher);
    hasher.finish()
}

/// Those with the most tasks; of equals, the first by name.
fn top(domains: HashMap<String, u64>) -> Vec<DomainCount> {
    let mut domains: Vec<_> = domains.into_iter().collect();
    let rank = |(domain, tasks): &(String, u64)| (std::cmp::Reverse(*tasks), domain.clone());
    domains.sort_by_cached_key(rank);
    domains.truncate(limits::DRY_RUN_DOMAINS_SHOWN);
    domains.into_iter().map(|(domain, tasks)| DomainCount { domain, tasks }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::job::task_input::Reason;

    fn url(url: &str) -> Result<TaskInput, Invalid> {
        TaskInput::from_url(url)
    }

    #[test]
    fn rows_are_counted_by_what_they_are() {
        let mut tally = Tally::default();
        for (index, row) in ["https://a.test/1", "https://b.test/1", "https://a.test/1", "https://A.test/2"]
            .iter()
            .enumerate()
        {
            tally.add(index, None, url(row));
        }
        tally.add(4, Some(5), Err(Invalid::new(Reason::MalformedUrl, "x")));
        let report = tally.report(&JobSpec::default(), Pace::assumed(false), 201);
        assert_eq!((report.rows, report.valid, report.invalid, report.duplicates), (5, 4, 1, 1));
        assert_eq!((report.domains.count, report.domains.exact), (2, true));
        let top: Vec<_> = report.domains.top.iter().map(|d| (d.domain.as_str(), d.tasks)).collect();
        assert_eq!(top, [("a.test", 3), ("b.test", 1)]);
    }

    #[test]
    fn a_long_list_takes_no_more_than_its_limits() {
        let mut tally = Tally::default();
        for index in 0..limits::DRY_RUN_DOMAINS_MAX + 50 {
            tally.add(index, None, url(&format!("https://d{index}.test/")));
            tally.add(index, None, Err(Invalid::new(Reason::MalformedUrl, "x")));
        }
        let report = tally.report(&JobSpec::default(), Pace::assumed(false), 202);
        assert_eq!((report.domains.count, report.domains.exact), (limits::DRY_RUN_DOMAINS_MAX, false));
        assert_eq!(report.domains.top.len(), limits::DRY_RUN_DOMAINS_SHOWN);
        assert_eq!(report.invalid_tasks.len(), limits::DRY_RUN_INVALID_MAX);
        assert_eq!(report.invalid as usize, limits::DRY_RUN_DOMAINS_MAX + 50);
    }
}
