//! kill -9 for any role, again and again, while a list is read and drained.

use super::{Deployment, ROLES, servers};
use crate::support::{Gateway, sized, until};
use conveyor_domain::Entropy;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_role_can_be_killed_at_any_moment() {
    let (rows, kills) = (sized(400, 20_000), sized(8, 40));
    // It answers as the test goes on: the run cannot end before the last kill.
    let gateway = Gateway::start(0).await;
    let flags = ["--gateway-url", &gateway.url, "--slots", "64", "--inline-tasks-max", "100"];
    let mut deployment = Deployment::prepare(
        "killed",
        &servers().await,
        &[&flags[..], &["--chunk-rows", sized("20", "1000")]].concat(),
    );
    deployment.start(ROLES.into_iter().chain(ROLES));
    let job = deployment.submit("killed", rows).await;

    // Both that read lists, while one of them does.
    let ingest = async || {
        let run = deployment.look(&job).await?["latest_run"]["run_id"].as_str()?.to_owned();
        Some(deployment.client().get(&format!("/v1/jobs/{job}/runs/{run}/ingest")).await.1)
    };
    until("a part of the list is read", async || {
        ingest().await.is_some_and(|ingest| ingest["chunks"].as_u64() > Some(0))
    })
    .await;
    deployment.kill("ingest", 0);
    deployment.kill("ingest", 0);
    let view = deployment.look(&job).await.expect("the API is there");
    assert_eq!(view["latest_run"]["ingest_status"], "pending", "the list was read before the kill: {view}");
    deployment.start(["ingest", "ingest"]);

    let chance = Entropy::from_number(11);
    for kill in 0..kills {
        let before = deployment.completed(&job).await;
        gateway.allow(10);
        until("the run goes on", async || deployment.completed(&job).await > before).await;
        tokio::time::sleep(Duration::from_millis(chance.below(300))).await;
        let role = ROLES[kill % ROLES.len()];
        deployment.kill(role, chance.below(2) as usize);
        deployment.start([role]);
    }
    // Otherwise the test showed nothing.
    let completed = deployment.completed(&job).await;
    assert!(completed < rows as u64, "the run was over before the last kill");
    gateway.open();
    deployment.check_exact(&job, "killed", rows).await;
}
