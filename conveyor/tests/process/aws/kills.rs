//! kill -9 for any role, again and again, while a list is read and drained.

use super::{Deployment, ROLES, servers};
use crate::support::{self, Client, Gateway, sized, until};
use conveyor_domain::Entropy;
use conveyor_testkit::eventually;
use serde_json::json;
use std::time::Duration;

/// How many chunks of the list are written, if the API answers.
async fn chunks(deployment: &Deployment, job: &str) -> Option<u64> {
    let run = deployment.look(job).await?["latest_run"]["run_id"].as_str()?.to_owned();
    deployment.client().get(&format!("/v1/jobs/{job}/runs/{run}/ingest")).await.1["chunks"].as_u64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_role_can_be_killed_at_any_moment() {
    let (mut rows, kills) = (sized(400, 20_000), sized(8, 40));
    let rows_max = 16 * rows;
    // It answers as the test goes on: the run cannot end before the last kill.
    let gateway = Gateway::start(0).await;
    let flags = ["--gateway-url", &gateway.url, "--slots", "64", "--inline-tasks-max", "100"];
    let mut deployment = Deployment::prepare(
        "killed",
        &servers().await,
        &[&flags[..], &["--chunk-rows", sized("20", "1000")]].concat(),
    );
    // Workers come later: a list that is read too fast is deleted before one of its tasks is called.
    deployment.start(["api", "api", "sweeper", "sweeper", "ingest", "ingest"]);
    let job = loop {
        let job = deployment.submit("killed", rows).await;
        until("a part of the list is read", async || chunks(&deployment, &job).await > Some(0)).await;
        // Both that read lists, while one of them does.
        deployment.kill("ingest", 0);
        deployment.kill("ingest", 0);
        let view = eventually("the API answers", async || deployment.look(&job).await).await;
        deployment.start(["ingest", "ingest"]);
        if view["latest_run"]["ingest_status"] == "pending" {
            break job;
        }
        assert_eq!(deployment.client().delete(&format!("/v1/jobs/{job}")).await.0, 202);
        rows *= 2;
        assert!(rows <= rows_max, "every list was read before the kill: {view}");
    };
    deployment.start(["worker", "worker"]);

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

/// Messages that a killed worker had parked are hidden for a while, and then another worker has them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_can_be_killed_while_tasks_wait_in_it_for_their_domain() {
    const TASKS: usize = 60;
    let gateway = support::scripted_gateway(&[]);
    let mut deployment = Deployment::prepare("parked", &servers().await, &["--gateway-url", &gateway.url]);
    deployment.start(["api", "worker", "worker"]);
    let client = deployment.client();
    until("the API is ready", async || client.get("/readyz").await.0 == 200).await;
    let mut body = support::list(&support::urls("parked", TASKS));
    // Enough for both: the permits of the killed one lapse only after half a minute.
    body["max_inflight"] = json!(1_000);
    body["domain_limits"] = json!({"*": {"per_second": 10, "burst": 2}});
    let (status, answer) = client.try_submit(&body).await.unwrap();
    assert_eq!(status, 201, "{answer}");
    let job = answer["job_id"].as_str().unwrap();
    let place = eventually("a worker has parked some", async || {
        for (place, (_, worker)) in deployment.roles.iter().enumerate() {
            let worker = Client::new(worker);
            let (_, text) = worker.text(&format!("{}/metrics", worker.url)).await;
            let parked = text.lines().find_map(|line| line.strip_prefix("conveyor_messages_parked "));
            if parked.is_some_and(|count| count.trim().parse::<f64>().unwrap_or(0.0) >= 10.0) {
                return Some(place);
            }
        }
        None
    })
    .await;
    deployment.roles.remove(place).1.kill();
    let view = client.wait_for(job, &["completed"]).await;
    assert_eq!(view["latest_run"]["stats"]["successful"], TASKS);
}
