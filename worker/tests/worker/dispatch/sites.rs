use crate::dispatch::world::{Witness, World, config, urls};
use conveyor_domain::dispatch::grant::Scope;
use conveyor_domain::{
    Command, DomainLimit, DomainLimits, FailureClass, JobSpec, LimitsChange, Problem, Rate, Spend,
};
use conveyor_testkit::until;
use conveyor_worker::WorkerConfig;
use conveyor_worker::gateway::GatewayAnswer;
use std::time::Duration;

fn limited(name: &str, limit: DomainLimit) -> DomainLimits {
    DomainLimits::new([(name.to_owned(), limit)]).unwrap()
}

fn at_most(max_inflight: u32) -> DomainLimit {
    DomainLimit { max_inflight: Some(max_inflight), rate: None }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_a_caller_share_what_a_site_takes() {
    let mut world = World::new(Witness::taking(Duration::from_millis(5)));
    let spec = || JobSpec { domain_limits: limited("busy.example", at_most(2)), ..JobSpec::default() };
    let first = world.submit(spec(), &urls("busy.example", 40)).await;
    let second = world.submit(spec(), &urls("busy.example", 40)).await;
    world.work(config(30));
    world.work(config(30));
    world.wait_for(first).await;
    world.wait_for(second).await;
    assert_eq!(world.witness.calls(), 80);
    assert!(world.witness.most("busy.example") <= 2, "{}", world.witness.most("busy.example"));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_callers_budget_is_another() {
    let mut world = World::new(Witness::taking(Duration::from_millis(300)));
    let spec = || JobSpec { domain_limits: limited("busy.example", at_most(1)), ..JobSpec::default() };
    let other = world.other_caller();
    let first = world.submit(spec(), &urls("busy.example", 10)).await;
    let second = world.submit_as(other, spec(), &urls("busy.example", 10)).await;
    world.work(config(30));
    world.wait_for(first).await;
    world.wait_for(second).await;
    assert_eq!(world.witness.most("busy.example"), 2, "one each");
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_for_other_sites_do_not_wait_for_a_full_one() {
    let mut world = World::new(Witness::taking(Duration::from_millis(5)).holding("https://slow"));
    let mut list = urls("slow.example", 4);
    list.extend(urls("free.example", 60));
    let job = world.submit(JobSpec::default(), &list).await;
    world.work(WorkerConfig { domain_limits: limited("slow.example", at_most(1)), ..config(10) });
    until("all that may go", async || world.witness.calls_to("https://free") == 60).await;
    until("the job says what it waits for", async || {
        let wait = world.budget(&Scope::Job(job.job)).await.domain_wait;
        wait.is_some_and(|wait| wait.domain == "slow.example")
    })
    .await;
    assert_eq!(world.witness.calls_to("https://slow"), 1, "the others wait, and nobody with them");
    world.witness.let_all_go();
    world.wait_for(job).await;
    assert_eq!(world.witness.calls(), 64, "waiting burns no attempt");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_for_one_site_keeps_to_its_rate() {
    let mut world = World::new(Witness::taking(Duration::from_millis(2)));
    let rate = Rate::new(40.0, Some(4)).ok();
    let domain_limits = limited("*", DomainLimit { rate, max_inflight: None });
    let spec = JobSpec { domain_limits, ..JobSpec::default() };
    let job = world.submit(spec, &urls("one.example", 60)).await;
    world.work(config(30));
    world.wait_for(job).await;
    let excess = world.witness.worst_excess(4, 40.0);
    assert!(excess <= 0.0, "{excess} too many");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_that_asks_for_time_gets_it() {
    const RETRY_AFTER: Duration = Duration::from_secs(2);
    let throttled = || GatewayAnswer::Failure {
        class: FailureClass::RateLimited,
        retry: true,
        retry_after: Some(RETRY_AFTER),
        problem: Problem::new(429, "http_429", "Too many"),
        spend: Spend::default(),
    };
    let witness =
        Witness::taking(Duration::from_millis(2)).saying(move |_, before| (before == 0).then(throttled));
    let mut world = World::new(witness);
    let spec = JobSpec { domain_limits: limited("shy.example", at_most(1)), ..JobSpec::default() };
    let job = world.submit(spec, &urls("shy.example", 6)).await;
    world.work(config(30));
    world.wait_for(job).await;
    assert_eq!(world.witness.calls(), 7);
    // One at a time, and the first said no. The worker's clock is in milliseconds.
    let waited = world.witness.between(0, 1) + Duration::from_millis(1);
    assert!(waited >= RETRY_AFTER, "{waited:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_disagree_about_a_site_keep_to_the_stricter() {
    let mut world = World::new(Witness::taking(Duration::from_millis(2)));
    let slow = DomainLimit { rate: Rate::new(5.0, Some(2)).ok(), max_inflight: None };
    let strict = JobSpec { domain_limits: limited("busy.example", slow), ..JobSpec::default() };
    let loose = JobSpec { domain_limits: limited("busy.example", at_most(50)), ..JobSpec::default() };
    let first = world.submit(strict, &urls("busy.example", 8)).await;
    world.work(config(20));
    until("the strict one has begun", async || world.witness.calls() > 0).await;
    let second = world.submit(loose, &urls("busy.example", 8)).await;
    world.wait_for(first).await;
    world.wait_for(second).await;
    let excess = world.witness.worst_excess(2, 5.0);
    assert!(excess <= 0.0, "{excess} too many");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_for_a_slow_site_does_not_stop_a_list_that_goes_on_elsewhere() {
    let mut world = World::new(Witness::taking(Duration::from_millis(2)));
    let slow = DomainLimit { rate: Rate::new(0.001, Some(1)).ok(), max_inflight: None };
    let domain_limits = limited("slow.example", slow);
    let spec = JobSpec { domain_limits, max_inflight: 1, ..JobSpec::default() };
    let mut list = urls("slow.example", 3);
    list.extend(urls("free.example", 30));
    world.submit(spec, &list).await;
    world.work(config(5));
    until("the others", async || world.witness.calls_to("https://free") == 30).await;
    assert_eq!(world.witness.calls_to("https://slow"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_sites_can_be_lifted_while_a_list_waits_for_one() {
    let mut world = World::new(Witness::taking(Duration::from_millis(2)));
    let slow = DomainLimit { rate: Rate::new(0.001, Some(1)).ok(), max_inflight: None };
    let spec = JobSpec { domain_limits: limited("slow.example", slow), ..JobSpec::default() };
    let job = world.submit(spec, &urls("slow.example", 40)).await;
    world.work(config(20));
    let scope = Scope::Job(job.job);
    until("it waits", async || world.budget(&scope).await.domain_wait.is_some()).await;
    let none = LimitsChange { domain_limits: Some(DomainLimits::default()), ..LimitsChange::default() };
    world.apply(job, Command::Limits(none)).await;
    world.wait_for(job).await;
    assert_eq!(world.witness.calls(), 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_list_for_one_site_takes_as_long_as_its_rate() {
    let mut world = World::new(Witness::taking(Duration::from_millis(2)));
    let slow = DomainLimit { rate: Rate::new(2.0, Some(1)).ok(), max_inflight: None };
    let spec = JobSpec { domain_limits: limited("slow.example", slow), ..JobSpec::default() };
    let job = world.submit(spec, &urls("slow.example", 8)).await;
    world.work(config(20));
    world.wait_for(job).await;
    assert_eq!(world.witness.calls(), 8);
}

/// Two workers, a domain with a limit and one below it with its own: every call keeps to both.
#[tokio::test(flavor = "multi_thread")]
async fn parked_tasks_of_several_workers_keep_to_every_limit() {
    let mut world = World::new(Witness::taking(Duration::from_millis(5)));
    let rated =
        |per_second, burst| DomainLimit { rate: Rate::new(per_second, Some(burst)).ok(), max_inflight: None };
    let domain_limits = limited("*", rated(40.0, 4));
    let spec = JobSpec { domain_limits, ..JobSpec::default() };
    let mut list = urls("a.example", 30);
    list.extend(urls("b.example", 30));
    let job = world.submit(spec, &list).await;
    let system = limited("example", DomainLimit { max_inflight: Some(3), ..rated(50.0, 5) });
    for _ in 0..2 {
        world.work(WorkerConfig { domain_limits: system.clone(), ..config(20) });
    }
    world.wait_for(job).await;
    assert_eq!(world.witness.calls(), 60, "no task was started twice");
    let excess = world.witness.worst_excess(5, 50.0);
    assert!(excess <= 0.0, "{excess} too many");
    assert!(world.witness.most("") <= 3, "{}", world.witness.most(""));
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_messages_return_to_their_queue_when_the_worker_stops_or_the_run_is_paused() {
    let mut world = World::new(Witness::taking(Duration::from_millis(2)));
    let slow = DomainLimit { rate: Rate::new(0.001, Some(1)).ok(), max_inflight: None };
    let spec = JobSpec { domain_limits: limited("slow.example", slow), ..JobSpec::default() };
    let job = world.submit(spec, &urls("slow.example", 20)).await;
    world.work(config(30));
    until("one is done, and the others are parked", async || world.depth(job).await == (0, 19)).await;
    world.apply(job, Command::Pause).await;
    until("they are in the queue", async || world.depth(job).await == (19, 0)).await;
    world.apply(job, Command::Resume).await;
    until("they are parked again", async || world.depth(job).await == (0, 19)).await;
    world.stop().await;
    assert_eq!(world.depth(job).await, (19, 0));
    let view = world.backend.store.run(job.job, job.run).await.unwrap().unwrap();
    assert_eq!((view.stats.counts.completed(), world.witness.calls()), (1, 1));
}
