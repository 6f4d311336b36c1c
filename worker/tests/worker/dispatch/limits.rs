use crate::dispatch::world::{Witness, World, config, urls};
use conveyor_domain::dispatch::grant::Scope;
use conveyor_domain::{Command, FailureClass, JobSpec, LimitsChange, Problem, Rate, Spend};
use conveyor_testkit::until;
use conveyor_worker::gateway::{GatewayAnswer, UNREACHABLE};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

fn capped(max_inflight: u32) -> JobSpec {
    JobSpec { max_inflight, ..JobSpec::default() }
}

fn rated(per_second: f64, burst: u32) -> JobSpec {
    JobSpec { rate: Some(Rate::new(per_second, Some(burst)).unwrap()), ..JobSpec::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_together_keep_to_the_cap() {
    let mut world = World::new(Witness::taking(5 * MS));
    let job = world.submit(capped(5), &urls("a.example", 300)).await;
    for _ in 0..3 {
        world.work(config(50));
    }
    world.wait_for(job).await;
    assert_eq!(world.witness.calls(), 300);
    assert!((2..=5).contains(&world.witness.most("")), "{}", world.witness.most(""));
    world.stop().await;
    assert_eq!(world.budget(&Scope::Job(job.job)).await.held(), 0, "everything was given back");
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_together_keep_to_the_rate() {
    let mut world = World::new(Witness::taking(5 * MS));
    let job = world.submit(rated(80.0, 8), &urls("a.example", 200)).await;
    world.work(config(50));
    world.work(config(50));
    until("half of them", async || world.completed(job).await >= 100).await;
    // What was taken was taken: others begin where these end.
    world.stop().await;
    world.work(config(50));
    world.wait_for(job).await;
    let excess = world.witness.worst_excess(8, 80.0);
    assert!(excess <= 0.0, "{excess} too many");
    assert_eq!(world.witness.calls(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_waits_for_its_rate_has_no_slot() {
    let mut world = World::new(Witness::taking(MS));
    let slow = world.submit(rated(0.05, 1), &urls("slow.example", 3)).await;
    world.work(config(1));
    until("the slow one has begun", async || world.witness.calls_to("https://slow") > 0).await;
    let quick = world.submit(capped(100), &urls("quick.example", 100)).await;
    world.wait_for(quick).await;
    assert!(!world.is_over(slow).await, "with the only slot it would have held the other up");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lower_cap_binds_what_is_started_from_then_on() {
    let mut world = World::new(Witness::taking(100 * MS));
    let job = world.submit(capped(30), &urls("a.example", 6_000)).await;
    world.work(config(50));
    world.work(config(50));
    until("it is busy", async || world.witness.now() > 20).await;
    let change = LimitsChange { max_inflight: Some(3), ..LimitsChange::default() };
    world.apply(job, Command::Limits(change)).await;
    let scope = Scope::Job(job.job);
    until("everybody knows, and what was in flight is over", async || world.budget(&scope).await.held() <= 3)
        .await;
    world.witness.forget_the_most();
    let calls = world.witness.calls();
    until("it goes on", async || world.witness.calls() > calls + 40).await;
    assert!(world.witness.most("") <= 3, "{}", world.witness.most(""));
    let change = LimitsChange { max_inflight: Some(30), ..LimitsChange::default() };
    world.apply(job, Command::Limits(change)).await;
    until("and up again", async || world.witness.now() > 20).await;
    assert!(world.witness.most("") <= 30);
    assert!(!world.is_over(job).await, "there was something to do all the time");
}

/// Calls that take long are never all over at the same time: what is too much must not be filled up again and again.
#[tokio::test(flavor = "multi_thread")]
async fn a_lower_cap_is_reached_also_by_long_calls_of_several_workers() {
    let mut world = World::new(Witness::taking(300 * MS));
    let job = world.submit(capped(40), &urls("a.example", 3_000)).await;
    world.work(config(24));
    world.work(config(24));
    until("both are busy", async || world.witness.now() == 40).await;
    let change = LimitsChange { max_inflight: Some(6), ..LimitsChange::default() };
    world.apply(job, Command::Limits(change)).await;
    let scope = Scope::Job(job.job);
    until("no more is held than there is", async || world.budget(&scope).await.held() <= 6).await;
    world.witness.forget_the_most();
    let calls = world.witness.calls();
    until("it goes on", async || world.witness.calls() > calls + 20).await;
    assert!(world.witness.most("") <= 6, "{}", world.witness.most(""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_can_be_set_changed_and_lifted_while_it_runs() {
    let mut world = World::new(Witness::taking(MS));
    let job = world.submit(rated(0.001, 1), &urls("a.example", 100)).await;
    world.work(config(10));
    until("the first", async || world.witness.calls() == 1).await;
    let rate = |rate| Command::Limits(LimitsChange { rate: Some(rate), ..LimitsChange::default() });
    world.apply(job, rate(Rate::new(200.0, Some(20)).ok())).await;
    until("the next does not take a quarter of an hour", async || world.witness.calls() > 20).await;
    world.apply(job, rate(None)).await;
    world.wait_for(job).await;
    assert_eq!(world.witness.calls(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_run_starts_nothing_and_goes_on_when_it_is_resumed() {
    let mut world = World::new(Witness::taking(5 * MS));
    let job = world.submit(capped(4), &urls("a.example", 60)).await;
    world.work(config(10));
    until("it runs", async || world.witness.calls() > 10).await;
    world.apply(job, Command::Pause).await;
    until("what was in flight is settled", async || {
        world.witness.now() == 0 && world.completed(job).await as usize == world.witness.calls()
    })
    .await;
    let calls = world.witness.calls();
    // Another job gets its turns meanwhile: so the worker had its chance at the paused one.
    let other = world.submit(capped(4), &urls("b.example", 40)).await;
    world.wait_for(other).await;
    assert_eq!(world.witness.calls_to("https://a."), calls);
    world.apply(job, Command::Resume).await;
    world.wait_for(job).await;
    assert_eq!(world.witness.calls_to("https://a."), 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_own_retries_win() {
    let failure = |class, retry| GatewayAnswer::Failure {
        class,
        retry,
        retry_after: None,
        problem: Problem::new(403, "blocked", "No"),
        spend: Spend::default(),
    };
    let witness = Witness::taking(MS).saying(move |_, _| Some(failure(FailureClass::Blocked, true)));
    let mut world = World::new(witness);
    let mut spec = capped(4);
    spec.retry.attempts_max = Some(2);
    let job = world.submit(spec, &urls("a.example", 5)).await;
    world.work(config(10));
    world.wait_for(job).await;
    assert_eq!(world.witness.calls(), 10, "two tries each");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_not_there_is_left_alone() {
    let gone = || GatewayAnswer::Failure {
        class: FailureClass::GatewayError,
        retry: true,
        retry_after: None,
        problem: Problem::new(502, UNREACHABLE, "Nobody there"),
        spend: Spend::default(),
    };
    // Ten open the circuit, at most four more were under way with them, then calls probe one by one.
    let witness = Witness::taking(MS).saying(move |_, before| (before < 12).then(gone));
    let mut world = World::new(witness);
    let mut spec = capped(5);
    spec.retry.attempts_max = Some(50);
    let job = world.submit(spec, &urls("a.example", 30)).await;
    world.work(config(10));
    let scope = Scope::Job(job.job);
    until("it is seen to be held", async || world.budget(&scope).await.held_until.is_some()).await;
    world.wait_for(job).await;
    assert_eq!(world.witness.calls(), 42, "12 that found nobody, and one for each task");
}

/// Three more may begin when one has, by whichever worker: the first took no start that it had no task for.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_worker_does_not_use_of_a_burst_is_there_for_others() {
    let failure = || GatewayAnswer::Failure {
        class: FailureClass::Blocked,
        retry: true,
        retry_after: None,
        problem: Problem::new(403, "blocked", "No"),
        spend: Spend::default(),
    };
    let witness = Witness::taking(MS).saying(move |_, _| Some(failure())).holding("https://");
    let mut world = World::new(witness);
    let mut spec = rated(0.01, 4);
    spec.retry.attempts_max = Some(4);
    let job = world.submit(spec, &urls("a.example", 1)).await;
    world.work(config(10));
    until("its first call", async || world.witness.now() == 1).await;
    world.begin_to_stop();
    world.witness.let_all_go();
    world.stop().await;
    world.work(config(10));
    world.wait_for(job).await;
    assert_eq!(world.witness.calls(), 4);
}
