//! What a caller may have at once, and who is let in (SPEC 6.24). What is there is counted where it is; what is about to be
//! made is held by a reservation in the caller's record, so that of two who come at the same time both see the other.

use crate::{JobId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What a caller may have: its own quotas, or those that the server was started with. One that is not there is no
/// limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"active_jobs": 10, "queued_tasks": 100000, "scheduled_jobs": 10}]))]
pub struct Quotas {
    /// Jobs with a run that has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_jobs: Option<u32>,
    /// Jobs with a schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_jobs: Option<u32>,
    /// Tasks of live runs that are not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_tasks: Option<u64>,
}

impl Quotas {
    /// What was chosen, and the defaults for the rest.
    #[must_use]
    pub fn or(self, defaults: Quotas) -> Quotas {
        Quotas {
            active_jobs: self.active_jobs.or(defaults.active_jobs),
            scheduled_jobs: self.scheduled_jobs.or(defaults.scheduled_jobs),
            queued_tasks: self.queued_tasks.or(defaults.queued_tasks),
        }
    }

    /// Whether anything that is wanted is limited at all. If not, nothing is counted and nothing held.
    pub fn concern(self, wanted: &Wanted) -> bool {
        (wanted.active && self.active_jobs.is_some())
            || (wanted.scheduled && self.scheduled_jobs.is_some())
            || (wanted.tasks > 0 && self.queued_tasks.is_some())
    }
}

/// What a request is about to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub job: JobId,
    /// The job gets a run.
    pub active: bool,
    /// The job gets a schedule.
    pub scheduled: bool,
    /// As far as they are known: of a list that is read later, one.
    pub tasks: u32,
}

/// What a reservation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// The job's run, or schedule, being there.
    Making { active: bool, scheduled: bool },
    /// The request that adds tasks.
    Adding,
    /// The rest of a list that is being read: what is not counted yet.
    Reading,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    pub id: u64,
    pub job: JobId,
    pub held: Held,
    pub tasks: u32,
    /// A process that dies leaves it behind; then it no longer counts.
    pub until: Timestamp,
}

/// A caller's record, as it is stored. A field that is added has a default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holdings {
    #[serde(flatten)]
    pub chosen: Quotas,
    #[serde(default)]
    pub reservations: Vec<Reservation>,
}

/// A run that has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveRun {
    pub total: u32,
    pub completed: u32,
    /// Of both: what an earlier run did.
    pub inherited: u32,
    pub ingesting: bool,
}

/// What is there. It is read behind the record: what a reservation was given up for is in it then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub live: BTreeMap<JobId, LiveRun>,
    pub scheduled: BTreeSet<JobId>,
    /// There are more live jobs than are counted.
    pub more: bool,
}

/// What a caller has right now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CallerUsage")]
pub struct Used {
    /// Jobs with a run that has not ended.
    pub active_jobs: u64,
    /// Jobs with a schedule.
    pub scheduled_jobs: u64,
    /// Tasks of live runs that have not ended.
    pub queued_tasks: u64,
}

impl Used {
    fn add(self, other: Used) -> Used {
        Used {
            active_jobs: self.active_jobs + other.active_jobs,
            scheduled_jobs: self.scheduled_jobs + other.scheduled_jobs,
            queued_tasks: self.queued_tasks + other.queued_tasks,
        }
    }
}

crate::words! {
    pub enum Quota {
        ActiveJobs = "active_jobs",
        ScheduledJobs = "scheduled_jobs",
        QueuedTasks = "queued_tasks",
    }
}

/// More than a caller may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the quota `{quota}` is {limit}: {used} are used, and {wanted} more were asked for")]
pub struct Exceeded {
    pub quota: Quota,
    pub limit: u64,
    pub used: u64,
    pub wanted: u64,
}

impl Holdings {
    /// Everything that counts, there or about to be.
    pub fn used(&self, usage: &Usage, now: Timestamp) -> Used {
        let queued = |run: &LiveRun| u64::from(run.total.saturating_sub(run.completed));
        let there = Used {
            active_jobs: usage.live.len() as u64,
            scheduled_jobs: usage.scheduled.len() as u64,
            queued_tasks: usage.live.values().map(queued).sum(),
        };
        let held = self.reservations.iter().filter_map(|held| weight(held, usage, now));
        held.fold(there, Used::add)
    }

    /// Lets a request in, by a reservation under `id`, or says which quota it would exceed. Reservations that wait for
    /// nothing any more are dropped.
    pub fn admit(
        &self,
        quotas: Quotas,
        usage: &Usage,
        wanted: &Wanted,
        id: u64,
        (now, until): (Timestamp, Timestamp),
    ) -> Result<Holdings, Exceeded> {
        let used = self.used(usage, now);
        let makes_active = wanted.active && !usage.live.contains_key(&wanted.job);
        let makes_scheduled = wanted.scheduled && !usage.scheduled.contains(&wanted.job);
        check(Quota::ActiveJobs, quotas.active_jobs.map(u64::from), used.active_jobs, makes_active.into())?;
        let scheduled = quotas.scheduled_jobs.map(u64::from);
        check(Quota::ScheduledJobs, scheduled, used.scheduled_jobs, makes_scheduled.into())?;
        check(Quota::QueuedTasks, quotas.queued_tasks, used.queued_tasks, wanted.tasks.into())?;
        check_all_counted(quotas, usage, used.queued_tasks, wanted.tasks.into())?;
        let Wanted { job, active, scheduled, tasks } = *wanted;
        let held = if active || scheduled { Held::Making { active, scheduled } } else { Held::Adding };
        let mut next = self.clone();
        next.reservations.retain(|held| weight(held, usage, now).is_some());
        next.reservations.push(Reservation { id, job, held, tasks, until });
        Ok(next)
    }

    /// Without a reservation that has done its work; `None` if it is not there.
    pub fn release(&self, id: u64) -> Option<Holdings> {
        let mut next = self.clone();
        next.reservations.retain(|held| held.id != id);
        (next.reservations.len() < self.reservations.len()).then_some(next)
    }

    /// Holds room for all rows of a list that is being read, in the place of what was held for it before they were counted.
    /// `None` if its run has ended, which waits for nothing; where not all live runs were counted, nobody knows that. Whoever
    /// repeats it holds the same.
    pub fn hold_list(
        &self,
        quotas: Quotas,
        usage: &Usage,
        wanted: &Wanted,
        id: u64,
        (now, until): (Timestamp, Timestamp),
    ) -> Result<Option<Holdings>, Exceeded> {
        let Wanted { job, tasks, .. } = *wanted;
        let run = match usage.live.get(&job) {
            Some(run) => run,
            // It may be one of those that were not counted.
            None if usage.more => {
                let used = self.used(usage, now).queued_tasks;
                return check_all_counted(quotas, usage, used, tasks.into()).map(|()| None);
            }
            None => return Ok(None),
        };
        let mut next = self.clone();
        next.reservations.retain(|held| {
            let own =
                held.job == job && matches!(held.held, Held::Making { active: true, .. } | Held::Reading);
            !own && weight(held, usage, now).is_some()
        });
        let used = next.used(usage, now).queued_tasks;
        let unread = u64::from(tasks.saturating_sub(run.total.saturating_sub(run.inherited)));
        check(Quota::QueuedTasks, quotas.queued_tasks, used, unread)?;
        check_all_counted(quotas, usage, used, unread)?;
        next.reservations.push(Reservation { id, job, held: Held::Reading, tasks, until });
        Ok(Some(next))
    }

    /// The job is there; its list is not read yet.
    pub fn reading(&self, id: u64) -> Option<Holdings> {
        let mut next = self.clone();
        next.reservations.iter_mut().find(|held| held.id == id)?.held = Held::Reading;
        Some(next)
    }
}

fn check(quota: Quota, limit: Option<u64>, used: u64, wanted: u64) -> Result<(), Exceeded> {
    match limit {
        Some(limit) if wanted > 0 && used + wanted > limit => Err(Exceeded { quota, limit, used, wanted }),
        Some(_) | None => Ok(()),
    }
}

/// Where not all live jobs were counted, those that were not may have any number of tasks.
fn check_all_counted(quotas: Quotas, usage: &Usage, used: u64, wanted: u64) -> Result<(), Exceeded> {
    match quotas.queued_tasks {
        Some(limit) if usage.more && wanted > 0 => {
            Err(Exceeded { quota: Quota::QueuedTasks, limit, used, wanted })
        }
        Some(_) | None => Ok(()),
    }
}

/// What a reservation counts for beyond what is there; `None` if it waits for nothing any more.
fn weight(reservation: &Reservation, usage: &Usage, now: Timestamp) -> Option<Used> {
    let Reservation { job, held, tasks, until, .. } = reservation;
    let lapsed = *until <= now;
    let live = usage.live.get(job);
    match (held, live) {
        // Rows that are not in the total yet. For as long as it takes: the run itself says when it ends.
        (Held::Making { active: true, .. } | Held::Reading, Some(run)) if run.ingesting => {
            // What it takes over with its end is in the total, and nobody waits for it.
            let read = run.total.saturating_sub(run.inherited);
            let queued_tasks = u64::from(tasks.saturating_sub(read));
            Some(Used { queued_tasks, ..Used::default() })
        }
        (Held::Reading, Some(_) | None) => None,
        (Held::Making { .. } | Held::Adding, Some(_) | None) if lapsed => None,
        (Held::Adding, Some(_) | None) => Some(Used { queued_tasks: u64::from(*tasks), ..Used::default() }),
        (Held::Making { active, scheduled }, live) => {
            let active = *active && live.is_none();
            let scheduled = *scheduled && !usage.scheduled.contains(job);
            let queued_tasks = if active { u64::from(*tasks) } else { 0 };
            let weight = Used { active_jobs: active.into(), scheduled_jobs: scheduled.into(), queued_tasks };
            (weight != Used::default()).then_some(weight)
        }
    }
}

#[cfg(test)]
#[path = "quota_tests.rs"]
mod tests;
