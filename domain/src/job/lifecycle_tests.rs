use super::*;
use crate::{FailureClass, FailureRatio};
use proptest::prelude::*;

fn submitted(open: bool, tasks: u32) -> Decision {
    let id = |n| [n; 16];
    submit(
        JobId::from_bytes(id(1)),
        RunId::from_bytes(id(2)),
        CallerId::from_bytes(id(3)),
        JobSpec::default(),
        open,
        tasks,
        Timestamp(0),
    )
}

fn counts(successful: u32, failed: u32) -> Counts {
    let mut c = Counts { successful, ..Counts::default() };
    (0..failed).for_each(|_| c.add_failed(FailureClass::Other));
    c
}

fn add(count: u32, last_batch: bool) -> Command {
    Command::AddTasks { count, last_batch, run_tasks_max: 1_000 }
}

fn step(d: &Decision, c: Counts, command: &Command) -> Result<Decision, Refusal> {
    decide(&d.job, &d.run, &c, command, Timestamp(7))
}

#[test]
fn a_closed_job_completes_when_the_last_task_is_terminal() {
    let d = submitted(false, 3);
    assert_eq!(step(&d, counts(1, 1), &Command::Drained), Err(Refusal::NotDrained));
    let done = step(&d, counts(2, 1), &Command::Drained).unwrap();
    assert_eq!(done.run.status, RunStatus::Completed);
    assert_eq!(done.run.updated, Timestamp(7));
    assert_eq!(done.job.updated, Timestamp(0), "the job row did not change");
}

#[test]
fn an_open_job_rests_between_batches_and_completes_on_close() {
    let d = submitted(true, 2);
    let resting = step(&d, counts(2, 0), &Command::Drained).unwrap();
    assert_eq!(resting.run.status, RunStatus::Pending);
    let more = step(&resting, counts(2, 0), &add(1, false)).unwrap();
    assert_eq!((more.run.status, more.run.total), (RunStatus::Running, 3));
    let closed = step(&more, counts(2, 0), &Command::Close).unwrap();
    assert_eq!((closed.job.status, closed.run.status), (JobStatus::Closed, RunStatus::Running));
    let done = step(&closed, counts(3, 0), &Command::Drained).unwrap();
    assert_eq!(done.run.status, RunStatus::Completed);
}

#[test]
fn closing_an_idle_job_completes_its_run_at_once() {
    let empty = submitted(true, 0);
    assert_eq!(empty.run.status, RunStatus::Pending);
    let done = step(&empty, counts(0, 0), &Command::Close).unwrap();
    assert_eq!((done.job.status, done.run.status), (JobStatus::Closed, RunStatus::Completed));
    assert_eq!(step(&done, counts(0, 0), &Command::Close).unwrap(), done, "closing again changes nothing");
}

#[test]
fn tasks_are_refused_once_the_last_batch_came() {
    let d = step(&submitted(true, 1), counts(0, 0), &add(1, true)).unwrap();
    assert_eq!(step(&d, counts(0, 0), &add(1, false)), Err(Refusal::LastBatchReceived));
    assert_eq!(step(&submitted(false, 1), counts(0, 0), &add(1, false)), Err(Refusal::JobNotOpen));
    let stopped = step(&submitted(true, 1), counts(0, 0), &Command::Stop).unwrap();
    assert_eq!(step(&stopped, counts(0, 0), &add(1, false)), Err(Refusal::JobNotOpen));
    assert_eq!(step(&submitted(true, 999), counts(0, 0), &add(2, false)), Err(Refusal::RunTasksMax));
}

#[test]
fn stop_is_repeatable_but_only_on_a_stopped_run() {
    let stopped = step(&submitted(false, 5), counts(1, 0), &Command::Stop).unwrap();
    assert_eq!(stopped.run.status, RunStatus::Stopped);
    assert_eq!(step(&stopped, counts(1, 0), &Command::Stop).unwrap(), stopped);
    let done = step(&submitted(false, 1), counts(1, 0), &Command::Drained).unwrap();
    assert_eq!(step(&done, counts(1, 0), &Command::Stop), Err(Refusal::RunNotStoppable));
}

#[test]
fn the_first_account_fault_is_the_reason() {
    let fail =
        |reason| Command::FailRun { run: RunId::from_bytes([2; 16]), reason, detail: "é".repeat(600) };
    let failed = step(&submitted(false, 5), counts(0, 0), &fail(AccountFault::InsufficientCredits)).unwrap();
    assert_eq!(failed.run.failure.as_ref().unwrap().detail.chars().count(), 500);
    let again = step(&failed, counts(0, 0), &fail(AccountFault::ApiKeyCapReached)).unwrap();
    assert_eq!(again, failed);
}

/// A worker that still works on an earlier run meets an answer about the account: that is over, and not this run's matter.
#[test]
fn an_answer_that_an_earlier_run_met_does_not_fail_the_latest() {
    let d = submitted(false, 5);
    for reason in [AccountFault::InsufficientCredits, AccountFault::SubscriptionInactive] {
        let earlier = Command::FailRun { run: RunId::from_bytes([9; 16]), reason, detail: String::new() };
        assert_eq!(step(&d, counts(0, 0), &earlier).unwrap(), d);
    }
}

fn with_breaker(ratio: f64) -> Decision {
    let mut d = submitted(false, 1_000);
    d.job.spec = Arc::new(JobSpec { max_failure_ratio: FailureRatio::new(ratio), ..JobSpec::default() });
    d
}

#[test]
fn the_breaker_pauses_a_run_says_why_and_counts_anew_once_it_is_resumed() {
    let d = with_breaker(0.25);
    let trip = Command::Trip { run: d.run.id };
    assert_eq!(step(&d, counts(0, 19), &trip).unwrap(), d, "too few to tell");
    assert_eq!(step(&d, counts(60, 20), &trip).unwrap(), d, "not above it");
    let tripped = step(&d, counts(59, 20), &trip).unwrap();
    assert!(tripped.run.paused && tripped.run.status == RunStatus::Running);
    let reason = tripped.run.doc.pause.clone().unwrap();
    assert_eq!(reason.detail, "20 of 79 tasks failed, more than 0.25 of them.");
    assert_eq!(step(&tripped, counts(59, 30), &trip).unwrap(), tripped, "the first reason stands");
    assert_eq!(step(&tripped, counts(59, 20), &Command::Pause).unwrap(), tripped);
    let resumed = step(&tripped, counts(60, 30), &Command::Resume).unwrap();
    assert_eq!((resumed.run.paused, &resumed.run.doc.pause), (false, &None));
    assert_eq!(step(&resumed, counts(60, 30), &Command::Resume).unwrap(), resumed);
    assert_eq!(step(&resumed, counts(75, 35), &trip).unwrap(), resumed);
    assert!(step(&resumed, counts(60, 50), &trip).unwrap().run.paused);
}

#[test]
fn what_a_run_inherited_does_not_trip_its_breaker() {
    let mut d = with_breaker(0.25);
    d.run.doc.inherited = counts(0, 500);
    let trip = Command::Trip { run: d.run.id };
    assert_eq!(step(&d, counts(18, 504), &trip).unwrap(), d);
    let tripped = step(&d, counts(14, 507), &trip).unwrap();
    assert_eq!(tripped.run.doc.pause.unwrap().detail, "7 of 21 tasks failed, more than 0.25 of them.");
}

#[test]
fn the_breaker_leaves_alone_what_is_not_its_business() {
    let d = with_breaker(0.25);
    let bad = counts(0, 50);
    let other = Command::Trip { run: RunId::from_bytes([9; 16]) };
    assert_eq!(step(&d, bad, &other).unwrap(), d, "another run");
    let none = submitted(false, 1_000);
    let trip = Command::Trip { run: d.run.id };
    assert_eq!(step(&none, bad, &trip).unwrap(), none, "no ratio");
    let stopped = step(&d, bad, &Command::Stop).unwrap();
    assert_eq!(step(&stopped, bad, &trip).unwrap(), stopped, "it has ended");
    let paused = step(&d, bad, &Command::Pause).unwrap();
    assert_eq!(step(&paused, bad, &trip).unwrap(), paused, "somebody asked for the pause");
    let lifted = LimitsChange { max_failure_ratio: Some(None), ..LimitsChange::default() };
    let lifted = step(&d, bad, &Command::Limits(lifted)).unwrap();
    assert!(!step(&lifted, bad, &trip).unwrap().run.paused, "the ratio was taken away");
}

fn any_command() -> impl Strategy<Value = Command> {
    prop_oneof![
        (0u32..20, any::<bool>()).prop_map(|(n, last)| add(n, last)),
        Just(Command::Close),
        Just(Command::Stop),
        Just(Command::FailRun {
            run: RunId::from_bytes([2; 16]),
            reason: AccountFault::InsufficientCredits,
            detail: String::new()
        }),
        Just(Command::Trip { run: RunId::from_bytes([2; 16]) }),
        Just(Command::Pause),
        Just(Command::Resume),
        Just(Command::Drained),
        Just(Command::Delete),
    ]
}

proptest! {
    /// Whatever commands come, in whatever order, with whatever progress between them.
    #[test]
    fn no_sequence_of_commands_breaks_an_invariant(
        open: bool, first in 0u32..20,
        steps in proptest::collection::vec((any_command(), 0u32..10), 0..40),
    ) {
        let mut now = submitted(open, if open { first } else { first + 1 });
        let mut done = 0u32;
        let mut completions = 0;
        for (command, progress) in steps {
            done = (done + progress).min(now.run.total);
            let Ok(next) = step(&now, counts(done, 0), &command) else { continue };
            // Terminal is for ever, totals and latches never go back.
            if now.run.status.is_terminal() {
                prop_assert_eq!(next.run.status, now.run.status);
            }
            prop_assert!(next.run.total >= now.run.total);
            prop_assert!(next.run.latched >= now.run.latched);
            if now.job.status == JobStatus::Deleted {
                prop_assert_eq!(next.job.status, JobStatus::Deleted);
            }
            if next.run.status == RunStatus::Completed && now.run.status != RunStatus::Completed {
                completions += 1;
                prop_assert_eq!(done, next.run.total, "completed early");
                prop_assert!(next.run.latched);
            }
            // Repeating a command that is absolute changes nothing more.
            if !matches!(command, Command::AddTasks { .. })
                && let Ok(again) = step(&next, counts(done, 0), &command)
            {
                prop_assert_eq!(&again, &next);
            }
            now = next;
        }
        prop_assert!(completions <= 1);
    }
}

fn accepted(open: bool) -> Decision {
    let id = |n| [n; 16];
    let (job, run, caller) =
        (JobId::from_bytes(id(1)), RunId::from_bytes(id(2)), CallerId::from_bytes(id(3)));
    accept(job, run, caller, JobSpec::default(), open, Timestamp(0))
}

fn progress(total: u32) -> Command {
    Command::Ingest(IngestStep::Progress { total, next_index: total + 1, inherited: Counts::default() })
}

#[test]
fn a_run_is_latched_by_the_end_of_its_list_and_by_nothing_before() {
    let d = accepted(false);
    assert_eq!((d.run.status, d.run.latched, d.run.is_ingesting()), (RunStatus::Running, false, true));
    assert_eq!(step(&d, counts(0, 0), &Command::Drained), Err(Refusal::NotDrained));
    let d = step(&d, counts(0, 0), &progress(3)).unwrap();
    assert_eq!((d.run.total, d.run.next_index), (3, 4));
    let closed = step(&d, counts(3, 0), &Command::Close).unwrap();
    assert_eq!((closed.run.status, closed.run.latched), (RunStatus::Running, false));
    let done = step(&closed, counts(3, 0), &Command::Ingest(IngestStep::Latch)).unwrap();
    assert_eq!(
        (done.run.status, done.run.latched, done.run.is_ingesting()),
        (RunStatus::Completed, true, false)
    );
    let again = step(&done, counts(3, 0), &Command::Ingest(IngestStep::Latch));
    assert_eq!(again, Err(Refusal::NotIngesting));
}

#[test]
fn an_open_job_is_not_latched_by_its_list_but_by_a_close_while_it_was_read() {
    let d = accepted(true);
    assert_eq!(step(&d, counts(0, 0), &add(1, false)), Err(Refusal::Ingesting));
    let read = step(&d, counts(0, 0), &Command::Ingest(IngestStep::Latch)).unwrap();
    assert_eq!((read.job.status, read.run.latched), (JobStatus::Open, false));
    assert!(step(&read, counts(0, 0), &add(1, false)).is_ok());
    let closed = step(&d, counts(0, 0), &Command::Close).unwrap();
    assert_eq!((closed.job.status, closed.run.latched), (JobStatus::Closed, false));
    let read = step(&closed, counts(0, 0), &Command::Ingest(IngestStep::Latch)).unwrap();
    assert!(read.run.latched);
}

#[test]
fn a_run_that_ended_takes_nothing_but_its_cut() {
    let d = step(&accepted(false), counts(0, 0), &progress(5)).unwrap();
    let account = Command::FailRun {
        run: RunId::from_bytes([2; 16]),
        reason: AccountFault::InsufficientCredits,
        detail: String::new(),
    };
    for end in [Command::Stop, account] {
        let ended = step(&d, counts(1, 0), &end).unwrap();
        assert!(ended.run.is_ingesting() && ended.run.latched && ended.run.status.is_terminal());
        let fail = IngestStep::Fail { fault: ListFault::SourceCorrupt, detail: String::new() };
        for refused in [progress(6), Command::Ingest(IngestStep::Latch), Command::Ingest(fail)] {
            assert_eq!(step(&ended, counts(1, 0), &refused), Err(Refusal::RunEnded));
        }
        let cut = step(&ended, counts(1, 0), &Command::Ingest(IngestStep::Cut { total: 5 })).unwrap();
        assert_eq!((cut.run.status, cut.run.total, cut.run.is_ingesting()), (ended.run.status, 5, false));
    }
}

/// Whoever looks for changes since a moment must not miss one because its maker's clock was behind.
#[test]
fn a_late_change_does_not_set_the_time_back() {
    let d = submitted(true, 2);
    let limited = LimitsChange { max_inflight: Some(3), ..LimitsChange::default() };
    let limited = step(&d, counts(0, 0), &Command::Limits(limited)).unwrap();
    assert_eq!((limited.job.updated, limited.run.updated), (Timestamp(7), Timestamp(7)));
    let late = decide(&limited.job, &limited.run, &counts(0, 0), &Command::Close, Timestamp(5)).unwrap();
    assert_eq!((late.job.updated, late.run.updated), (Timestamp(7), Timestamp(7)));
}

#[test]
fn new_limits_do_not_move_the_end_of_a_run() {
    let ended = step(&submitted(false, 1), counts(1, 0), &Command::Drained).unwrap();
    let change = Command::Limits(LimitsChange { max_inflight: Some(3), ..LimitsChange::default() });
    let limited = decide(&ended.job, &ended.run, &counts(1, 0), &change, Timestamp(9)).unwrap();
    assert_eq!((limited.job.spec.max_inflight, limited.job.updated), (3, Timestamp(9)));
    assert_eq!(limited.run, ended.run);
}

#[test]
fn a_run_is_deleted_whatever_state_it_is_in_and_its_job_stays() {
    for status in RunStatus::ALL {
        let mut d = submitted(true, 2);
        d.run.status = status;
        let next = delete_run(&d.job, &d.run, false, Timestamp(9)).unwrap();
        assert_eq!(next.run.status, RunStatus::Deleted, "{status:?}");
        let again = delete_run(&next.job, &next.run, true, Timestamp(10)).unwrap();
        assert_eq!(again, next, "repeating it changes nothing");
    }
    let d = submitted(true, 2);
    let next = delete_run(&d.job, &d.run, false, Timestamp(9)).unwrap();
    assert_eq!((next.job.status, next.run.latched), (JobStatus::Closed, true));
    let mut later = d.clone();
    later.job.latest_run = RunId::from_bytes([9; 16]);
    let earlier = delete_run(&later.job, &later.run, false, Timestamp(9)).unwrap();
    assert_eq!(earlier.job, later.job, "only the latest run takes tasks");
}

#[test]
fn a_run_that_others_point_to_stays() {
    let d = submitted(false, 2);
    assert_eq!(delete_run(&d.job, &d.run, true, Timestamp(9)), Err(Refusal::RunHasDescendants));
}

#[test]
fn a_run_of_a_deleted_job_goes_with_its_job() {
    let mut d = submitted(false, 2);
    d.run.status = RunStatus::Failed;
    let deleted = decide(&d.job, &d.run, &counts(0, 0), &Command::Delete, Timestamp(9)).unwrap();
    assert_eq!(deleted.run.status, RunStatus::Failed);
    assert_eq!(
        delete_run(&deleted.job, &deleted.run, false, Timestamp(10)),
        Err(Refusal::JobDeleted),
        "nothing is written to a job that is being removed"
    );
}

mod scheduled {
    use super::*;
    use crate::schedule::calendar::{Interval, Rule, Unit};
    use crate::{JobSchedule, LifecycleEvent, Schedule, ScheduleChange, ScheduleState, Trigger, timeline};

    const DUE: Timestamp = Timestamp(60_000);

    fn unfired() -> Job {
        let run = RunId::from_bytes([2; 16]);
        let rule = Rule::Rate(Interval::new(1, Unit::Minute).unwrap());
        let schedule = JobSchedule::new(Schedule { rule, timezone: None }, run, None, Timestamp(0));
        let spec = JobSpec { schedule: Some(schedule), ..JobSpec::default() };
        let (job, caller) = (JobId::from_bytes([1; 16]), CallerId::from_bytes([3; 16]));
        super::scheduled(job, run, caller, spec, 2, Timestamp(0))
    }

    /// The same job behind its first fire.
    fn fired() -> Decision {
        let job = unfired();
        let spec = JobSpec::clone(&job.spec);
        let run = submit(job.id, job.latest_run, job.caller, spec, false, 2, Timestamp(0)).run;
        Decision { job, run }
    }

    #[test]
    fn a_job_that_never_fired_has_nothing_to_steer() {
        let made = unfired();
        let step = |job: &Job, command: &Command| {
            decide_latest(job, None, &Counts::default(), command, Timestamp(7)).map(|(job, run)| {
                assert_eq!(run, None);
                job
            })
        };
        assert_eq!(step(&made, &add(1, false)), Err(Refusal::JobNotOpen));
        assert_eq!(step(&made, &Command::Close), Err(Refusal::JobNotOpen));
        assert_eq!(step(&made, &Command::Stop), Err(Refusal::NothingToStop));
        for command in [Command::Pause, Command::Resume] {
            assert_eq!(step(&made, &command), Err(Refusal::NothingToPause));
        }
        assert_eq!(step(&made, &Command::Drained), Err(Refusal::NotDrained));
        let deleted = step(&made, &Command::Delete).unwrap();
        assert_eq!((deleted.status, deleted.updated), (JobStatus::Deleted, Timestamp(7)));
        let turn = Command::Schedule(ScheduleChange::State(ScheduleState::Paused));
        assert_eq!(step(&deleted, &turn), Err(Refusal::JobDeleted));
        for command in [add(1, false), Command::Close, Command::Stop, Command::Pause, Command::Resume] {
            assert_eq!(step(&deleted, &command), Err(Refusal::JobDeleted));
        }
        assert_eq!(step(&made, &turn).unwrap().spec.schedule.as_ref().unwrap().due(), None);
        assert_eq!(super::step(&submitted(false, 1), counts(0, 0), &turn), Err(Refusal::JobNotScheduled));
    }

    #[test]
    fn the_row_of_a_template_is_that_of_a_run_that_was_stopped() {
        let job = unfired();
        let row = job.template().unwrap().stored();
        let run = submit(job.id, job.latest_run, job.caller, JobSpec::default(), false, 2, Timestamp(0)).run;
        assert_eq!(row, Run { sequence: 0, status: RunStatus::Stopped, ..run });
    }

    #[test]
    fn a_fire_is_skipped_only_while_a_run_goes_on_and_once() {
        let skip = Command::Schedule(ScheduleChange::Skip { seen: DUE });
        let decided = |rows: &Decision| decide(&rows.job, &rows.run, &Counts::default(), &skip, DUE);
        let without = decide_latest(&unfired(), None, &Counts::default(), &skip, DUE);
        assert_eq!(without, Err(Refusal::FireIsOver), "there is a run to be made");
        let mut rows = fired();
        let next = decided(&rows).unwrap();
        let events = timeline::changes((&rows.job, Some(&rows.run)), (&next.job, Some(&next.run)));
        let later = Some(Timestamp(120_000));
        assert_eq!(events, [LifecycleEvent::ScheduleSkipped { due: DUE, next: later }]);
        assert_eq!(decided(&next), Err(Refusal::FireIsOver));
        rows.run.ingest = Some(IngestStatus::Pending);
        rows.run.status = RunStatus::Stopped;
        assert!(decided(&rows).is_ok(), "its list is still read");
    }

    #[test]
    fn a_job_with_a_schedule_takes_no_tasks_whatever_its_run_does() {
        let rows = fired();
        assert_eq!(step(&rows, counts(0, 0), &add(1, false)), Err(Refusal::JobNotOpen));
        assert_eq!(step(&rows, counts(0, 0), &Command::Close), Err(Refusal::JobNotOpen));
    }

    #[test]
    fn a_run_that_was_deleted_while_its_list_was_read_keeps_nothing_from_firing() {
        let mut rows = fired();
        let schedule = rows.job.spec.schedule.clone().unwrap();
        rows.run.ingest = Some(IngestStatus::Pending);
        let (new, _) = schedule.run_of_fire(DUE, rows.run.id, None);
        assert_eq!(start_run(&rows.job, Some(&rows.run), &new, DUE), Err(Refusal::RunNotTerminal));
        let deleted = delete_run(&rows.job, &rows.run, false, Timestamp(1)).unwrap();
        let started = start_run(&deleted.job, Some(&deleted.run), &new, DUE).unwrap();
        assert_eq!((started.run.sequence, started.run.doc.trigger), (2, Trigger::Scheduled));
        let skip = Command::Schedule(ScheduleChange::Skip { seen: DUE });
        let skipped = decide(&deleted.job, &deleted.run, &Counts::default(), &skip, DUE);
        assert_eq!(skipped, Err(Refusal::FireIsOver));
    }

    #[test]
    fn whoever_sees_the_same_fire_makes_the_same_run_and_every_fire_another() {
        let job = unfired();
        let schedule = job.spec.schedule.clone().unwrap();
        let (one, _) = schedule.run_of_fire(DUE, job.latest_run, None);
        let (same, _) = schedule.run_of_fire(DUE, job.latest_run, None);
        assert_eq!(one, same);
        let next = schedule.fired(DUE, DUE).unwrap();
        let (other, _) = next.run_of_fire(next.next.unwrap(), one.id, None);
        assert!(other.id != one.id && other.id > one.id, "later ones sort behind");
        let started = start_run(&job, None, &one, DUE).unwrap();
        assert_eq!(started.run.sequence, 1);
        assert_eq!(started.run.id_seed, job.latest_run, "its tasks have the ids of the template");
        let again = start_run(&started.job, Some(&started.run), &one, DUE);
        assert_eq!(again, Err(Refusal::RunNotTerminal));
        let ended = Run { status: RunStatus::Completed, ingest: None, ..started.run.clone() };
        let twice = start_run(&started.job, Some(&ended), &NewRun { after: started.run.id, ..one }, DUE);
        assert_eq!(twice, Err(Refusal::FireIsOver));
    }
}
