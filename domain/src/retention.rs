//! How long things can be seen, and how long they are kept (SPEC 6.16). Whether something can be seen is a matter of the
//! time alone, not of whether anybody has removed it yet.

use crate::job::{Job, JobSpec, JobStatus};
use crate::limits;
use crate::run::{Run, RunStatus, Storage};
use crate::task::{Task, TaskStatus};
use crate::time::Timestamp;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// For how long the result of a task of this job can be seen.
pub fn result_ttl(spec: &JobSpec) -> Duration {
    DAY * spec.result_ttl_days.unwrap_or(limits::RESULT_TTL_DAYS).min(limits::RESULT_TTL_DAYS_MAX)
}

/// Whether it is a successful task whose result is past its time.
pub fn is_expired(task: &Task, spec: &JobSpec, now: Timestamp) -> bool {
    task.status == TaskStatus::Successful && task.updated.after(result_ttl(spec)) <= now
}

/// What is left of a run that ended so long ago that nothing of it is kept but what was counted.
pub fn rows_are_over(run: &Run, now: Timestamp) -> bool {
    let over = run.status.is_terminal() && run.updated.after(limits::ROWS_KEPT) <= now;
    over || run.storage != Storage::Kept
}

/// Whether all rows that a run ever had are surely still there, so that they can be counted against its counters.
pub fn can_be_proved(job: &Job, run: &Run, now: Timestamp) -> bool {
    let deleted = job.status == JobStatus::Deleted || run.status == RunStatus::Deleted;
    let young = run.created.after(limits::ROWS_KEPT.saturating_sub(DAY)) > now;
    run.storage == Storage::Kept && !deleted && young
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{CallerId, JobId, RunId, TaskId};
    use crate::lifecycle::{self, Decision};
    use crate::task_input::TaskInput;

    fn day(n: i64) -> Timestamp {
        Timestamp(n * 24 * 3_600_000)
    }

    fn rows() -> Decision {
        let (job, run) = (JobId::from_bytes([1; 16]), RunId::from_bytes([2; 16]));
        let caller = CallerId::from_bytes([3; 16]);
        lifecycle::submit(job, run, caller, JobSpec::default(), false, 1, Timestamp(0))
    }

    fn task(status: TaskStatus) -> Task {
        Task {
            id: TaskId::of(RunId::from_bytes([2; 16]), 0),
            status,
            input: TaskInput::from_url("https://example.com/").unwrap(),
            result: None,
            error: None,
            class: None,
            created: Timestamp(0),
            updated: Timestamp(0),
        }
    }

    #[test]
    fn a_result_can_be_seen_for_as_long_as_its_job_says() {
        let spec = |days| JobSpec { result_ttl_days: days, ..JobSpec::default() };
        for (days, last) in [(None, 14), (Some(1), 1), (Some(30), 30), (Some(4_000), 30)] {
            let just_before = Timestamp(day(last).0 - 1);
            assert!(!is_expired(&task(TaskStatus::Successful), &spec(days), just_before), "{days:?}");
            assert!(is_expired(&task(TaskStatus::Successful), &spec(days), day(last)), "{days:?}");
        }
        assert!(
            !is_expired(&task(TaskStatus::Failed), &spec(None), day(100)),
            "an error has no body to lose"
        );
    }

    #[test]
    fn rows_are_over_thirty_days_after_the_end_removed_or_not() {
        let mut run = rows().run;
        assert!(!rows_are_over(&run, day(400)), "it has not ended");
        run.status = RunStatus::Completed;
        assert!(!rows_are_over(&run, Timestamp(day(30).0 - 1)));
        assert!(rows_are_over(&run, day(30)));
        run.storage = Storage::Removed;
        assert!(rows_are_over(&run, day(0)));
    }

    #[test]
    fn nothing_is_proved_from_rows_of_which_some_may_be_gone() {
        let Decision { job, run } = rows();
        assert!(can_be_proved(&job, &run, day(28)));
        assert!(!can_be_proved(&job, &run, day(29)));
        let not = |job: &Job, run: &Run| assert!(!can_be_proved(job, run, day(0)));
        not(&job, &Run { storage: Storage::Expired, ..run.clone() });
        not(&job, &Run { status: RunStatus::Deleted, ..run.clone() });
        not(&Job { status: JobStatus::Deleted, ..job.clone() }, &run);
    }
}
