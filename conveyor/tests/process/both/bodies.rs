//! Bodies that are not what a worker wrote are told from those that are (SPEC 6.14). The damage is done to the files, or
//! through the API of S3.

use crate::support::{self, Client, KEY, Process, conveyor, run, stored, urls};
use serde_json::{Value, json};
use std::process::Output;
use tempfile::TempDir;

fn audit(server: &Process, job: &str, flags: &[&str]) -> Output {
    let mut command = conveyor();
    command.args(["audit", job]).args(flags).env("CONVEYOR_SERVER", &server.url).env("CONVEYOR_API_KEY", KEY);
    run(command)
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

#[tokio::test]
async fn a_damaged_body_is_named_and_never_served() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let server = support::server(&data, &["--gateway-url", "demo:", "--result-url-ttl-minutes", "1440"]);
    let client = Client::new(&server);
    let (many, one) = (client.submit(&urls("many", 30)).await, client.submit(&urls("one", 1)).await);
    for job in [&many, &one] {
        client.wait_for(job, &["completed"]).await;
    }
    let fine = document(&audit(&server, &many, &["--deep", "--json"]));
    assert_eq!((&fine["bodies"]["read"], &fine["bodies"]["unverified"]), (&json!(30), &json!(0)), "{fine}");
    let results = client.results(&many).await;
    let body = |n: usize| results[n]["result_url"].as_str().unwrap().to_owned();
    let (status, text) = client.text(&body(7)).await;
    assert!(status == 200 && text.contains("https://example.com/many/7"), "{text}");

    stored::change_object(&data, &text, |bytes, at| bytes[at + 9] ^= 1).await;
    let lone = client.results(&one).await.remove(0);
    let (_, text) = client.text(lone["result_url"].as_str().unwrap()).await;
    stored::change_object(&data, &text, |bytes, _| bytes.truncate(9)).await;

    for (job, row, fault) in [(&many, &results[7], "damaged"), (&one, &lone, "truncated")] {
        let task = row["task_id"].as_str().unwrap();
        let (status, problem) = client.get(&format!("/v1/jobs/{job}/tasks/{task}/content")).await;
        assert_eq!((status, &problem["code"]), (410, &json!("result_damaged")), "{problem}");
        let counted = audit(&server, job, &[]);
        let said = String::from_utf8_lossy(&counted.stdout).into_owned();
        assert!(counted.status.success() && said.contains("bodies were not read"), "{said}");
        let deep = audit(&server, job, &["--deep"]);
        let said = String::from_utf8_lossy(&deep.stdout).into_owned();
        assert_eq!(deep.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("the body of task {task} is {fault}")), "{said}");
    }
    // On S3 a body that has an object of its own is read there, and nobody verifies it on the way (SPEC 5.6).
    if !support::on_aws() {
        assert_eq!(client.text(&body(7)).await.0, 410);
    }
    assert_eq!(client.text(&body(8)).await.0, 200);

    let run = client.job(&many).await["latest_run"]["run_id"].as_str().unwrap().to_owned();
    let exports = format!("/v1/jobs/{many}/runs/{run}/exports");
    let (_, export) = client.post_json(&exports, &json!({})).await;
    let export = format!("{exports}/{}", export["export_id"].as_str().unwrap());
    let is_over =
        |(_, export): &(u16, Value)| !matches!(export["status"].as_str(), Some("pending" | "running"));
    let ask = async || client.get(&export).await;
    let (_, done) = support::until_fits("the export is made", ask, is_over).await;
    assert_eq!(done["status"], "completed", "{done}");
    assert!(done["download_url_expires_at"].as_str() <= done["expires_at"].as_str(), "{done}");
    let zip = client.text(done["download_url"].as_str().unwrap()).await.1;
    let name = format!("{}.damaged.json", results[7]["task_id"].as_str().unwrap());
    assert!(zip.contains(&name), "the damage is named in the file");
    server.stop().await;
}
