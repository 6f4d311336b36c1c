//! A message that was delivered more than once.

use super::{Deployment, servers};
use crate::support::{Gateway, until};
use serde_json::json;

/// SPEC 6.3, 6.4: several workers at the same task at the same time, as after as many deliveries of its message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_in_five_hands_is_counted_once() {
    let environment = servers().await;
    let gateway = Gateway::start(0).await;
    let flags = ["--gateway-url", &gateway.url, "--slots", "1", "--attempts-max", "1"];
    let mut deployment = Deployment::prepare("duplicate", &environment, &flags);
    deployment.start(["api", "sweeper", "worker", "worker", "worker", "worker", "worker"]);
    let (client, mut jobs) = (deployment.client(), Vec::new());
    for (page, outcome) in [("page", "successful"), ("missing", "failed")] {
        let job = client.submit(&[format!("https://example.com/{page}/duplicate")]).await;
        let (view, task) = (client.job(&job).await, client.results(&job).await[0]["task_id"].clone());
        let run = view["latest_run"]["run_id"].as_str().unwrap().to_owned();
        deployment.send(&environment, &run, &format!("1:{}:1", task.as_str().unwrap()), 4).await;
        until("every worker has it in hand", async || gateway.in_flight() == 5).await;
        gateway.allow(5);
        let stats = client.wait_for(&job, &["completed"]).await["latest_run"]["stats"].clone();
        assert_eq!(
            (&stats["total"], &stats["completed"], &stats[outcome]),
            (&json!(1), &json!(1), &json!(1))
        );
        until("every worker has its answer", async || gateway.in_flight() == 0).await;
        jobs.push((job, stats));
    }
    // A worker settles what it has in hand before it stops.
    let (workers, _others): (Vec<_>, Vec<_>) =
        deployment.roles.into_iter().partition(|(role, _)| *role == "worker");
    for (_, worker) in workers {
        worker.stop().await;
    }
    for (job, stats) in jobs {
        assert_eq!(client.job(&job).await["latest_run"]["stats"], stats, "counted again");
    }
}
