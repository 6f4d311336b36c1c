//! Rules of scheduled jobs (SPEC 6.20).

use super::world::{CLAIMS_MAX, must};
use super::{Harness, World};
use crate::port::{
    Appended, Chore, Claim, Error, JobView, JobsQuery, Reader, Removal, RunKey, RunsQuery, StartRun,
    StatusFilter, Submission, TasksQuery,
};
use conveyor_domain::ingest::Source;
use conveyor_domain::job::beside::scheduled_job_key;
use conveyor_domain::schedule::calendar::{Interval, Rule, Unit};
use conveyor_domain::{
    ClaimToken, Command, IngestEvent, IngestState, JobEvent, JobId, JobSchedule, JobSpec, LifecycleEvent,
    Origin, QueueName, RecordKind, Refusal, RunId, RunStatus, Schedule, ScheduleChange, ScheduleState,
    TaskId, TaskRef, Trigger, lifecycle,
};
use std::time::Duration;

const MINUTE_MS: i64 = 60_000;
const YEAR_MS: i64 = 366 * 24 * 60 * MINUTE_MS;

fn every_minute() -> Schedule {
    Schedule { rule: Rule::Rate(Interval::new(1, Unit::Minute).expect("an interval")), timezone: None }
}

/// A job that fires every minute, and the run that keeps its tasks.
pub(super) fn submission(world: &World, tasks: u32, source: Option<Source>) -> Submission {
    let (job, run) = (JobId::new(world.now(), &world.entropy), RunId::new(world.now(), &world.entropy));
    let schedule = JobSchedule::new(every_minute(), run, source, world.now());
    let task_shard_count = world.backend.capabilities.sharding.task_shards(u64::from(tasks), false);
    let spec = JobSpec { task_shard_count, schedule: Some(schedule), ..JobSpec::default() };
    let job = lifecycle::scheduled(job, run, world.caller, spec, tasks, world.now());
    Submission { job, run: None, tasks: (0..).zip(World::inputs(tasks)).collect(), list: None, once: None }
}

pub(super) async fn scheduled(world: &World, tasks: u32) -> RunKey {
    let submission = submission(world, tasks, None);
    let key = RunKey { job: submission.job.id, run: submission.job.latest_run };
    must(world.backend.store.submit(submission).await);
    key
}

/// What is due of schedules, by their jobs.
pub(super) async fn due(world: &World) -> Vec<String> {
    let records = must(world.backend.store.due_records(RecordKind::ScheduledJob, world.now(), 99).await);
    records.into_iter().map(|record| record.key.id).collect()
}

pub async fn a_template_is_kept_and_nobody_sees_or_works_on_it(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = scheduled(&world, 3).await;
    let (store, queue) = (&world.backend.store, &world.backend.queue);
    assert_eq!(must(store.run(key.job, key.run).await), None);
    assert!(must(store.runs(RunsQuery::newest(key.job, 9)).await).rows.is_empty());
    assert!(
        must(store.changed_runs(None, world.now()).await)
            .active
            .iter()
            .all(|active| active.run.id != key.run)
    );
    let depth = must(queue.depth(QueueName::Run(key.run), Reader::Role, world.now()).await);
    assert_eq!(depth.visible + depth.hidden, 0);
    let task = TaskRef { task: TaskId::of(key.run, 0), task_shard_count: 1 };
    let claims = vec![(task, ClaimToken::new(&world.entropy))];
    assert_eq!(must(store.claim(key, claims, CLAIMS_MAX, world.now()).await), [Claim::Gone]);
    assert!(matches!(store.delete_run(key, world.now()).await, Err(Error::NotFound)));
    assert!(world.due_runs(Chore::EndedQueues, 99).await.iter().all(|ended| *ended != key));
    // But whoever makes runs of it finds its tasks.
    let query = TasksQuery { key, filter: StatusFilter::All, after: None, limit: 9, max_bytes: usize::MAX };
    assert_eq!(must(store.tasks(query).await).len(), 3);
    let view = world.view(key).await;
    assert_eq!((view.latest, view.job.latest_run), (None, key.run));
}

pub async fn a_template_is_not_removed_by_age_and_goes_with_its_job(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = scheduled(&world, 3).await;
    let store = &world.backend.store;
    world.pass(YEAR_MS);
    assert!(
        world
            .due_runs(Chore::ExpiredRuns { ended_before: world.now() }, 99)
            .await
            .iter()
            .all(|expired| *expired != key)
    );
    assert_eq!(must(store.remove_rows(Removal::Run(key), 99).await), 0);
    must(store.apply(key.job, Command::Delete, world.now()).await);
    super::retention::sweep(&world).await;
    super::retention::sweep(&world).await;
    assert_eq!(must(store.job(None, key.job).await), None);
    assert_eq!(must(store.task(key, TaskId::of(key.run, 0)).await), None);
    assert_eq!(must(store.record(&scheduled_job_key(world.caller, key.job)).await), None);
}

pub async fn a_schedule_is_found_when_it_is_due_and_not_while_it_is_paused(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = scheduled(&world, 1).await;
    let store = &world.backend.store;
    assert!(due(&world).await.is_empty());
    world.pass(MINUTE_MS);
    assert_eq!(due(&world).await, [key.job.to_string()]);
    let turn = |state| Command::Schedule(ScheduleChange::State(state));
    must(store.apply(key.job, turn(ScheduleState::Paused), world.now()).await);
    assert!(due(&world).await.is_empty());
    must(store.apply(key.job, turn(ScheduleState::Active), world.now()).await);
    assert!(due(&world).await.is_empty(), "what was missed stays missed");
    world.pass(MINUTE_MS);
    assert_eq!(due(&world).await, [key.job.to_string()]);
    let crashed = harness.crash().await;
    let world = world.on(crashed.backend());
    assert_eq!(due(&world).await, [key.job.to_string()]);
    must(world.backend.store.apply(key.job, Command::Delete, world.now()).await);
    assert!(due(&world).await.is_empty());
}

pub async fn changes_of_a_schedule_are_in_the_timeline(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = scheduled(&world, 1).await;
    let store = &world.backend.store;
    let paused = Command::Schedule(ScheduleChange::State(ScheduleState::Paused));
    must(store.apply(key.job, paused.clone(), world.now()).await);
    must(store.apply(key.job, paused, world.now()).await);
    let regular = world.submit(false, 1).await;
    let rule = Command::Schedule(ScheduleChange::Rule(every_minute()));
    let refused = store.apply(regular.job, rule, world.now()).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::JobNotScheduled))));
    let events = must(store.events(key.job, 0, 9).await);
    let changed = |event: &JobEvent| {
        matches!(
            event,
            JobEvent::Lifecycle(LifecycleEvent::ScheduleChanged { state: ScheduleState::Paused, .. })
        )
    };
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(changed(&events[1].event), "{events:?}");
}

pub async fn jobs_are_listed_with_or_without_a_schedule(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = scheduled(&world, 1).await;
    world.pass(1);
    let regular = world.submit(false, 1).await;
    for (asked, expected) in
        [(None, vec![regular.job, key.job]), (Some(true), vec![key.job]), (Some(false), vec![regular.job])]
    {
        let query = JobsQuery {
            caller: world.caller,
            status: None,
            scheduled: asked,
            before: None,
            limit: 9,
            look: 9,
        };
        let found = must(world.backend.store.jobs(query).await).rows;
        assert_eq!(found.iter().map(|view| view.job.id).collect::<Vec<_>>(), expected, "{asked:?}");
    }
}

pub async fn a_list_of_a_template_is_claimed_for_as_long_as_its_job(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let upload = world.upload().await;
    let staged = world.staged("list", b"https://a.example/\n").await;
    let store = &world.backend.store;
    must(store.put_staged(upload.id, staged.clone(), None, world.now()).await);
    let source = world.acceptance(&upload, &staged).list.expect("a list").source;
    let submission = submission(&world, 0, Some(source));
    let job = submission.job.id;
    must(store.submit(submission).await);
    let claimed =
        async || must(store.upload(world.caller, upload.id, world.now()).await).is_some_and(|u| u.claimed);
    assert!(claimed().await);
    world.pass(YEAR_MS);
    assert!(world.expired_uploads(world.now()).await.is_empty(), "it is needed");
    must(store.apply(job, Command::Delete, world.now()).await);
    super::retention::sweep(&world).await;
    super::retention::sweep(&world).await;
    assert!(!claimed().await);
}

/// What begins a run because of a fire that was seen.
async fn fire(world: &World, job: JobId) -> Result<JobView, Error> {
    let view = must(world.backend.store.job(None, job).await).expect("a job");
    let schedule = view.job.spec.schedule.as_ref().expect("a schedule");
    let seen = schedule.next.expect("something to fire");
    let (run, first) = schedule.run_of_fire(seen, view.job.latest_run, None);
    let start = StartRun { job, run, tasks: Vec::new(), log: Some(first), once: None };
    world.backend.store.start_run(start, world.now()).await
}

async fn kinds(world: &World, job: JobId) -> Vec<&'static str> {
    let events = must(world.backend.store.events(job, 0, 99).await);
    let kind = |event: &JobEvent| match event {
        JobEvent::Lifecycle(event) => event.kind(),
        JobEvent::Ingest(event) => event.name(),
    };
    events.iter().map(|entry| kind(&entry.event)).collect()
}

pub async fn a_fire_makes_a_run_of_the_template_and_moves_the_schedule_on(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = scheduled(&world, 3).await;
    assert!(matches!(fire(&world, key.job).await, Err(Error::Refused(Refusal::FireIsOver))), "not yet");
    world.pass(10 * MINUTE_MS + 5);
    let view = must(fire(&world, key.job).await);
    let run = &view.latest_run().run;
    assert_eq!((run.sequence, run.id_seed, run.doc.trigger), (1, key.run, Trigger::Scheduled));
    assert!(run.is_ingesting() && run.status == RunStatus::Running);
    let schedule = view.job.spec.schedule.as_ref().expect("a schedule");
    assert_eq!((schedule.fired, schedule.next.map(|next| next > world.now())), (1, Some(true)));
    assert!(due(&world).await.is_empty(), "what was missed fired once");
    assert_eq!(kinds(&world, key.job).await, ["job.submitted", "schedule.fired", "run.started", "replaying"]);
    // Its tasks are read from the template, and have its ids.
    let started = RunKey { job: key.job, run: run.id };
    let ingest = must(world.backend.store.ingest(started, Reader::Role).await).expect("an ingest");
    let state = must(IngestState::fold(&ingest.log));
    assert!(matches!(state.origin, Origin::Run(replay) if replay.run == key.run));
    let calls =
        must(world.backend.queue.receive(QueueName::Control, 9, Duration::from_secs(9), world.now()).await);
    assert!(calls.iter().any(|message| message.body.contains(&run.id.to_string())), "{calls:?}");
    assert_eq!(must(world.backend.store.runs(RunsQuery::newest(key.job, 9)).await).rows.len(), 1);
}

pub async fn of_many_who_fire_at_once_one_makes_a_run(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = scheduled(&world, 1).await;
    world.pass(MINUTE_MS);
    let fires = futures::future::join_all((0..20).map(|_| fire(&world, key.job))).await;
    for outcome in fires {
        match outcome {
            Ok(view) => assert_eq!(view.latest_run().run.sequence, 1),
            Err(Error::Refused(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let runs = must(world.backend.store.runs(RunsQuery::newest(key.job, 9)).await).rows;
    assert_eq!(runs.len(), 1);
    let view = world.view(key).await;
    assert_eq!(view.job.spec.schedule.as_ref().map(|schedule| schedule.fired), Some(1));
    let fired = kinds(&world, key.job).await.into_iter().filter(|kind| *kind == "schedule.fired").count();
    assert_eq!(fired, 1);
}

pub async fn a_fire_over_a_live_run_is_skipped_once_and_recorded(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = scheduled(&world, 1).await;
    let store = &world.backend.store;
    world.pass(MINUTE_MS);
    must(fire(&world, key.job).await);
    world.pass(MINUTE_MS);
    let refused = fire(&world, key.job).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::RunNotTerminal))), "{refused:?}");
    let skip = Command::Schedule(ScheduleChange::Skip { seen: world.now() });
    let skips =
        futures::future::join_all((0..5).map(|_| store.apply(key.job, skip.clone(), world.now()))).await;
    assert_eq!(skips.iter().filter(|skip| skip.is_ok()).count(), 1, "{skips:?}");
    let view = world.view(key).await;
    let schedule = view.job.spec.schedule.as_ref().expect("a schedule");
    assert_eq!((schedule.fired, schedule.skipped), (1, 1));
    assert_eq!(kinds(&world, key.job).await.last(), Some(&"schedule.skipped"));
    assert_eq!(must(store.runs(RunsQuery::newest(key.job, 9)).await).rows.len(), 1);
    // Once it has ended, and its list is cut, the next one fires.
    must(store.apply(key.job, Command::Stop, world.now()).await);
    let ended = RunKey { job: key.job, run: view.latest_run().run.id };
    let ingest = must(store.ingest(ended, Reader::Role).await).expect("an ingest");
    let cut = must(must(IngestState::fold(&ingest.log)).entry(IngestEvent::Cut { total: 0 }));
    assert_eq!(must(store.append(ended, cut, world.now()).await), Appended::Done);
    world.pass(MINUTE_MS);
    assert_eq!(must(fire(&world, key.job).await).latest_run().run.sequence, 2);
}

pub async fn nothing_fires_of_a_paused_or_deleted_job(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = scheduled(&world, 1).await;
    let store = &world.backend.store;
    must(
        store
            .apply(key.job, Command::Schedule(ScheduleChange::State(ScheduleState::Paused)), world.now())
            .await,
    );
    world.pass(5 * MINUTE_MS);
    assert!(matches!(fire(&world, key.job).await, Err(Error::Refused(Refusal::FireIsOver))));
    must(store.apply(key.job, Command::Delete, world.now()).await);
    assert!(matches!(fire(&world, key.job).await, Err(Error::Refused(Refusal::JobDeleted))));
    assert!(must(store.runs(RunsQuery::newest(key.job, 9)).await).rows.is_empty());
}
