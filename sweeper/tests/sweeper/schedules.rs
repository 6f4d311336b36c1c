//! Schedules that are due (SPEC 6.20), on a clock that is moved.

use crate::harness::{DAY, Damaged, SECOND};
use conveyor_domain::ingest::Source;
use conveyor_domain::repair::{Kind, Subject};
use conveyor_domain::schedule::calendar::{Interval, Rule, Unit};
use conveyor_domain::{
    Command, IngestEvent, IngestState, JobEvent, JobId, JobSchedule, JobSpec, LifecycleEvent, RunId,
    Schedule, ScheduleChange, ScheduleState, lifecycle,
};
use conveyor_store::conformance::World;
use conveyor_store::port::{BlobKey, Reader, RunKey, RunsQuery, Submission};
use futures::TryStreamExt;

const HOUR: i64 = 3_600 * SECOND;

async fn hourly(damaged: &Damaged, source: Option<Source>) -> JobId {
    let world = &damaged.world;
    let (job, run) = (JobId::new(world.now(), &world.entropy), RunId::new(world.now(), &world.entropy));
    let rule = Rule::Rate(Interval::new(1, Unit::Hour).unwrap());
    let tasks = if source.is_some() { 0 } else { 2 };
    let schedule = JobSchedule::new(Schedule { rule, timezone: None }, run, source, world.now());
    let spec = JobSpec { schedule: Some(schedule), ..JobSpec::default() };
    let made = lifecycle::scheduled(job, run, world.caller, spec, tasks, world.now());
    let tasks = (0..).zip(World::inputs(tasks)).collect();
    let submission = Submission { job: made, run: None, tasks, list: None, once: None };
    damaged.backend().store.submit(submission).await.unwrap();
    job
}

/// Runs of the job, the newest first.
async fn runs(damaged: &Damaged, job: JobId) -> Vec<RunKey> {
    let runs = damaged.backend().store.runs(RunsQuery::newest(job, 99)).await.unwrap().rows;
    runs.iter().map(|view| RunKey { job, run: view.run.id }).collect()
}

async fn schedule(damaged: &Damaged, job: JobId) -> JobSchedule {
    let view = damaged.backend().store.job(None, job).await.unwrap().unwrap();
    view.job.spec.schedule.clone().unwrap()
}

/// Ends a run whose tasks nobody read.
async fn end(damaged: &Damaged, key: RunKey) {
    let store = &damaged.backend().store;
    store.apply(key.job, Command::Stop, damaged.world.now()).await.unwrap();
    let ingest = store.ingest(key, Reader::Role).await.unwrap().unwrap();
    let cut = IngestState::fold(&ingest.log).unwrap().entry(IngestEvent::Cut { total: 0 }).unwrap();
    store.append(key, cut, damaged.world.now()).await.unwrap();
}

#[tokio::test]
async fn a_fire_makes_one_run_and_what_was_missed_is_one_fire() {
    let damaged = Damaged::new();
    let job = hourly(&damaged, None).await;
    damaged.sweep().await;
    assert_eq!(runs(&damaged, job).await, [], "it is not time");
    damaged.pass(HOUR);
    let before = damaged.dump();
    let found = damaged.findings().await;
    assert_eq!(damaged.dump(), before, "looking changes nothing");
    let [finding] = &found[..] else { panic!("{found:?}") };
    assert_eq!(
        (finding.repair, finding.kind, finding.subject),
        ("due_schedules", Kind::Upkeep, Subject::Job(job))
    );
    damaged.sweep().await;
    damaged.sweep().await;
    let [first] = runs(&damaged, job).await[..] else { panic!() };
    end(&damaged, first).await;
    damaged.pass(5 * HOUR + SECOND);
    damaged.sweep().await;
    damaged.sweep().await;
    assert_eq!(runs(&damaged, job).await.len(), 2, "five hours without anybody: once");
    let now = schedule(&damaged, job).await;
    assert_eq!((now.fired, now.skipped), (2, 0));
    assert_eq!(now.next.unwrap().0 - damaged.world.now().0, HOUR - SECOND, "in step");
}

#[tokio::test]
async fn a_fire_over_a_run_that_goes_on_is_skipped_and_said_so() {
    let damaged = Damaged::new();
    let job = hourly(&damaged, None).await;
    damaged.pass(HOUR);
    damaged.sweep().await;
    damaged.pass(HOUR);
    damaged.sweep().await;
    let [first] = runs(&damaged, job).await[..] else { panic!() };
    let now = schedule(&damaged, job).await;
    assert_eq!((now.fired, now.skipped), (1, 1));
    let events = damaged.backend().store.events(job, 0, 99).await.unwrap();
    let skipped =
        |event: &JobEvent| matches!(event, JobEvent::Lifecycle(LifecycleEvent::ScheduleSkipped { .. }));
    assert_eq!(events.iter().filter(|entry| skipped(&entry.event)).count(), 1);
    assert!(events.iter().any(|entry| skipped(&entry.event) && entry.run == first.run));
}

#[tokio::test]
async fn nothing_of_a_paused_schedule_is_found() {
    let damaged = Damaged::new();
    let job = hourly(&damaged, None).await;
    let pause = Command::Schedule(ScheduleChange::State(ScheduleState::Paused));
    damaged.backend().store.apply(job, pause, damaged.world.now()).await.unwrap();
    damaged.pass(40 * DAY);
    assert_eq!(damaged.findings().await, []);
    damaged.sweep().await;
    assert_eq!(runs(&damaged, job).await, []);
}

#[tokio::test]
async fn a_template_outlives_its_runs() {
    let damaged = Damaged::new();
    let job = hourly(&damaged, None).await;
    damaged.pass(HOUR);
    damaged.sweep().await;
    let [first] = runs(&damaged, job).await[..] else { panic!() };
    end(&damaged, first).await;
    damaged.pass(400 * DAY);
    damaged.sweep().await;
    let template = schedule(&damaged, job).await.template;
    let query = conveyor_store::port::TasksQuery {
        key: RunKey { job, run: template },
        filter: conveyor_store::port::StatusFilter::All,
        after: None,
        limit: 9,
        max_bytes: usize::MAX,
    };
    assert_eq!(damaged.backend().store.tasks(query).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_list_is_copied_to_a_place_of_its_own_and_goes_with_its_job() {
    let damaged = Damaged::new();
    let (world, store) = (&damaged.world, &damaged.backend().store);
    let upload = world.upload().await;
    let staged = world.staged("list", b"https://a.example/\n").await;
    store.put_staged(upload.id, staged.clone(), None, world.now()).await.unwrap();
    let source = world.acceptance(&upload, &staged).list.unwrap().source;
    let job = hourly(&damaged, Some(source.clone())).await;
    damaged.sweep().await;
    let kept = schedule(&damaged, job).await.source.unwrap();
    let prefix = BlobKey::template_prefix(job).to_string();
    assert!(kept.staged.object.starts_with(&prefix) && kept.upload == source.upload, "{kept:?}");
    let blobs = &damaged.backend().blobs;
    let key: BlobKey = kept.staged.object.parse().unwrap();
    let bytes: Vec<_> =
        blobs.read_pinned(&key, &kept.staged.etag, 0).await.unwrap().try_collect().await.unwrap();
    assert_eq!(bytes.concat(), b"https://a.example/\n");
    assert_eq!(damaged.findings().await, [], "once");
    let events = store.events(job, 0, 9).await.unwrap();
    assert_eq!(events.len(), 1, "it is nothing that a caller has to know: {events:?}");

    damaged.pass(HOUR);
    damaged.sweep().await;
    let [first] = runs(&damaged, job).await[..] else { panic!() };
    let ingest = store.ingest(first, Reader::Role).await.unwrap().unwrap();
    assert_eq!(ingest.log[0].event, IngestEvent::Accepted { source: kept });
    store.apply(job, Command::Delete, world.now()).await.unwrap();
    damaged.sweep().await;
    damaged.sweep().await;
    assert!(store.job(None, job).await.unwrap().is_none());
    assert!(blobs.list(&BlobKey::template_prefix(job), None, 9).await.unwrap().is_empty());
}
