//! SPEC 6.11 on the real binary: killed at random moments while a list is read, again and again, and the list still becomes
//! exactly its tasks, each done once.

use crate::support::{self, Client, Process, on_aws, sized, until, until_fits};
use conveyor_domain::Entropy;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

fn serve(dir: &Path, chunk_rows: &str) -> Process {
    let flags = ["--gateway-url", "null:", "--inline-tasks-max", "100", "--chunk-rows", chunk_rows];
    support::server(dir, &[&flags[..], support::killable()].concat())
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
    let look = async || {
        let view = client.job(job).await;
        let stats = &view["latest_run"]["stats"];
        assert!(stats["completed"].as_u64() <= stats["total"].as_u64(), "{view}");
        assert!(["running", "completed"].map(Value::from).contains(&view["latest_run"]["status"]), "{view}");
        view
    };
    let view = until_fits("the run is done", look, |view| view["latest_run"]["status"] == "completed").await;
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
    // A server could read on before it is asked; the API alone only looks.
    let api = support::api_alone(dir);
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

/// Rows of a list: twice as many after a kill that came too late, up to a limit. A longer list is read for longer.
struct Rows {
    now: usize,
    most: usize,
}

impl Rows {
    fn new(first: usize) -> Rows {
        Rows { now: first, most: 16 * first }
    }

    fn learn(&mut self, in_time: bool) {
        if !in_time {
            self.now = self.most.min(2 * self.now);
        }
    }
}

/// Killed again and again while it is read. A list that is read to its end before there were enough kills is followed by
/// a longer one, so neither a fast nor a slow machine decides what is shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_is_ingested_exactly_however_often_the_process_is_killed() {
    let (rows, kills) = if on_aws() { (sized(600, 20_000), sized(2, 8)) } else { (sized(2_000, 200_000), 8) };
    let (mut rows, chunk_rows) = (Rows::new(rows), sized("50", "2000"));
    let (dir, chance) = (TempDir::new().unwrap(), Entropy::from_number(3));
    let mut delay = Delay(Duration::from_millis(if on_aws() { 100 } else { 10 }));
    let (mut jobs, mut killed) = (Vec::<(String, usize)>::new(), 0);
    let mut server = serve(dir.path(), chunk_rows);
    for _ in 0..20 * kills {
        let client = Client::new(&server);
        let job = match jobs.last() {
            Some((job, _)) if is_ingesting(&client, job).await => job.clone(),
            _ => {
                let job = accept(&server, csv(rows.now)).await;
                jobs.push((job.clone(), rows.now));
                job
            }
        };
        let before = chunks(&client, &job).await;
        until("another chunk is written, or the last one was", async || {
            chunks(&client, &job).await > before || !is_ingesting(&client, &job).await
        })
        .await;
        delay.pass(&chance).await;
        server.kill();
        let in_time;
        (server, in_time) = next_life(dir.path(), &job, chunk_rows).await;
        delay.learn(in_time);
        rows.learn(in_time);
        killed += usize::from(in_time);
        if killed == kills {
            break;
        }
    }
    // Otherwise the test showed nothing.
    assert_eq!(killed, kills, "only so many kills found a list half read, in {} lists", jobs.len());
    for (job, rows) in &jobs {
        check_exact(&Client::new(&server), job, *rows).await;
    }
    server.stop().await;
}

/// A limit of the rounds that wait for a kill before the end of a list.
const ROUNDS_MAX: u64 = 24;

/// The first round is killed as soon as the list is read, the second right after the 202, and all others around its end.
/// Rounds that are killed right after the 202, each with a longer list, are repeated until the list was not read by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_around_the_end_of_a_list_leaves_it_neither_open_nor_short() {
    let (mut rows, chunk_rows) = (Rows::new(sized(600, 12_000)), sized("100", "2000"));
    let rounds = if on_aws() { 2 } else { sized(6, 16) };
    let mut delay = Delay(Duration::from_millis(30));
    let (mut before_the_end, mut after_the_end) = (0, 0);
    for round in 0..ROUNDS_MAX {
        if round >= rounds && before_the_end > 0 {
            break;
        }
        let chance = Entropy::from_number(round);
        let dir = TempDir::new().unwrap();
        let server = serve(dir.path(), chunk_rows);
        let job = accept(&server, csv(rows.now)).await;
        if round == 0 {
            let client = Client::new(&server);
            until("the list is read", async || !is_ingesting(&client, &job).await).await;
        } else if before_the_end > 0 {
            delay.pass(&chance).await;
        }
        server.kill();
        let (server, in_time) = next_life(dir.path(), &job, chunk_rows).await;
        check_exact(&Client::new(&server), &job, rows.now).await;
        server.stop().await;
        *(if in_time { &mut before_the_end } else { &mut after_the_end }) += 1;
        if round > 0 {
            delay.learn(in_time);
            // Once a list was long enough, the delay finds its end.
            rows.learn(in_time || before_the_end > 0);
        }
    }
    assert!(
        before_the_end > 0 && after_the_end > 0,
        "{before_the_end} before, {after_the_end} after the end"
    );
}

/// What the stopped run never read must not be missing from the next one (SPEC 6.19).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rerun_of_a_run_that_was_stopped_while_its_list_was_read_has_all_rows() {
    let (mut rows, dir) = (Rows::new(if on_aws() { 600 } else { 4_000 }), TempDir::new().unwrap());
    let server = serve(dir.path(), "50");
    let client = Client::new(&server);
    let mut cut = None;
    for _ in 0..ROUNDS_MAX {
        let job = accept(&server, csv(rows.now)).await;
        until("a chunk is written", async || chunks(&client, &job).await > 0).await;
        let (status, answer) = client.post_json(&format!("/v1/jobs/{job}/stop"), &json!({})).await;
        let is_cut = async || {
            until("the list is left", async || !is_ingesting(&client, &job).await).await;
            client.job(&job).await["latest_run"]["stats"]["total"].as_u64() < Some(rows.now as u64)
        };
        if status == 200 && is_cut().await {
            cut = Some(job);
            break;
        }
        assert!([200, 409].contains(&status), "{answer}");
        rows.learn(false);
    }
    let job = cut.expect("no stop came before the end of its list");
    let (status, answer) = client.post_json(&format!("/v1/jobs/{job}/rerun"), &json!({})).await;
    assert_eq!((status, &answer["total_is_final"]), (202, &json!(true)), "{answer}");
    check_exact(&client, &job, rows.now).await;
    server.stop().await;
}
