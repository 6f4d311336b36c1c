//! Schedules that a clock which was days ahead has put off (SPEC 6.26): each is computed anew, once, and nothing fires twice.

use crate::on_disk::{NOW, OnDisk};
use conveyor_domain::schedule::calendar::{Interval, Rule, Unit};
use conveyor_domain::{
    Command, JobEvent, JobId, JobSchedule, JobSpec, LifecycleEvent, QueueName, RecordKind, RunId, Schedule,
    ScheduleChange, ScheduleState, Timestamp, lifecycle,
};
use conveyor_store::Backend;
use conveyor_store::conformance::{Harness, World};
use conveyor_store::port::{StartRun, Submission};
use rusqlite::Connection;

const MINUTE_MS: i64 = 60_000;
const AHEAD: Timestamp = Timestamp(NOW.0 + 60 * 24 * 60 * MINUTE_MS);

fn minutes(n: i64) -> Timestamp {
    Timestamp(NOW.0 + n * MINUTE_MS)
}

/// A job that fires every minute, made at that time.
async fn scheduled(world: &World, made: Timestamp) -> JobId {
    let (job, run) = (JobId::new(made, &world.entropy), RunId::new(made, &world.entropy));
    let rule = Rule::Rate(Interval::new(1, Unit::Minute).unwrap());
    let schedule = JobSchedule::new(Schedule { rule, timezone: None }, run, None, made);
    let spec = JobSpec { schedule: Some(schedule), ..JobSpec::default() };
    let made = lifecycle::scheduled(job, run, world.caller, spec, 0, made);
    let submission = Submission { job: made, run: None, tasks: Vec::new(), list: None, once: None };
    world.backend.store.submit(submission).await.unwrap();
    job
}

async fn schedule_of(backend: &Backend, job: JobId) -> JobSchedule {
    backend.store.job(None, job).await.unwrap().unwrap().job.spec.schedule.clone().unwrap()
}

/// What is due comes to pass at that time, as a sweeper has it.
async fn fire(backend: &Backend, job: JobId, now: Timestamp) {
    let view = backend.store.job(None, job).await.unwrap().unwrap();
    let schedule = view.job.spec.schedule.as_ref().unwrap();
    let (run, first) = schedule.run_of_fire(schedule.due().unwrap(), view.job.latest_run, None);
    let start = StartRun { job, run, tasks: Vec::new(), log: Some(first), once: None };
    backend.store.start_run(start, now).await.unwrap();
}

async fn set_back(backend: &Backend, now: Timestamp) {
    backend.queue.may_have(vec![QueueName::Control], now).await.unwrap();
}

async fn changes(backend: &Backend, job: JobId) -> usize {
    let events = backend.store.events(job, 0, 99).await.unwrap();
    let changed =
        |event: &JobEvent| matches!(event, JobEvent::Lifecycle(LifecycleEvent::ScheduleChanged { .. }));
    events.iter().filter(|entry| changed(&entry.event)).count()
}

#[tokio::test]
async fn schedules_go_on_once_the_clock_is_right_and_not_twice() {
    let harness = OnDisk::new();
    let world = World::new(harness.backend());
    let backend = &world.backend;
    let (job, paused) = (scheduled(&world, NOW).await, scheduled(&world, NOW).await);
    let pause = Command::Schedule(ScheduleChange::State(ScheduleState::Paused));
    backend.store.changed_runs(None, AHEAD).await.unwrap();
    fire(backend, job, AHEAD).await;
    backend.store.apply(paused, pause, AHEAD).await.unwrap();
    let made_meanwhile = scheduled(&world, AHEAD).await;
    assert!(schedule_of(backend, job).await.next.unwrap() > AHEAD, "it waits for 60 days");

    set_back(backend, minutes(1)).await;
    for found in [job, made_meanwhile] {
        let schedule = schedule_of(backend, found).await;
        assert_eq!(schedule.due(), Some(minutes(2)));
        assert_eq!(changes(backend, found).await, 1, "the timeline says so");
    }
    assert_eq!(schedule_of(backend, job).await.fired, 1);
    assert_eq!(schedule_of(backend, paused).await.due(), None);
    let due = backend.store.due_records(RecordKind::ScheduledJob, minutes(2), 9).await.unwrap();
    assert_eq!(due.len(), 2, "both are found when they are due");
    set_back(backend, minutes(1)).await;
    assert_eq!(changes(backend, job).await, 1);

    // A fire that was decided before the clock was set back, and is written after it.
    fire(backend, made_meanwhile, AHEAD).await;
    assert!(schedule_of(backend, made_meanwhile).await.next.unwrap() > AHEAD);
    set_back(backend, minutes(2)).await;
    assert_eq!(schedule_of(backend, made_meanwhile).await.due(), Some(minutes(3)));
    assert_eq!(schedule_of(backend, job).await.due(), Some(minutes(2)), "it is due, and not lost");
}

#[tokio::test]
async fn schedules_are_computed_anew_when_the_directory_is_opened_except_what_cannot_be_read() {
    let harness = OnDisk::new();
    let world = World::new(harness.backend());
    let jobs = [scheduled(&world, minutes(-5)).await, scheduled(&world, minutes(-5)).await];
    for job in jobs {
        fire(&world.backend, job, AHEAD).await;
    }
    // A slewed clock was ahead by less: this fire was that of its moment.
    let early = scheduled(&world, minutes(-1)).await;
    fire(&world.backend, early, minutes(30)).await;
    let database = Connection::open(harness.dir.path().join("conveyor.db")).unwrap();
    let changed =
        database.execute("UPDATE jobs SET doc = 'garbage' WHERE job_id = ?1", [jobs[0].to_bytes()]).unwrap();
    assert_eq!(changed, 1);
    let opened = harness.crash().await;
    let opened = opened.backend();
    assert_eq!(schedule_of(&opened, jobs[1]).await.due(), Some(minutes(1)));
    assert_eq!(schedule_of(&opened, early).await.due(), Some(minutes(31)));
}
