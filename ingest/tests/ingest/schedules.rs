//! Runs that a schedule begins (SPEC 6.20): the tasks of the template, whether they are rows or a list, every time.

use crate::world::World;
use conveyor_domain::ingest::Source;
use conveyor_domain::job::run::Expected;
use conveyor_domain::schedule::calendar::{Interval, Rule, Unit};
use conveyor_domain::{
    Command, JobId, JobSchedule, JobSpec, ListSpec, OnInvalidRows, QueueName, RunId, RunStatus, Schedule,
    TaskId, TaskInput, lifecycle, limits,
};
use conveyor_ingest::End;
use conveyor_store::port::{Reader, RunKey, StartRun, Submission};
use conveyor_store::template::expected_tasks;
use std::sync::Arc;

const MINUTE_MS: i64 = 60_000;

/// `change`: of the job, before it is stored.
async fn every_minute(
    world: &World,
    urls: usize,
    source: Option<Source>,
    change: impl FnOnce(&mut JobSchedule),
) -> RunKey {
    let (job, run) = (JobId::new(world.now(), &world.entropy), RunId::new(world.now(), &world.entropy));
    let rule = Rule::Rate(Interval::new(1, Unit::Minute).unwrap());
    let schedule = JobSchedule::new(Schedule { rule, timezone: None }, run, source, world.now());
    let spec = JobSpec { schedule: Some(schedule), ..JobSpec::default() };
    let input = |n| TaskInput::from_url(&format!("https://example.com/{n}")).unwrap();
    let tasks: Vec<_> = (0..).zip((0..urls).map(input)).collect();
    let mut made = lifecycle::scheduled(job, run, world.caller, spec, tasks.len() as u32, world.now());
    change(Arc::make_mut(&mut made.spec).schedule.as_mut().unwrap());
    let submission = Submission { job: made, run: None, tasks, list: None, once: None };
    world.backend.store.submit(submission).await.unwrap();
    RunKey { job, run }
}

/// Fires, and reads what the run is made of.
async fn fire(world: &World, job: JobId) -> RunKey {
    world.clock.advance_ms(MINUTE_MS);
    let view = world.backend.store.job(None, job).await.unwrap().unwrap();
    let schedule = view.job.spec.schedule.as_ref().unwrap();
    let expected = expected_tasks(&*world.backend.store, &view.job).await.unwrap();
    let (run, first) = schedule.run_of_fire(schedule.next.unwrap(), view.job.latest_run, expected);
    let key = RunKey { job, run: run.id };
    let start = StartRun { job, run, tasks: Vec::new(), log: Some(first), once: None };
    let begun = world.backend.store.start_run(start, world.now()).await.unwrap();
    assert_eq!(begun.latest_run().run.doc.expected, expected);
    assert_eq!(world.ingest(key).await, End::Over);
    key
}

#[tokio::test]
async fn every_run_has_the_rows_of_the_template_under_its_ids() {
    let world = World::new();
    let template = every_minute(&world, 25, None, |_| {}).await;
    for sequence in [1, 2] {
        let key = fire(&world, template.job).await;
        let view = world.view(key).await;
        assert_eq!(view.latest_run().run.doc.expected, Some(Expected { tasks: 25, exact: true }));
        assert_eq!((view.latest_run().run.sequence, view.latest_run().run.total), (sequence, 25));
        assert_eq!((view.latest_run().run.status, view.latest_run().run.latched), (RunStatus::Running, true));
        let ids: Vec<TaskId> = world.tasks(key).await.iter().map(|task| task.id).collect();
        let expected: Vec<TaskId> = (0..25).map(|index| TaskId::of(template.run, index)).collect();
        assert_eq!(ids, expected);
        let depth =
            world.backend.queue.depth(QueueName::Run(key.run), Reader::Role, world.now()).await.unwrap();
        assert_eq!(depth.visible, 25);
        world.backend.store.apply(key.job, Command::Stop, world.now()).await.unwrap();
    }
    assert_eq!(world.tasks(template).await.len(), 25, "the template is as it was");
}

/// Their rows are counted, on more than one page.
#[tokio::test]
async fn jobs_that_earlier_versions_stored_know_their_tasks_too() {
    let world = World::new();
    let tasks = limits::RESULTS_PAGE_MAX + 1;
    let forget = |schedule: &mut JobSchedule| assert_eq!(schedule.rows.take(), Some(tasks));
    let template = every_minute(&world, tasks as usize, None, forget).await;
    let run = world.view(fire(&world, template.job).await).await.latest_run().run.clone();
    assert_eq!((run.doc.expected, run.total), (Some(Expected { tasks, exact: true }), tasks));
}

#[tokio::test]
async fn every_run_reads_the_list_anew() {
    let world = World::new();
    let text: String = (0..25).map(|n| format!("https://example.com/{n}\n")).collect();
    let source = world.stage(text.as_bytes(), ListSpec::Lines, OnInvalidRows::Skip).await;
    let template = every_minute(&world, 0, Some(source), |_| {}).await;
    for sequence in [1, 2] {
        let key = fire(&world, template.job).await;
        let run = world.view(key).await.latest_run().run.clone();
        assert_eq!((run.sequence, run.total), (sequence, 25));
        assert_eq!(world.tasks(key).await[3].id, TaskId::of(template.run, 3));
        world.backend.store.apply(key.job, Command::Stop, world.now()).await.unwrap();
    }
}
