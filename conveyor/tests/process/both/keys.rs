//! Keys on the command line: made by an operator, good over a kill and a restart, refused once they are revoked.

use crate::support::{self, Client, KEY, Process, conveyor, run, server_command, until, urls};
use serde_json::Value;
use std::process::Output;
use tempfile::TempDir;

const OPERATOR_KEY: &str = "operator-key-0123456789";

fn serve(dir: &TempDir) -> Process {
    let mut command = server_command(&dir.path().join("data"), &["--gateway-url", "demo:"]);
    command.args(["--operator-key", OPERATOR_KEY]);
    Process::start(command)
}

fn keys(server: &Process, operator: &str, args: &[&str]) -> Output {
    let mut command = conveyor();
    command.arg("keys").args(args).env("CONVEYOR_SERVER", &server.url).env("CONVEYOR_OPERATOR_KEY", operator);
    run(command)
}

#[track_caller]
fn made(output: &Output) -> (String, String) {
    assert!(output.status.success(), "{output:?}");
    let key: Value = serde_json::from_slice(&output.stdout).unwrap();
    (key["key_id"].as_str().unwrap().to_owned(), key["key"].as_str().unwrap().to_owned())
}

async fn status(server: &Process, key: &str) -> u16 {
    Client::with_key(server, key).get("/v1/jobs").await.0
}

#[tokio::test]
async fn keys_that_were_made_outlive_a_kill_and_revoked_ones_do_not_come_back() {
    let dir = TempDir::new().unwrap();
    let server = serve(&dir);
    let (_, operator) = made(&keys(&server, OPERATOR_KEY, &["create", "on call", "--operator", "--json"]));
    // The one that was made makes the next.
    let (kept, kept_key) =
        made(&keys(&server, &operator, &["create", "kept", "--active-jobs", "0", "--json"]));
    let (revoked, revoked_key) = made(&keys(&server, &operator, &["create", "revoked", "--json"]));
    assert_eq!((status(&server, &kept_key).await, status(&server, &revoked_key).await), (200, 200));
    assert!(keys(&server, &operator, &["revoke", &revoked]).status.success());
    // The process that revoked it refuses it at once, others within 5 s.
    until("the key is refused", async || status(&server, &revoked_key).await == 401).await;
    server.kill();

    let server = serve(&dir);
    for (key, expected) in [(KEY, 200), (kept_key.as_str(), 200), (revoked_key.as_str(), 401)] {
        assert_eq!(status(&server, key).await, expected);
    }
    let body = support::list(&urls("over", 1));
    let (code, problem) = Client::with_key(&server, &kept_key).try_submit(&body).await.unwrap();
    assert_eq!((code, &problem["code"]), (429, &Value::from("quota_exceeded")));
    let listed = keys(&server, &operator, &["list"]);
    let text = String::from_utf8(listed.stdout).unwrap();
    assert!(text.contains(&kept) && text.contains("jobs 0") && !text.contains(&kept_key), "{text}");
    let wrong = keys(&server, KEY, &["list"]);
    assert_eq!(wrong.status.code(), Some(1), "a caller's key is no operator's");
    server.stop().await;
}
