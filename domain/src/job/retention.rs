//! How long things can be seen, and how long they are kept (SPEC 6.16). Whether something can be seen is a matter of the
//! time alone, not of whether anybody has removed it yet.

use crate::{Job, JobSpec, JobStatus, Run, RunStatus, Storage, Task, TaskStatus, Timestamp, limits};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// For how long the result of a task of this job can be seen.
pub fn result_ttl(spec: &JobSpec) -> Duration {
    DAY * spec.result_ttl_days.unwrap_or(limits::RESULT_TTL_DAYS).min(limits::RESULT_TTL_DAYS_MAX)
}

/// Whether it is a successful task whose result is past its time.
pub fn is_expired(task: &Task, spec: &JobSpec, now: Timestamp) -> bool {
    task.status == TaskStatus::Successful && task.ended().after(result_ttl(spec)) <= now
}

/// Whether it ended so long ago that nothing of it is kept, whatever its run does.
pub fn is_over(task: &Task, now: Timestamp) -> bool {
    task.status.is_terminal() && task.ended().after(limits::ROWS_KEPT) <= now
}

/// What is left of a run that ended so long ago that nothing of it is kept but what was counted.
pub fn rows_are_over(run: &Run, now: Timestamp) -> bool {
    let over = run.status.is_terminal() && run.updated.after(limits::ROWS_KEPT) <= now;
    over || run.storage != Storage::Kept
}

/// Whether all rows that a run ever had are surely still there, so that they can be counted against its counters.
/// `one_by_one`: the store removes each by itself, once its own time is over; otherwise they go with their run.
pub fn can_be_proved(job: &Job, run: &Run, one_by_one: bool, now: Timestamp) -> bool {
    let deleted = job.status == JobStatus::Deleted || run.status == RunStatus::Deleted;
    // A day earlier than that: clocks differ, and it takes its time.
    let kept = limits::ROWS_KEPT.saturating_sub(DAY);
    let some_may_be_gone = match run.status.is_terminal() && !one_by_one {
        true => run.updated.after(kept) <= now,
        false => one_by_one && run.created.after(kept) <= now,
    };
    run.storage == Storage::Kept && !deleted && !some_may_be_gone
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::lifecycle::Decision;
    use crate::{CallerId, JobId, RunId, TaskId, TaskInput, lifecycle};

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
            inherited: None,
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
    fn a_task_is_over_thirty_days_after_it_ended_however_long_its_run_goes_on() {
        for status in [TaskStatus::Successful, TaskStatus::Failed] {
            assert!(!is_over(&task(status), Timestamp(day(30).0 - 1)) && is_over(&task(status), day(30)));
        }
        assert!(!is_over(&task(TaskStatus::Pending), day(400)), "it is still to be done");
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
        assert!(can_be_proved(&job, &run, true, day(28)));
        assert!(!can_be_proved(&job, &run, true, day(29)), "its first rows may be gone");
        assert!(can_be_proved(&job, &run, false, day(400)), "they go with their run, which goes on");
        let ended = Run { status: RunStatus::Completed, updated: day(5), ..run.clone() };
        assert!(can_be_proved(&job, &ended, false, day(33)) && !can_be_proved(&job, &ended, false, day(34)));
        let not = |job: &Job, run: &Run| assert!(!can_be_proved(job, run, false, day(0)));
        not(&job, &Run { storage: Storage::Expired, ..run.clone() });
        not(&job, &Run { status: RunStatus::Deleted, ..run.clone() });
        not(&Job { status: JobStatus::Deleted, ..job.clone() }, &run);
    }
}
