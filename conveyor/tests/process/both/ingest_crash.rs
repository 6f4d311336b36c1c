//! SPEC 6.11 on the real binary: killed at random moments while a list is read, again and again, and the list still becomes
//! exactly its tasks, each done once.

use crate::support::{self, Client, DEADLINE, KEY, Process, conveyor, on_aws, sized};
use conveyor_domain::Entropy;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::Instant;

fn serve(dir: &Path, chunk_rows: &str) -> Process {
    let flags = ["--gateway-url", "null:", "--inline-tasks-max", "100", "--chunk-rows", chunk_rows];
    support::server(dir, &flags)
}

fn csv(rows: usize) -> Vec<u8> {
    let mut text = String::from("id,url\n");
    for n in 0..rows {
        text += &format!("row-{n},https://example.com/products/{n}\n");
    }
    text.into_bytes()
}

fn slot() -> Value {
    let fields = json!({"url": "url", "external_id": "id"});
    json!({"type": "csv", "csv": {"delimiter": ",", "quote": "\"", "header": true, "fields": fields}})
}

/// Uploads and submits a list; the answer is a 202 and durable.
async fn accept(server: &Process, list: Vec<u8>) -> String {
    let client = Client::new(server);
    let upload = client.upload(&slot(), list).await;
    let body = json!({"status": "closed", "file_input_id": upload, "max_inflight": 1000});
    let (status, answer) = client.post_json("/v1/jobs", &body).await;
    assert_eq!((status, &answer["latest_run"]["ingest_status"]), (202, &json!("pending")), "{answer}");
    answer["job_id"].as_str().unwrap().to_owned()
}

/// Waits until the list is read and every task is done, and checks each.
async fn check_exact(client: &Client, job: &str, rows: usize) {
    let until = Instant::now() + 4 * DEADLINE;
    let view = loop {
        let view = client.job(job).await;
        let stats = &view["latest_run"]["stats"];
        assert!(stats["completed"].as_u64() <= stats["total"].as_u64(), "{view}");
        if view["latest_run"]["status"] == "completed" {
            break view;
        }
        assert_eq!(view["latest_run"]["status"], "running", "{view}");
        assert!(Instant::now() < until, "not done: {view}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(view["latest_run"]["ingest_status"], "done");
    let exactly = json!({"total": rows, "completed": rows, "successful": rows, "failed": 0});
    assert_eq!(view["latest_run"]["stats"], exactly);
    let results = client.results_by(job, 1000).await;
    assert_eq!(results.len(), rows);
    for (n, result) in results.iter().enumerate() {
        assert_eq!(result["url"], format!("https://example.com/products/{n}"), "in input order");
        assert_eq!(
            (&result["external_id"], &result["status"]),
            (&json!(format!("row-{n}")), &json!("successful"))
        );
    }
}

async fn is_ingesting(client: &Client, job: &str) -> bool {
    client.job(job).await["latest_run"]["ingest_status"] == "pending"
}

/// How many chunks of the list were written.
async fn chunks(client: &Client, job: &str) -> u64 {
    let run = client.job(job).await["latest_run"]["run_id"].as_str().unwrap().to_owned();
    let (status, ingest) = client.get(&format!("/v1/jobs/{job}/runs/{run}/ingest")).await;
    assert_eq!(status, 200, "{ingest}");
    ingest["chunks"].as_u64().unwrap()
}

/// Starts the server again, and says whether the list was still being read when it was killed.
async fn next_life(dir: &Path, job: &str, chunk_rows: &str) -> (Process, bool) {
    if on_aws() {
        // Nobody reads on before what the killed process held comes back.
        let server = serve(dir, chunk_rows);
        let was_ingesting = is_ingesting(&Client::new(&server), job).await;
        return (server, was_ingesting);
    }
    // A server would read on at once; the API alone only looks.
    let mut command = conveyor();
    command.args([
        "api",
        "--listen",
        "127.0.0.1:0",
        "--api-key",
        KEY,
        "--gateway-url",
        "null:",
        "--data-dir",
    ]);
    command.arg(dir).env("CONVEYOR_LOG", "warn");
    let api = Process::start(command);
    let was_ingesting = is_ingesting(&Client::new(&api), job).await;
    api.kill();
    (serve(dir, chunk_rows), was_ingesting)
}

/// A delay that is learnt: shorter after a kill that came too late, longer after one that came in time.
struct Delay(Duration);

impl Delay {
    async fn pass(&self, chance: &Entropy) {
        let most = u64::try_from(self.0.as_micros()).unwrap();
        tokio::time::sleep(Duration::from_micros(chance.below(most + 1))).await;
    }

    fn learn(&mut self, in_time: bool) {
        self.0 = if in_time { self.0 * 3 / 2 } else { self.0 / 3 };
    }
}

/// Killed again and again while it is read. A list that is read to its end before there were enough kills is followed by
/// another, so neither a fast nor a slow machine decides what is shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_is_ingested_exactly_however_often_the_process_is_killed() {
    let (rows, kills) = if on_aws() { (sized(600, 20_000), sized(2, 8)) } else { (sized(2_000, 200_000), 8) };
    let chunk_rows = sized("50", "2000");
    let (dir, chance, list) = (TempDir::new().unwrap(), Entropy::from_number(3), csv(rows));
    let mut delay = Delay(Duration::from_millis(if on_aws() { 100 } else { 10 }));
    let (mut jobs, mut killed) = (Vec::<String>::new(), 0);
    let mut server = serve(dir.path(), chunk_rows);
    for _ in 0..20 * kills {
        let client = Client::new(&server);
        let job = match jobs.last() {
            Some(job) if is_ingesting(&client, job).await => job.clone(),
            _ => {
                let job = accept(&server, list.clone()).await;
                jobs.push(job.clone());
                job
            }
        };
        let before = chunks(&client, &job).await;
        support::until("another chunk is written, or the last one was", async || {
            chunks(&client, &job).await > before || !is_ingesting(&client, &job).await
        })
        .await;
        delay.pass(&chance).await;
        server.kill();
        let in_time;
        (server, in_time) = next_life(dir.path(), &job, chunk_rows).await;
        delay.learn(in_time);
        killed += usize::from(in_time);
        if killed == kills {
            break;
        }
    }
    // Otherwise the test showed nothing.
    assert_eq!(killed, kills, "only so many kills found a list half read, in {} lists", jobs.len());
    for job in &jobs {
        check_exact(&Client::new(&server), job, rows).await;
    }
    server.stop().await;
}

/// The first round is killed right after the 202, the second as soon as the list is read, and all others around its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_around_the_end_of_a_list_leaves_it_neither_open_nor_short() {
    let (rows, chunk_rows) = (sized(600, 12_000), sized("100", "2000"));
    let list = csv(rows);
    let mut delay = Delay(Duration::from_millis(30));
    let (mut before_the_end, mut after_the_end) = (0, 0);
    for round in 0..if on_aws() { 2 } else { sized(6, 16) } {
        let chance = Entropy::from_number(round);
        let dir = TempDir::new().unwrap();
        let server = serve(dir.path(), chunk_rows);
        let job = accept(&server, list.clone()).await;
        match round {
            0 => {}
            1 => {
                let client = Client::new(&server);
                support::until("the list is read", async || !is_ingesting(&client, &job).await).await;
            }
            _ => delay.pass(&chance).await,
        }
        server.kill();
        let (server, in_time) = next_life(dir.path(), &job, chunk_rows).await;
        delay.learn(in_time);
        *(if in_time { &mut before_the_end } else { &mut after_the_end }) += 1;
        check_exact(&Client::new(&server), &job, rows).await;
        server.stop().await;
    }
    assert!(
        before_the_end > 0 && after_the_end > 0,
        "{before_the_end} before, {after_the_end} after the end"
    );
}
