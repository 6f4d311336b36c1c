//! Schedules whose time has come (SPEC 6.20): each fire makes one run, or is skipped because the run before has not ended.
//! Both are one transaction that moves the schedule on, so whoever is second finds nothing to do.

use crate::repair::{About, DueKey, Fixed, Found, Look, Next, Pace, Repair, Scope, behind, job_of};
use crate::sweep::Sweep;
use async_trait::async_trait;
use conveyor_domain::repair::{Finding, Kind, Subject};
use conveyor_domain::{Command, JobId, JobStatus, RecordKey, RecordKind, ScheduleChange, Timestamp};
use conveyor_store::port::{DueQuery, JobView, StartRun};
use conveyor_store::template::expected_tasks;
use conveyor_store::{Error, Result};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(super) struct DueSchedules {
    /// Looked at since all were: whatever a turn had no time for comes first in the next.
    looked: Mutex<HashSet<DueKey>>,
}

/// Due records that are read in one query, and that take turns.
const DUE_PAGE: u32 = 1_000;
const DUE_MAX: usize = 100_000;

#[async_trait]
impl Repair for DueSchedules {
    fn about(&self) -> About {
        About::new("due_schedules", Kind::Upkeep, Pace::Promptly)
    }

    async fn find(&self, look: &Look<'_>, from: Option<String>) -> Result<Found> {
        let by_turns = look.scope == Scope::All && !look.thorough;
        let (due, next) =
            if by_turns { self.by_turns(look).await? } else { scheduled_jobs(look, from).await? };
        let mut found = Found { next, ..Found::default() };
        let looks = due.iter().filter_map(job_named).map(|job| (Subject::Job(job), self.explain(look, job)));
        let last = found.look_at(self, look, looks.collect()).await?;
        if let Some(last) = last {
            found.next = Some(behind_job(&due, last));
        }
        if by_turns {
            let seen = last.and_then(|last| due.iter().position(|due| is_of(due, last)));
            let seen = seen.map_or(due.len(), |last| last + 1);
            match found.next {
                Some(_) => self.looked().extend(due.into_iter().take(seen)),
                None => self.looked().clear(),
            }
        }
        Ok(found)
    }

    async fn fix(&self, sweep: &Sweep<'_>, finding: &Finding) -> Result<Fixed> {
        let (job, now) = (job_of(finding)?, sweep.clock.now());
        let Some(view) = sweep.backend.store.job(None, job).await? else { return Ok(Fixed::NOTHING) };
        let Some(seen) = due(&view, now) else { return Ok(Fixed::NOTHING) };
        match fire(sweep, &view, seen, now).await {
            Ok(()) => Ok(Fixed::ONE),
            // Somebody was quicker, or it is no longer to be done. What is left of it, the next sweep finds.
            Err(Error::Refused(_) | Error::NotFound) => Ok(Fixed::NOTHING),
            Err(error) => Err(error),
        }
    }
}

/// Records of schedules that somebody has to look at; or that of the job that is looked at.
pub(super) async fn scheduled_jobs(
    look: &Look<'_>,
    from: Option<String>,
) -> Result<(Vec<DueKey>, Option<Next>)> {
    match look.scope {
        Scope::All => look.due_from(RecordKind::ScheduledJob, from).await,
        // Whose it is makes no difference here.
        Scope::Job(job) => {
            let key = RecordKey::new(RecordKind::ScheduledJob, job, job);
            Ok((vec![(look.now(), key)], None))
        }
    }
}

/// The job that a record of a schedule is about. The record is owned by its caller.
pub(super) fn job_named((_, key): &DueKey) -> Option<JobId> {
    key.id.parse().inspect_err(|_| tracing::error!(id = key.id, "a record of a schedule names no job")).ok()
}

fn is_of((_, key): &DueKey, subject: Subject) -> bool {
    matches!(subject, Subject::Job(job) if key.id.parse() == Ok(job))
}

/// Where the page begins that is behind this job.
pub(super) fn behind_job(due: &[DueKey], last: Subject) -> Next {
    let place = due.iter().find(|due| is_of(due, last));
    place.map_or_else(|| Next::After(String::new()), behind)
}

/// The fire that is due, if there is one. The record only says where to look.
fn due(view: &JobView, now: Timestamp) -> Option<Timestamp> {
    let schedule = view.job.spec.schedule.as_ref().filter(|_| view.job.status != JobStatus::Deleted)?;
    schedule.due().filter(|due| *due <= now)
}

fn goes_on(view: &JobView) -> bool {
    view.latest.as_ref().is_some_and(|latest| latest.run.goes_on())
}

async fn fire(sweep: &Sweep<'_>, view: &JobView, seen: Timestamp, now: Timestamp) -> Result<()> {
    let store = &sweep.backend.store;
    let job = view.job.id;
    if goes_on(view) {
        let skip = Command::Schedule(ScheduleChange::Skip { seen });
        return store.apply(job, skip, now).await.map(drop);
    }
    let Some(schedule) = &view.job.spec.schedule else { return Ok(()) };
    let expected = expected_tasks(&**store, &view.job).await?;
    let (run, first) = schedule.run_of_fire(seen, view.job.latest_run, expected);
    let start = StartRun { job, run, tasks: Vec::new(), log: Some(first), once: None };
    store.start_run(start, now).await.map(drop)
}

impl DueSchedules {
    fn looked(&self) -> MutexGuard<'_, HashSet<DueKey>> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A page of what is due and ours, round robin by caller, the longest due first within a caller: one with thousands does
    /// not delay the others.
    async fn by_turns(&self, look: &Look<'_>) -> Result<(Vec<DueKey>, Option<Next>)> {
        let (store, mut due) = (&look.backend.store, Vec::<DueKey>::new());
        loop {
            let (kind, after) = (RecordKind::ScheduledJob, due.last().cloned());
            let query = DueQuery { kind, by: look.now(), after, newest_first: false, limit: DUE_PAGE };
            let page = store.due_keys(query).await?;
            let is_last = page.len() < DUE_PAGE as usize;
            due.extend(page);
            if is_last || due.len() >= DUE_MAX {
                break;
            }
        }
        due.retain(|due| job_named(due).is_some_and(|job| look.is_ours(Subject::Job(job))));
        let mut looked = self.looked();
        let all: HashSet<&DueKey> = due.iter().collect();
        looked.retain(|due| all.contains(due));
        let mut of_caller: HashMap<&str, u32> = HashMap::new();
        let mut turns: Vec<(u32, &DueKey)> = Vec::new();
        for key in due.iter().filter(|due| !looked.contains(due)) {
            let turn = of_caller.entry(&key.1.owner).or_default();
            turns.push((*turn, key));
            *turn += 1;
        }
        turns.sort_by_key(|(turn, _)| *turn);
        let page: Vec<DueKey> =
            turns.iter().take(look.page() as usize).map(|(_, key)| (*key).clone()).collect();
        let next = (page.len() < turns.len()).then(|| Next::After(String::new()));
        Ok((page, next))
    }

    async fn explain(&self, look: &Look<'_>, job: JobId) -> Result<Option<Finding>> {
        let Some(view) = look.backend.store.job(None, job).await? else { return Ok(None) };
        let Some(due) = due(&view, look.now()) else { return Ok(None) };
        let (and, remedy) = match goes_on(&view) {
            true => (", and the run before has not ended", "skips the fire, and says so in the timeline"),
            false => ("", "makes a run of the job's tasks"),
        };
        Ok(Some(self.about().finding(
            Subject::Job(job),
            format!("its schedule was to fire at {due}{and}"),
            remedy,
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::job::record::Expected;
    use conveyor_domain::{Clock, Record, RecordVersion, RecordWrite};
    use conveyor_store::embedded::Embedded;
    use conveyor_testkit::ManualClock;

    #[tokio::test]
    async fn callers_take_turns_and_a_page_that_had_its_turn_makes_room() {
        let dir = tempfile::TempDir::new().unwrap();
        let clock = ManualClock::new();
        let backend = Embedded::open(dir.path(), clock.now()).unwrap().backend();
        let put = async |caller: &str, n: u8, due| {
            let key = RecordKey::new(RecordKind::ScheduledJob, caller, JobId::from_bytes([n; 16]));
            let record = Record::new(key, RecordVersion::from_stored(1), &()).due(Some(Timestamp(due)));
            assert!(backend.store.write_record(RecordWrite::put(record, Expected::Absent)).await.unwrap());
        };
        for n in 1..=20 {
            put("busy", n, i64::from(n)).await;
        }
        put("other", 30, 1_000).await;
        let look = Look::new(&backend, &clock, Scope::All, false).paged(4);
        let repair = DueSchedules::default();
        let page = async || {
            let (due, _) = repair.by_turns(&look).await.unwrap();
            let found = repair.find(&look, None).await.unwrap();
            let jobs: Vec<u8> = due.iter().map(|due| job_named(due).unwrap().to_bytes()[0]).collect();
            (jobs, found.next.is_some())
        };
        assert_eq!(page().await, (vec![1, 30, 2, 3], true));
        // Due while others have waited for longer: its caller has had no turn since.
        put("new", 40, 2_000).await;
        assert_eq!(page().await, (vec![4, 40, 5, 6], true));
        for first in [7, 11, 15] {
            assert_eq!(page().await, ((first..first + 4).collect(), true));
        }
        assert_eq!(page().await, (vec![19, 20], false));
        assert_eq!(page().await, (vec![1, 30, 40, 2], true), "all of them again");
    }
}
