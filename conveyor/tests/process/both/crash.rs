//! SPEC 3.1 to 3.4 on the real binary: killed at random moments, restarted, and every acknowledged job completes with
//! exact counts, nothing lost and nothing twice.

use crate::support::{self, Client, DEADLINE, Gateway, Process, list, on_aws, sized, until};
use conveyor_domain::Entropy;
use serde_json::Value;
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinSet;

const CALLERS: usize = 4;
const TASKS: usize = 25;

fn jobs() -> usize {
    if on_aws() { sized(8, 20) } else { 20 }
}

/// Half of them are killed among the submits, the others in the drain.
fn rounds() -> u64 {
    if on_aws() { sized(2, 4) } else { sized(8, 24) }
}

fn serve(dir: &Path, gateway: &str) -> Process {
    let flags =
        ["--gateway-url", gateway, "--retry-base-ms", "20", "--retry-cap-ms", "100", "--attempts-max", "20"];
    support::server(dir, &[&flags[..], support::killable()].concat())
}

/// Distinct pages, some of which fail at first.
fn targets(job: &str) -> Vec<String> {
    let kind = |task: usize| if task % 12 == 7 { "flaky" } else { "page" };
    (0..TASKS).map(|task| format!("https://example.com/{}/{job}/{task}", kind(task))).collect()
}

/// Submits jobs one after another from several callers at once, each caller so many, or until the server is gone. Returns
/// the ids of those that were acknowledged, and counts them on the way.
async fn submit_all(client: Client, round: u64, each: usize, count: watch::Sender<usize>) -> Vec<String> {
    let mut submits = JoinSet::new();
    for caller in 0..CALLERS {
        let (client, count) = (client.clone(), count.clone());
        submits.spawn(async move {
            let mut acknowledged = Vec::new();
            for n in 0..each {
                let body = list(&targets(&format!("r{round}/c{caller}/j{n}")));
                match client.try_submit(&body).await {
                    Ok((201, answer)) => {
                        acknowledged.push(answer["job_id"].as_str().unwrap().to_owned());
                        count.send_modify(|count| *count += 1);
                    }
                    Ok((status, answer)) => panic!("{status}: {answer}"),
                    // Cut off: it may or may not have been accepted.
                    Err(_) => break,
                }
            }
            acknowledged
        });
    }
    submits.join_all().await.into_iter().flatten().collect()
}

async fn check_exact(client: &Client, job: &str) {
    let view = client.wait_for(job, &["completed"]).await;
    let stats = &view["latest_run"]["stats"];
    let expected = serde_json::json!({"total": TASKS, "completed": TASKS, "successful": TASKS, "failed": 0});
    assert_eq!(*stats, expected, "job {job}");
    let results = client.results(job).await;
    assert_eq!(results.len(), TASKS, "job {job}");
    let distinct = |field: &str| {
        results.iter().map(|r: &Value| r[field].as_str().unwrap().to_owned()).collect::<HashSet<_>>().len()
    };
    assert_eq!((distinct("task_id"), distinct("url")), (TASKS, TASKS), "job {job}");
    for result in &results {
        assert_eq!(result["status"], "successful");
        let (status, body) = client.text(result["result_url"].as_str().unwrap()).await;
        assert_eq!(status, 200);
        let target = result["url"].as_str().unwrap();
        assert!(body.contains(target), "the body of another task: {body:.200} instead of {target}");
    }
}

/// Every job that the server knows, acknowledged or not.
async fn all_jobs(client: &Client) -> Vec<String> {
    let (mut jobs, mut more) = (Vec::new(), String::new());
    loop {
        let (status, page) = client.get(&format!("/v1/jobs?limit=100{more}")).await;
        assert_eq!(status, 200, "{page}");
        let ids = page["jobs"].as_array().unwrap().iter().map(|job| job["job_id"].as_str().unwrap());
        jobs.extend(ids.map(str::to_owned));
        match page["next_cursor"].as_str() {
            Some(cursor) => more = format!("&cursor={cursor}"),
            None => return jobs,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_job_completes_exactly_whenever_the_process_is_killed() {
    let jobs = jobs();
    for round in 0..rounds() {
        let chance = Entropy::from_number(round);
        // Fewer answers than tasks, until the first kill: the drain cannot end before it.
        let answers = 1 + chance.below((jobs * TASKS) as u64 / 2) as usize;
        let (gateway, dir) = (Gateway::start(answers).await, TempDir::new().unwrap());
        let server = serve(dir.path(), &gateway.url);
        let (count, mut counted) = watch::channel(0);
        // One round among the submits, which then end only with the server, and one in the drain.
        let (each, enough) = match round % 2 {
            0 => (usize::MAX, 1 + chance.below(jobs as u64 * 3 / 4) as usize),
            _ => (jobs / CALLERS, jobs),
        };
        let submits = tokio::spawn(submit_all(Client::new(&server), round, each, count));
        let acknowledged = counted.wait_for(|count| *count >= enough);
        tokio::time::timeout(DEADLINE, acknowledged).await.expect("they are acknowledged").unwrap();
        if round % 2 == 1 {
            until("all answers are given", async || gateway.calls_in_all() > answers).await;
        }
        server.kill();
        let acknowledged = submits.await.unwrap();
        gateway.open();
        for _ in 0..chance.below(3) {
            let server = serve(dir.path(), &gateway.url);
            tokio::time::sleep(Duration::from_millis(chance.below(300))).await;
            server.kill();
        }
        let server = serve(dir.path(), &gateway.url);
        let client = Client::new(&server);
        let known = all_jobs(&client).await;
        for job in &acknowledged {
            assert!(known.contains(job), "round {round}: acknowledged job {job} is lost");
        }
        for job in &known {
            check_exact(&client, job).await;
        }
        server.stop().await;
    }
}
