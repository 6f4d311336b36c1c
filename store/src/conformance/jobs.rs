//! Rules of jobs and runs (SPEC 2, 6.1, 6.2, 6.5).

use super::world::{must, problem, success};
use super::{Harness, World};
use crate::port::{
    ActiveRun, ChangeCursor, Claim, Error, JobView, JobsQuery, Reader, RunKey, Settled, StatusFilter,
    TasksQuery,
};
use conveyor_domain::limits::{JOB_DOCUMENT_MAX_BYTES, KIB};
use conveyor_domain::{
    CallerId, Command, DomainLimit, DomainLimits, FailureClass, FailureRatio, JobId, JobStatus, LimitsChange,
    Outcome, ParamPolicy, Problem, Rate, Refusal, RetryChoice, RunStatus, TaskInput, TaskRules, TaskStatus,
    Timestamp, limits,
};
use serde_json::json;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

const RUN_TASKS_MAX: u32 = 1_000;

pub async fn a_submitted_job_is_visible_whole(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let submission = world.submission(false, 5);
    must(world.backend.store.submit(submission.clone()).await);
    let key = RunKey { job: submission.job.id, run: submission.job.latest_run };
    let view = world.view(key).await;
    assert_eq!((&view.job, Some(&view.latest_run().run)), (&submission.job, submission.run.as_ref()));
    assert_eq!((view.latest_run().stats.total, view.latest_run().stats.counts.completed()), (5, 0));
    let query = TasksQuery { key, filter: StatusFilter::All, after: None, limit: 100, max_bytes: usize::MAX };
    let urls: Vec<_> = must(world.backend.store.tasks(query).await).into_iter().map(|t| t.input).collect();
    assert_eq!(urls, submission.tasks.into_iter().map(|(_, input)| input).collect::<Vec<_>>());
    let queue = conveyor_domain::QueueName::Run(key.run);
    assert_eq!(must(world.backend.queue.depth(queue, Reader::Role, world.now()).await).visible, 5);
}

pub async fn a_repeated_submit_changes_nothing(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let submission = world.submission(false, 4);
    let key = RunKey { job: submission.job.id, run: submission.job.latest_run };
    must(world.backend.store.submit(submission.clone()).await);
    world.finish(key, 0, success()).await;
    let before = world.view(key).await;
    must(world.backend.store.submit(submission).await);
    assert_eq!(world.view(key).await, before);
}

pub async fn acknowledged_jobs_survive_a_crash(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 50).await;
    world.finish(key, 9, success()).await;
    let before = world.view(key).await;
    let after = harness.crash().await;
    let found = must(after.backend().store.job(Some(world.caller), key.job).await);
    assert_eq!(found, Some(before));
}

pub async fn a_job_is_invisible_to_other_callers(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 1).await;
    let stranger = CallerId::new(world.now(), &world.entropy);
    assert_eq!(must(world.backend.store.job(Some(stranger), key.job).await), None);
    let query =
        JobsQuery { caller: stranger, status: None, scheduled: None, before: None, limit: 10, look: 10 };
    assert!(must(world.backend.store.jobs(query).await).rows.is_empty());
}

/// A task with all that is stored of one at its limit at once: control characters take six bytes each. It is more than any
/// submit lets through, whose `task_json_max_bytes` counts all of it.
fn largest_task() -> TaskInput {
    let metadata: serde_json::Map<_, _> = (0..limits::METADATA_PAIRS_MAX)
        .map(|n| (format!("{n:é>128}"), json!("\u{1}".repeat(limits::METADATA_VALUE_MAX))))
        .collect();
    let task = json!({
        "url": format!("https://site.example/{}", "x".repeat(limits::URL_MAX_BYTES - 21)),
        "external_id": "x".repeat(limits::EXTERNAL_ID_MAX),
        "metadata": metadata,
        "zenrows_params": {"x": "x".repeat(limits::PARAMS_MAX_BYTES - 5)},
        "method": "POST",
        "body": "\u{1}".repeat(limits::TASK_BODY_MAX_BYTES),
    });
    must(TaskInput::from_json(&task, &std::collections::BTreeMap::new(), TaskRules::strict(ParamPolicy::Any)))
}

/// The longest error that is kept of a task.
fn longest_problem() -> Problem {
    let wide = |chars| "\u{10ffff}".repeat(chars);
    let mut problem = Problem::new(503, "x".repeat(64), wide(limits::ECHO_MAX_CHARS))
        .with_detail(wide(limits::FAILURE_DETAIL_MAX_CHARS));
    problem.kind = "x".repeat(limits::URL_MAX_BYTES);
    problem
}

/// What a submit lets through can be stored, with what is added to it later.
pub async fn rows_as_large_as_they_may_be_are_kept(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let mut submission = world.submission(false, 1);
    submission.tasks[0].1 = largest_task();
    let spec = Arc::make_mut(&mut submission.job.spec);
    // What is sealed is sealed after the size was checked.
    let longest = JOB_DOCUMENT_MAX_BYTES + 16 * KIB - spec.stored_bytes();
    spec.metadata.insert("k".to_owned(), "x".repeat(longest));
    let key = RunKey { job: submission.job.id, run: submission.job.latest_run };
    must(world.backend.store.submit(submission.clone()).await);
    let crashed = harness.crash().await;
    let world = world.on(crashed.backend());
    assert_eq!(world.view(key).await.job, submission.job);

    let store = &world.backend.store;
    let limits = |change| store.apply(key.job, Command::Limits(change), world.now());
    let domains =
        DomainLimits::new([("a.example".to_owned(), DomainLimit { max_inflight: Some(1), rate: None })]);
    let larger = LimitsChange { domain_limits: Some(must(domains)), ..LimitsChange::default() };
    assert_eq!(limits(larger).await, Err(Error::Refused(Refusal::JobTooLarge)));
    let smaller = LimitsChange { max_inflight: Some(9), ..LimitsChange::default() };
    assert_eq!(must(limits(smaller).await).job.spec.max_inflight, 9);

    let retry = Outcome::Retry { problem: longest_problem(), not_before: world.now() };
    world.finish(key, 0, retry).await;
    let failed = Outcome::Failed { class: FailureClass::Other, problem: longest_problem() };
    world.finish(key, 0, failed).await;
    let query = TasksQuery { key, filter: StatusFilter::All, after: None, limit: 1, max_bytes: usize::MAX };
    let [task] = &must(store.tasks(query).await)[..] else { panic!("one task") };
    assert_eq!(
        (task.status, &task.input, &task.error),
        (TaskStatus::Failed, &largest_task(), &Some(longest_problem()))
    );
}

pub async fn jobs_page_newest_first_without_gaps(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let mut submitted = Vec::new();
    for i in 0..12 {
        world.pass(10);
        submitted.push(world.submit(i % 3 == 0, 1).await.job);
    }
    submitted.reverse();
    let all =
        JobsQuery { caller: world.caller, status: None, scheduled: None, before: None, limit: 5, look: 100 };
    let seen: Vec<JobId> = listed(&world, all).await.concat();
    assert_eq!(seen, submitted);
    let open = JobsQuery { status: Some(JobStatus::Open), limit: 3, ..all };
    assert_eq!(must(world.backend.store.jobs(open).await).rows.len(), 3, "a filtered page is dense");
}

/// Every page of a list of jobs.
async fn listed(world: &World, mut query: JobsQuery) -> Vec<Vec<JobId>> {
    let mut pages = Vec::new();
    loop {
        let page = must(world.backend.store.jobs(query).await);
        pages.push(page.rows.iter().map(|view| view.job.id).collect());
        match page.next {
            Some(_) => query.before = page.next,
            None => return pages,
        }
    }
}

pub async fn a_filtered_page_of_jobs_looks_at_no_more_than_it_may(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let mut open = Vec::new();
    for i in 0..14 {
        world.pass(10);
        let key = world.submit([1, 2, 12].contains(&i), 1).await;
        open.extend([1, 2, 12].contains(&i).then_some(key.job));
    }
    open.reverse();
    let query = JobsQuery {
        caller: world.caller,
        status: Some(JobStatus::Open),
        scheduled: None,
        before: None,
        limit: 9,
        look: 4,
    };
    let pages = listed(&world, query).await;
    assert_eq!(pages.concat(), open, "each once");
    // 14 jobs, 4 at a time, the newest first: 12 is in the first page, 2 in the third, 1 in the last.
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [1, 0, 1, 1]);
}

pub async fn concurrent_additions_never_share_an_index(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(true, 3).await;
    let add = |n: u32| {
        let (store, now) = (world.backend.store.clone(), world.now());
        tokio::spawn(async move {
            must(store.add_tasks(key.job, World::inputs(n), false, RUN_TASKS_MAX, None, now).await);
        })
    };
    let adds: Vec<_> = (1..=10).map(add).collect();
    for add in adds {
        must(add.await);
    }
    assert_eq!(world.view(key).await.latest_run().stats.total, 3 + 55);
    let query =
        TasksQuery { key, filter: StatusFilter::All, after: None, limit: 1_000, max_bytes: usize::MAX };
    let ids: HashSet<_> = must(world.backend.store.tasks(query).await).into_iter().map(|t| t.id).collect();
    assert_eq!(ids.len(), 58);
}

pub async fn a_refused_addition_writes_nothing(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(true, 2).await;
    let add = |n, last| world.backend.store.add_tasks(key.job, World::inputs(n), last, 5, None, world.now());
    assert_eq!(add(4, false).await.err(), Some(Error::Refused(Refusal::RunTasksMax)));
    must(add(1, true).await);
    assert_eq!(add(1, false).await.err(), Some(Error::Refused(Refusal::LastBatchReceived)));
    let view = world.view(key).await;
    assert_eq!((view.latest_run().stats.total, view.job.status), (3, JobStatus::Closed));
    let query = TasksQuery { key, filter: StatusFilter::All, after: None, limit: 100, max_bytes: usize::MAX };
    assert_eq!(must(world.backend.store.tasks(query).await).len(), 3);
}

pub async fn only_running_runs_are_active(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let running = world.submit(false, 1).await;
    let idle = world.submit(true, 0).await;
    let stopped = world.submit(false, 1).await;
    must(world.backend.store.apply(stopped.job, Command::Stop, world.now()).await);
    let active: Vec<_> = must(world.backend.store.changed_runs(None, world.now()).await)
        .active
        .into_iter()
        .map(|a| a.run.id)
        .collect();
    assert_eq!(active, [running.run]);
    must(world.backend.store.add_tasks(idle.job, World::inputs(1), false, 9, None, world.now()).await);
    assert_eq!(must(world.backend.store.changed_runs(None, world.now()).await).active.len(), 2);
}

pub async fn completion_happens_once_and_never_early(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 2).await;
    let drained = || world.backend.store.apply(key.job, Command::Drained, world.now());
    world.finish(key, 0, success()).await;
    assert_eq!(drained().await.err(), Some(Error::Refused(Refusal::NotDrained)));
    world.finish(key, 1, success()).await;
    world.pass(5);
    let done = must(drained().await);
    assert_eq!(done.latest_run().run.status, RunStatus::Completed);
    let at = done.latest_run().run.updated;
    world.pass(5);
    for _ in 0..3 {
        assert_eq!(must(drained().await).latest_run().run.updated, at, "completed again");
    }
    let stop = world.backend.store.apply(key.job, Command::Stop, world.now()).await;
    assert_eq!(stop.err(), Some(Error::Refused(Refusal::RunNotStoppable)));
}

pub async fn a_command_on_an_unknown_job_is_not_found(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let nobody = JobId::new(world.now(), &world.entropy);
    let outcome = world.backend.store.apply(nobody, Command::Stop, world.now()).await;
    assert_eq!(outcome.err(), Some(Error::NotFound));
}

/// What a look at the runs that changed says of one of them.
#[derive(Debug)]
pub(super) enum Seen {
    Nothing,
    Active(Box<ActiveRun>),
    Gone,
}

async fn changed(world: &World, key: RunKey, since: Timestamp) -> Seen {
    let changed = must(world.backend.store.changed_runs(Some(ChangeCursor(since)), world.now()).await);
    let gone = changed.gone.contains(&key);
    match changed.active.into_iter().find(|active| active.run.id == key.run) {
        Some(active) if !gone => Seen::Active(Box::new(active)),
        None if gone => Seen::Gone,
        None => Seen::Nothing,
        Some(_) => panic!("{key:?} is running and gone"),
    }
}

/// What the look says in the end. A backend whose index is behind is given some time.
pub(super) async fn seen(
    (harness, world): (&dyn Harness, &World),
    key: RunKey,
    since: Timestamp,
    expected: impl Fn(&Seen) -> bool,
) -> Seen {
    for _ in 0..LOOKS {
        let seen = changed(world, key, since).await;
        if expected(&seen) {
            return seen;
        }
        harness.wait(Duration::from_millis(200)).await;
    }
    changed(world, key, since).await
}

/// A minute, if each has to be waited for.
const LOOKS: usize = 300;
/// Longer than a rule takes, for backends that know that time passes.
pub(super) const HOUR_MS: i64 = 3_600_000;

async fn apply(world: &World, key: RunKey, command: Command) -> JobView {
    must(world.backend.store.apply(key.job, command, world.now()).await)
}

pub async fn a_paused_run_starts_nothing_until_it_is_resumed(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 4).await;
    world.finish(key, 0, success()).await;
    let held = world.claimed(key, 1).await;
    let retried = world.claimed(key, 2).await;
    let not_before = world.now().after(Duration::from_secs(60));
    let retry = Outcome::Retry { problem: problem(), not_before };
    assert_eq!(world.settle(key, &retried, retry).await, Settled::Applied);
    for _ in 0..2 {
        let paused = apply(&world, key, Command::Pause).await.latest_run().run.clone();
        assert_eq!((paused.paused, paused.status), (true, RunStatus::Running));
    }
    let crashed = harness.crash().await;
    let world = world.on(crashed.backend());
    assert!(world.view(key).await.latest_run().run.paused);
    let active = must(world.backend.store.changed_runs(None, world.now()).await).active;
    assert!(active.iter().any(|a| a.run.id == key.run && a.run.paused), "{active:?}");
    let claims = [world.claim(key, 0).await, world.claim(key, 1).await, world.claim(key, 2).await];
    assert_eq!(claims, [Claim::Terminal, Claim::Paused, Claim::Paused]);
    assert_eq!((world.claim(key, 3).await, world.claim(key, 9).await), (Claim::Paused, Claim::Gone));
    // What is in flight goes on, and a refused claim took nothing from it.
    assert_eq!(world.settle(key, &held, success()).await, Settled::Applied);
    assert!(!apply(&world, key, Command::Resume).await.latest_run().run.paused);
    assert_eq!(world.claim(key, 2).await, Claim::Early(not_before));
    world.finish(key, 3, success()).await;
    world.pass(60_000);
    world.finish(key, 2, success()).await;
    assert_eq!(apply(&world, key, Command::Drained).await.latest_run().run.status, RunStatus::Completed);
    let late = world.backend.store.apply(key.job, Command::Pause, world.now()).await;
    assert_eq!(late.err(), Some(Error::Refused(Refusal::RunNotPausable)));
}

pub async fn a_paused_run_completes_and_can_be_stopped(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let (done, stopped) = (world.submit(false, 1).await, world.submit(false, 1).await);
    let held = world.claimed(done, 0).await;
    for key in [done, stopped] {
        apply(&world, key, Command::Pause).await;
    }
    assert_eq!(world.settle(done, &held, success()).await, Settled::Applied);
    assert_eq!(apply(&world, done, Command::Drained).await.latest_run().run.status, RunStatus::Completed);
    assert_eq!(apply(&world, stopped, Command::Stop).await.latest_run().run.status, RunStatus::Stopped);
    assert_eq!(world.claim(stopped, 0).await, Claim::Gone);
}

pub async fn changed_limits_are_kept_with_their_revision(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 2).await;
    let before = world.view(key).await.job;
    world.pass(1_000);
    let limit = DomainLimit { max_inflight: Some(2), rate: None };
    let change = LimitsChange {
        max_inflight: Some(7),
        rate: Some(Some(must(Rate::new(2.5, None)))),
        retry: Some(RetryChoice { attempts_max: Some(2), ..RetryChoice::default() }),
        domain_limits: Some(must(DomainLimits::new([("a.example".to_owned(), limit)]))),
        max_failure_ratio: Some(FailureRatio::new(0.2)),
    };
    let since = world.now();
    let told = apply(&world, key, Command::Limits(change.clone())).await.job;
    assert_eq!(*told.spec, before.spec.with(&change));
    assert_eq!((told.spec.limits_revision, told.spec.max_inflight), (before.spec.limits_revision + 1, 7));
    let crashed = harness.crash().await;
    let world = world.on(crashed.backend());
    assert_eq!(world.view(key).await.job, told);
    let active = must(world.backend.store.changed_runs(None, world.now()).await).active;
    assert!(active.iter().any(|a| a.job == told), "{active:?}");
    let knows = |seen: &Seen| matches!(seen, Seen::Active(active) if active.job == told);
    let look = seen((&*crashed, &world), key, since, knows).await;
    assert!(knows(&look), "{look:?}");
    // The same once more is no change, and a limit can be taken away.
    let again = apply(&world, key, Command::Limits(change)).await.job;
    assert_eq!(again.spec, told.spec);
    let without = LimitsChange { rate: Some(None), ..LimitsChange::default() };
    let spec = apply(&world, key, Command::Limits(without)).await.job.spec;
    assert_eq!((spec.rate, spec.limits_revision), (None, told.spec.limits_revision + 1));
    assert_eq!(world.claimed(key, 0).await.attempt, 1, "the tasks are as they were");
}

/// Runs that did not change may be told all the same, but a look must not always be one at everything.
pub async fn runs_that_changed_are_found_by_when(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let (old, paused) = (world.submit(false, 1).await, world.submit(false, 1).await);
    let (stopped, idle) = (world.submit(false, 1).await, world.submit(true, 0).await);
    world.pass(HOUR_MS);
    let since = world.now();
    let fresh = world.submit(false, 3).await;
    apply(&world, paused, Command::Pause).await;
    apply(&world, stopped, Command::Stop).await;
    must(world.backend.store.add_tasks(idle.job, World::inputs(2), false, 9, None, world.now()).await);
    let on = (harness, &world);
    let look = seen(on, fresh, since, |seen| matches!(seen, Seen::Active(_))).await;
    let Seen::Active(found) = look else { panic!("a new run: {look:?}") };
    let view = world.view(fresh).await;
    assert_eq!(
        (found.job, found.run, found.stats),
        (view.job.clone(), view.latest_run().run.clone(), view.latest_run().stats)
    );
    let is_paused = |seen: &Seen| matches!(seen, Seen::Active(active) if active.run.paused);
    let look = seen(on, paused, since, is_paused).await;
    assert!(is_paused(&look), "{look:?}");
    let look = seen(on, stopped, since, |seen| matches!(seen, Seen::Gone)).await;
    assert!(matches!(look, Seen::Gone), "{look:?}");
    let has_two = |seen: &Seen| matches!(seen, Seen::Active(active) if active.stats.total == 2);
    let look = seen(on, idle, since, has_two).await;
    assert!(has_two(&look), "{look:?}");
    let look = changed(&world, old, since).await;
    assert!(matches!(look, Seen::Nothing), "nothing became of it since: {look:?}");
    let look = seen(on, old, Timestamp(since.0 - HOUR_MS), |seen| matches!(seen, Seen::Active(_))).await;
    assert!(matches!(look, Seen::Active(_)), "it was submitted at that very moment: {look:?}");
    let long_after = Timestamp(since.0 + HOUR_MS);
    let nothing = |seen: &Seen| matches!(seen, Seen::Nothing);
    assert!(nothing(&changed(&world, fresh, long_after).await));
    assert!(nothing(&changed(&world, stopped, long_after).await));
}

/// Rows that took long to write, a write that had to wait: by the time that they are there, everybody has looked.
pub async fn what_becomes_visible_late_is_found_by_when_it_does(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let (old, paused) = (world.submit(false, 1).await, world.submit(false, 1).await);
    let (limited, stopped) = (world.submit(false, 1).await, world.submit(false, 1).await);
    let idle = world.submit(true, 0).await;
    let (submission, decided) = (world.submission(false, 1), world.now());
    let late = RunKey { job: submission.job.id, run: submission.job.latest_run };
    world.pass(HOUR_MS);
    let (since, store) = (world.now(), &world.backend.store);
    must(store.changed_runs(None, since).await);
    must(store.submit(submission).await);
    must(store.apply(paused.job, Command::Pause, decided).await);
    let change = LimitsChange { max_inflight: Some(7), ..LimitsChange::default() };
    must(store.apply(limited.job, Command::Limits(change), decided).await);
    must(store.apply(stopped.job, Command::Stop, decided).await);
    must(store.add_tasks(idle.job, World::inputs(1), false, 9, None, decided).await);
    let on = (harness, &world);
    for (key, what) in [(late, "submitted"), (idle, "added to"), (paused, "paused"), (limited, "limited")] {
        let fits = |seen: &Seen| match seen {
            Seen::Active(active) => {
                let is = (active.stats.total, active.run.paused, active.job.spec.max_inflight == 7);
                is == (1, key == paused, key == limited)
            }
            Seen::Gone | Seen::Nothing => false,
        };
        let look = seen(on, key, since, fits).await;
        assert!(fits(&look), "{what}: {look:?}");
        assert_eq!(
            world.view(key).await.latest_run().run.updated,
            decided,
            "{what}: it is when it was decided"
        );
    }
    let look = seen(on, stopped, since, |seen| matches!(seen, Seen::Gone)).await;
    assert!(matches!(look, Seen::Gone), "{look:?}");
    let look = changed(&world, old, since).await;
    assert!(matches!(look, Seen::Nothing), "nothing became of it since: {look:?}");
}
