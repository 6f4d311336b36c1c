//! Records that change together with a job and its run, in the same transaction (SPEC 5.7). A backend calls [`records`] with
//! what it read and what was decided, and writes what comes back; so what is due because of a change can be neither lost nor
//! made up.

use crate::job::record::Expected;
use crate::{
    CallerId, Delivery, Job, JobId, JobSchedule, JobStatus, Record, RecordKey, RecordKind, RecordVersion,
    RecordWrite, Run, RunId, RunStats, Timestamp, delivery,
};

/// A change of a job and a run of it, if there is one. `before` is `None` for what is made.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    pub before: Option<(&'a Job, Option<&'a Run>)>,
    pub after: (&'a Job, Option<&'a Run>),
    /// What was counted of the run when it was decided.
    pub stats: RunStats,
    pub now: Timestamp,
}

pub fn records(change: Change<'_>) -> Vec<RecordWrite> {
    live_job(change).into_iter().chain(scheduled_job(change)).chain(notices(change)).collect()
}

/// A job is live from the moment that a run of it is made until that run ends.
fn live_job(Change { before, after: (job, run), .. }: Change<'_>) -> Option<RecordWrite> {
    let run = run?;
    let was = before.is_some_and(|(job, run)| run.is_some_and(|run| is_live(job, run)));
    let is = is_live(job, run);
    let key = live_job_key(job.caller, job.id);
    match (was, is) {
        (false, true) => Some(RecordWrite::put(live_job_record(key, run.id), Expected::Anything)),
        // Of an earlier run that is deleted, say, while the latest goes on.
        (true, false) if run.id == job.latest_run => Some(RecordWrite::remove(key, Expected::Anything)),
        (true, false) | (false, false) | (true, true) => None,
    }
}

/// Whoever is to hear of the end of a run is told because of the very write that ended it (SPEC 6.21).
fn notices(Change { before, after: (job, run), stats, now }: Change<'_>) -> Vec<RecordWrite> {
    let had_ended = before.and_then(|(_, run)| run).is_some_and(|run| run.status.is_terminal());
    let Some(run) = run.filter(|run| !had_ended && run.status.is_terminal()) else { return Vec::new() };
    let notice = |delivery: Delivery| {
        // Nothing can be there: a run ends once.
        RecordWrite::put(delivery.record(RecordVersion::of(run.id), Some(now)), Expected::Anything)
    };
    delivery::of_ended_run(job, run, stats).into_iter().map(notice).collect()
}

/// What says that a job is live.
pub fn live_job_record(key: RecordKey, run: RunId) -> Record {
    Record::new(key, RecordVersion::of(run), &serde_json::json!({ "run": run }))
}

pub fn live_job_key(caller: CallerId, job: JobId) -> RecordKey {
    RecordKey::new(RecordKind::LiveJob, caller, job)
}

/// A job with a schedule is found by when it fires next, for as long as it is there.
fn scheduled_job(Change { before, after: (job, _), .. }: Change<'_>) -> Option<RecordWrite> {
    let before = before.and_then(|(job, _)| schedule_of(job));
    let key = scheduled_job_key(job.caller, job.id);
    match (before, schedule_of(job)) {
        (before, Some(after)) if before != Some(after) => {
            let doc = ScheduledJob { next: after.next, changes: after.changes };
            let version = RecordVersion::from_stored(i64::from(after.changes));
            let record = Record::new(key, version, &doc).due(after.look_at());
            Some(RecordWrite::put(record, Expected::Anything))
        }
        (Some(_), None) => Some(RecordWrite::remove(key, Expected::Anything)),
        (_, Some(_)) | (None, None) => None,
    }
}

/// What a record of a scheduled job says; the job itself is what counts.
#[derive(Debug, serde::Serialize)]
struct ScheduledJob {
    next: Option<Timestamp>,
    changes: u32,
}

fn schedule_of(job: &Job) -> Option<&JobSchedule> {
    job.spec.schedule.as_ref().filter(|_| job.status != JobStatus::Deleted)
}

pub fn scheduled_job_key(caller: CallerId, job: JobId) -> RecordKey {
    RecordKey::new(RecordKind::ScheduledJob, caller, job)
}

fn is_live(job: &Job, run: &Run) -> bool {
    job.status != JobStatus::Deleted && !run.status.is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::lifecycle::Decision;
    use crate::{Command, Counts, JobSpec, lifecycle};

    fn submitted() -> Decision {
        let (job, run) = (JobId::from_bytes([1; 16]), RunId::from_bytes([2; 16]));
        lifecycle::submit(job, run, CallerId::from_bytes([3; 16]), JobSpec::default(), true, 1, Timestamp(0))
    }

    fn of(before: Option<&Decision>, after: &Decision) -> Vec<RecordWrite> {
        records(Change {
            before: before.map(|rows| (&rows.job, Some(&rows.run))),
            after: (&after.job, Some(&after.run)),
            stats: RunStats::default(),
            now: Timestamp(1),
        })
    }

    #[test]
    fn a_job_is_live_from_its_submit_to_the_end_of_its_run() {
        let made = submitted();
        let key = live_job_key(made.job.caller, made.job.id);
        assert!(matches!(&of(None, &made)[..], [RecordWrite::Put { record, .. }] if record.key == key));
        let decide =
            |command| lifecycle::decide(&made.job, &made.run, &Counts::default(), &command, Timestamp(1));
        let paused = decide(Command::Pause).unwrap();
        assert!(of(Some(&made), &paused).is_empty());
        for end in [Command::Stop, Command::Delete] {
            let ended = decide(end).unwrap();
            assert_eq!(of(Some(&made), &ended), [RecordWrite::remove(key.clone(), Expected::Anything)]);
        }
    }

    #[test]
    fn a_scheduled_job_is_found_by_its_next_fire_until_it_is_deleted() {
        use crate::schedule::calendar::{Interval, Rule, Unit};
        use crate::{JobSchedule, Schedule, ScheduleChange, ScheduleState};
        let (id, template) = (JobId::from_bytes([1; 16]), RunId::from_bytes([2; 16]));
        let rule = Rule::Rate(Interval::new(1, Unit::Minute).unwrap());
        let schedule = JobSchedule::new(Schedule { rule, timezone: None }, template, None, Timestamp(0));
        let spec = JobSpec { schedule: Some(schedule), ..JobSpec::default() };
        let made = lifecycle::scheduled(id, template, CallerId::from_bytes([3; 16]), spec, 1, Timestamp(0));
        let of = |before: Option<&Job>, after: &Job| {
            let (before, after) = (before.map(|job| (job, None)), (after, None));
            records(Change { before, after, stats: RunStats::default(), now: Timestamp(1) })
        };
        let due = |writes: Vec<RecordWrite>| match &writes[..] {
            [RecordWrite::Put { record, .. }] => (record.due, record.version),
            other => panic!("{other:?}"),
        };
        let (first, version) = due(of(None, &made));
        assert_eq!(first, Some(Timestamp(60_000)), "and it is not live: it has no run");
        let decide = |job: &Job, command| {
            lifecycle::decide_latest(job, None, &Counts::default(), &command, Timestamp(1)).unwrap().0
        };
        let pause = Command::Schedule(ScheduleChange::State(ScheduleState::Paused));
        let paused = decide(&made, pause.clone());
        let (next, other) = due(of(Some(&made), &paused));
        assert!(next.is_none() && other != version, "another version, or it would not be written");
        assert!(of(Some(&paused), &decide(&paused, pause)).is_empty());
        let deleted = decide(&paused, Command::Delete);
        let key = scheduled_job_key(made.caller, id);
        assert_eq!(of(Some(&paused), &deleted), [RecordWrite::remove(key, Expected::Anything)]);
    }
}
