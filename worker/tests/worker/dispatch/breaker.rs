//! What calls cost, and runs that are paused because too much of them fails (SPEC 6.25).

use crate::dispatch::world::{Witness, World, config, urls};
use conveyor_domain::{Command, FailureClass, FailureRatio, JobSpec, PauseCode, Problem, RunStatus, Spend};
use conveyor_store::port::{RunKey, RunView};
use conveyor_testkit::until;
use conveyor_worker::gateway::GatewayAnswer;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const COST: Spend = Spend { credits: 1, cost_nanos: 280_000 };

async fn view(world: &World, key: RunKey) -> RunView {
    world.backend.store.run(key.job, key.run).await.unwrap().unwrap()
}

fn failure(retry: bool) -> GatewayAnswer {
    let problem = Problem::new(403, "blocked", "No");
    GatewayAnswer::Failure { class: FailureClass::Blocked, retry, retry_after: None, problem, spend: COST }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_fails_is_paused_by_its_workers_and_goes_on_when_it_is_resumed() {
    let witness = Witness::taking(MS).saying(|_, before| (before < 40).then(|| failure(false)));
    let mut world = World::new(witness);
    let max_failure_ratio = FailureRatio::new(0.5);
    let spec = JobSpec { max_inflight: 2, max_failure_ratio, ..JobSpec::default() };
    let job = world.submit(spec, &urls("a.example", 400)).await;
    world.work(config(10));
    until("it is paused", async || view(&world, job).await.run.paused).await;
    let run = view(&world, job).await.run;
    assert_eq!(run.doc.pause.as_ref().unwrap().code, PauseCode::FailureRatio);
    assert!(world.witness.calls() < 400, "before all of it was tried");
    // As often as it takes: the gateway is well only after some more calls.
    until("it is over", async || {
        let run = view(&world, job).await.run;
        if run.paused && run.status == RunStatus::Running {
            world.apply(job, Command::Resume).await;
        }
        run.status == RunStatus::Completed
    })
    .await;
    assert_eq!(view(&world, job).await.stats.counts.failed_total(), 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_calls_cost_is_added_up_with_their_retries() {
    let witness = Witness::taking(MS).saying(|_, before| (before < 3).then(|| failure(true)));
    let mut world = World::new(witness);
    let job = world.submit(JobSpec { max_inflight: 2, ..JobSpec::default() }, &urls("a.example", 5)).await;
    world.work(config(10));
    world.wait_for(job).await;
    let stats = view(&world, job).await.stats;
    assert_eq!((stats.counts.successful, stats.spend), (5, COST.plus(COST).plus(COST)));
}
