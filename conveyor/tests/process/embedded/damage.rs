//! A damaged row costs only itself (SPEC 6.14). The damage is done in the database file, while no server runs.

use crate::support::{self, Client, KEY, Process, conveyor, run, urls};
use rusqlite::Connection;
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;

const OPERATOR_KEY: &str = "operator-key-0123456789";

fn role(role: &str, data: &Path) -> Process {
    let mut command = conveyor();
    command.args([role, "--listen", "127.0.0.1:0", "--gateway-url", "demo:", "--api-key", KEY]);
    command.args(["--operator-key", OPERATOR_KEY, "--data-dir"]).arg(data).env("CONVEYOR_LOG", "off");
    Process::start(command)
}

fn damage(data: &Path, statement: &str) {
    let connection = Connection::open(data.join("conveyor.db")).unwrap();
    assert_eq!(connection.execute(statement, []).unwrap(), 1, "{statement}");
}

/// What a row of one job's tasks is set to, by its index.
fn of_task(job: &str, column: &str, index: u32) -> String {
    let job: conveyor_domain::JobId = job.parse().unwrap();
    let hex: String = job.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "UPDATE tasks SET {column} = 'garbage' WHERE task_key =
            (SELECT run_key << 32 | {index} FROM runs WHERE job_id = x'{hex}')"
    )
}

fn ask(server: &Process, args: &[&str]) -> (Option<i32>, String) {
    let mut command = conveyor();
    command.args(args).env("CONVEYOR_SERVER", &server.url).env("CONVEYOR_API_KEY", KEY);
    let output = run({
        command.env("CONVEYOR_OPERATOR_KEY", OPERATOR_KEY);
        command
    });
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[tokio::test]
async fn a_damaged_row_costs_only_itself() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    // Nobody works: the tasks wait.
    let server = role("api", &data);
    let client = Client::new(&server);
    let waiting = client.submit(&urls("waiting", 5)).await;
    let other = client.submit(&urls("other", 3)).await;
    let lost = client.submit(&urls("lost", 1)).await;
    server.stop().await;
    damage(&data, &of_task(&waiting, "input", 1));
    damage(&data, &of_task(&waiting, "claims", 2));
    damage(&data, &of_task(&waiting, "status", 3));
    let lost_id: conveyor_domain::JobId = lost.parse().unwrap();
    let hex: String = lost_id.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    damage(&data, &format!("UPDATE jobs SET doc = 'garbage' WHERE job_id = x'{hex}'"));

    let server = role("dev", &data);
    let client = Client::new(&server);
    let stats = client.wait_for(&waiting, &["completed"]).await["latest_run"]["stats"].clone();
    assert_eq!(
        (&stats["total"], &stats["successful"], &stats["failed"]),
        (&json!(5), &json!(2), &json!(3)),
        "{stats}"
    );
    let rows = client.results(&waiting).await;
    let codes =
        |rows: &[Value]| -> Vec<Value> { rows.iter().map(|row| row["error"]["code"].clone()).collect() };
    let (fine, bad) = (Value::Null, json!("damaged"));
    assert_eq!(codes(&rows), [fine.clone(), bad.clone(), bad.clone(), bad.clone(), fine.clone()]);
    let (code, audit) = ask(&server, &["audit", &waiting]);
    let task = rows[1]["task_id"].as_str().unwrap();
    assert!(code == Some(1) && audit.contains(&format!("task {task} is damaged: its input")), "{audit}");

    client.wait_for(&other, &["completed"]).await;
    server.stop().await;
    damage(&data, &of_task(&other, "result", 1));
    let server = role("dev", &data);
    let client = Client::new(&server);
    let rows = client.results(&other).await;
    assert_eq!(codes(&rows), [fine.clone(), bad.clone(), fine.clone()]);
    let content =
        |n: usize| format!("/v1/jobs/{other}/tasks/{}/content", rows[n]["task_id"].as_str().unwrap());
    let (status, problem) = client.get(&content(1)).await;
    assert_eq!((status, &problem["code"]), (422, &bad), "{problem}");
    assert_eq!(client.text(rows[0]["result_url"].as_str().unwrap()).await.0, 200);
    let run = client.job(&other).await["latest_run"]["run_id"].as_str().unwrap().to_owned();
    let exports = format!("/v1/jobs/{other}/runs/{run}/exports");
    for format in ["zip", "jsonl", "csv"] {
        let (status, export) = client.post_json(&exports, &json!({ "format": format })).await;
        assert_eq!(status, 202, "{export}");
        let export = format!("{exports}/{}", export["export_id"].as_str().unwrap());
        let is_over =
            |(_, export): &(u16, Value)| export["status"] != "pending" && export["status"] != "running";
        let (_, done) =
            support::until_fits("the export is made", async || client.get(&export).await, is_over).await;
        assert_eq!(done["status"], "completed", "{format}: {done}");
    }

    for query in ["", "?type=regular", "?status=closed"] {
        let (status, jobs) = client.get(&format!("/v1/jobs{query}")).await;
        let listed: Vec<&str> =
            jobs["jobs"].as_array().unwrap().iter().filter_map(|job| job["job_id"].as_str()).collect();
        assert_eq!((status, listed), (200, vec![other.as_str(), waiting.as_str()]));
    }
    let (code, found) = ask(&server, &["reconcile"]);
    assert!(code == Some(1) && found.contains("damaged_rows") && found.contains(&lost), "{found}");
    server.stop().await;
}
