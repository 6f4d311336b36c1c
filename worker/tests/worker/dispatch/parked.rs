//! Messages that wait for their domain (SPEC 6.7).

use crate::dispatch::world::{Witness, World, config, urls};
use async_trait::async_trait;
use conveyor_domain::dispatch::grant::{Ask, Scope};
use conveyor_domain::{DomainLimit, DomainLimits, Grant, JobSpec, Rate, Timestamp};
use conveyor_store::port::{Around, Over, OverCoordinator};
use conveyor_store::{Backend, Result};
use conveyor_testkit::{DEADLINE, until};
use conveyor_worker::WorkerConfig;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Counts what is asked of domains.
struct Counting {
    inner: Backend,
    domains_asked: AtomicUsize,
}

impl Counting {
    fn put_into(world: &mut World) -> Arc<Counting> {
        let inner = world.backend.clone();
        let counting = Arc::new(Counting { inner, domains_asked: AtomicUsize::new(0) });
        world.backend.coordinator = Arc::new(Over(counting.clone()));
        counting
    }

    fn domains_asked(&self) -> usize {
        self.domains_asked.load(Ordering::SeqCst)
    }
}

impl Around for Counting {
    fn behind(&self) -> &Backend {
        &self.inner
    }
}

#[async_trait]
impl OverCoordinator for Counting {
    async fn ask(&self, scope: &Scope, ask: Ask, now: Timestamp) -> Result<Grant> {
        if matches!(scope, Scope::Domain(..)) {
            self.domains_asked.fetch_add(1, Ordering::SeqCst);
        }
        self.inner.coordinator.ask(scope, ask, now).await
    }
}

fn every_host(per_second: f64, burst: u32) -> DomainLimits {
    let limit = DomainLimit { rate: Rate::new(per_second, Some(burst)).ok(), max_inflight: None };
    DomainLimits::new([("*".to_owned(), limit)]).unwrap()
}

/// What the job has no room for needs no start of its domain.
#[tokio::test(flavor = "multi_thread")]
async fn domains_are_not_asked_for_messages_whose_job_has_no_room() {
    let mut world = World::new(Witness::taking(Duration::from_millis(5)).holding("https://held"));
    let counting = Counting::put_into(&mut world);
    // Just slow enough that the next start is too far ahead to wait for.
    let domain_limits = every_host(2.4, 1);
    let spec = JobSpec { domain_limits, max_inflight: 40, ..JobSpec::default() };
    let list: Vec<String> = (0..100).flat_map(|n| urls(&format!("held{n}.example"), 3)).collect();
    let job = world.submit(spec, &list).await;
    world.work(config(100));
    until("calls of the job are all that there may be", async || world.witness.now() == 40).await;
    let parked = world.depth(job).await.1 - 40;
    let before = counting.domains_asked();
    // The loop looks at everything whenever a task of another job ends.
    let spec = JobSpec { max_inflight: 1, ..JobSpec::default() };
    let other = world.submit_as(world.other_caller(), spec, &urls("other.example", 200)).await;
    world.wait_for(other).await;
    let asked = counting.domains_asked() - before;
    // Domains with a call under way are asked to keep their permit, every 10 s.
    assert!(parked > 10 && asked <= 40, "{asked} times for {parked} messages");
    world.witness.let_all_go();
    world.wait_for(job).await;
    assert_eq!(world.witness.calls(), 500);
}

/// Other workers can have them long before the last call in flight has ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_returns_what_is_parked_at_once() {
    let mut world = World::new(Witness::taking(Duration::from_millis(2)).holding("https://slow"));
    let spec = JobSpec { domain_limits: every_host(0.001, 1), ..JobSpec::default() };
    let job = world.submit(spec, &urls("slow.example", 20)).await;
    world.work(WorkerConfig { shutdown_grace: 2 * DEADLINE, ..config(30) });
    until("one is in flight, and the others are parked", async || {
        world.witness.now() == 1 && world.depth(job).await == (0, 20)
    })
    .await;
    world.begin_to_stop();
    until("they are in the queue", async || world.depth(job).await == (19, 1)).await;
    assert_eq!(world.witness.now(), 1);
    world.witness.let_all_go();
    world.stop().await;
    assert_eq!(world.depth(job).await, (19, 0));
}

/// However long its call takes, what waits behind it leaves the domain to others.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_at_its_cap_does_not_keep_others_from_the_domain_that_it_waits_for() {
    let mut world = World::new(Witness::taking(Duration::ZERO).holding("https://busy.example/held"));
    let limit = DomainLimit { rate: None, max_inflight: Some(22) };
    let domain_limits = DomainLimits::new([("busy.example".to_owned(), limit)]).unwrap();
    let at_most = |max_inflight| JobSpec { max_inflight, ..JobSpec::default() };
    let held = |count| urls("busy.example/held", count);
    world.submit(at_most(100), &held(22)).await;
    world.work(WorkerConfig { domain_limits, ..config(100) });
    until("the domain is full", async || world.witness.now() == 22).await;
    let capped = world.submit(at_most(2), &held(20)).await;
    until("all of another job is parked", async || {
        world.budget(&Scope::Job(capped.job)).await.domain_wait.is_some()
            && world.depth(capped).await == (0, 20)
    })
    .await;
    world.witness.let_go(22);
    until("it is at its cap", async || world.witness.calls() == 24).await;
    // More than it takes until the worker expects that a list goes on for one domain.
    let free = world.submit(at_most(100), &urls("busy.example/free", 1_200)).await;
    world.wait_for(free).await;
    assert_eq!(world.depth(capped).await, (0, 20));
    world.witness.let_all_go();
    world.wait_for(capped).await;
}

/// The moments of two rates that allow little lateness do not meet by themselves.
#[tokio::test(flavor = "multi_thread")]
async fn a_strict_rate_of_a_job_meets_those_of_its_domains() {
    let mut world = World::new(Witness::taking(Duration::ZERO));
    let domain_limits = every_host(4.0, 1);
    let spec = JobSpec { domain_limits, rate: Rate::new(4.0, Some(1)).ok(), ..JobSpec::default() };
    let list: Vec<String> = (0..8).flat_map(|n| urls(&format!("host{n}.example"), 2)).collect();
    let job = world.submit(spec, &list).await;
    world.work(config(10));
    world.wait_for(job).await;
    let excess = world.witness.worst_excess(1, 4.0);
    assert!(excess <= 0.0 && world.witness.calls() == 16, "{excess} too many");
}
