//! What cannot work is refused with a clear message and status 1, and nothing is lost by it.

use crate::support::{self, Client, Process, conveyor, embedded_command, refused, run, until, urls};
use std::path::Path;
use tempfile::TempDir;

#[tokio::test]
async fn a_port_in_use() {
    let dir = TempDir::new().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = conveyor();
    command.args(["dev", "--listen", &address, "--data-dir"]).arg(dir.path().join("data"));
    let text = refused(command).await;
    assert!(text.contains(&format!("cannot listen on {address}")), "{text}");
    assert!(!dir.path().join("data").exists(), "the data directory was touched");
}

#[tokio::test]
async fn a_data_directory_in_use() {
    let dir = TempDir::new().unwrap();
    let first = support::embedded(dir.path(), &["--gateway-url", "demo:"]);
    let text = refused(embedded_command(dir.path(), &["--gateway-url", "demo:"])).await;
    assert!(text.contains(&format!("in use by process {}", first.id())), "{text}");
    let client = Client::new(&first);
    let job = client.submit(&urls("still-alive", 3)).await;
    client.wait_for(&job, &["completed"]).await;
}

#[tokio::test]
async fn an_unusable_data_directory() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    for path in [file.clone(), file.join("below")] {
        let text = refused(embedded_command(&path, &[])).await;
        assert!(text.contains("cannot use data directory"), "{text}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x");
}

#[tokio::test]
async fn limits_of_domains_that_make_no_sense() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let output = run(embedded_command(&data, &["--domain-limit", "example.com=5"]));
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("--domain-limit") && text.contains("example.com=5"), "{text}");
    let twice = ["--domain-limit", "example.com=5/s", "--domain-limit", "Example.com=inflight=1"];
    let text = refused(embedded_command(&data, &twice)).await;
    assert!(text.contains("--domain-limit example.com is given twice"), "{text}");
    assert!(!data.exists(), "the data directory was touched");
}

#[tokio::test]
async fn limits_of_domains_reach_the_worker() {
    let dir = TempDir::new().unwrap();
    let mut command = embedded_command(dir.path(), &["--gateway-url", "demo:"]);
    command.env("CONVEYOR_DOMAIN_LIMIT", "example.com=0.001/s;*=inflight=2");
    let server = Process::start(command);
    let client = Client::new(&server);
    let job = client.submit(&urls("slow", 5)).await;
    until("a start of the site was taken", async || {
        let (_, shown) = client.get(&format!("/v1/jobs/{job}/limits")).await;
        let site = &shown["domains"][0];
        let rate = &site["rate_limit"];
        site["domain"] == "example.com" && rate["per_second"] == 0.001 && rate["tokens"] == 0
    })
    .await;
    let stats = client.job(&job).await["latest_run"]["stats"].clone();
    assert!(stats["completed"].as_u64().unwrap() <= 1, "{stats}");
    client.post(&format!("/v1/jobs/{job}/stop")).await;
    server.stop().await;
}

/// Makes a data directory with a completed job, and returns the job.
async fn used(dir: &Path) -> String {
    let server = support::embedded(dir, &["--gateway-url", "demo:"]);
    let client = Client::new(&server);
    let job = client.submit(&urls("used", 5)).await;
    client.wait_for(&job, &["completed"]).await;
    server.stop().await;
    job
}

#[tokio::test]
async fn a_newer_data_directory() {
    let dir = TempDir::new().unwrap();
    let job = used(dir.path()).await;
    let written = layout(dir.path());
    set_layout(dir.path(), 99);
    let text = refused(embedded_command(dir.path(), &[])).await;
    assert!(text.contains("has layout 99, newer than"), "{text}");
    // Nothing was changed: with the right version it is all there.
    set_layout(dir.path(), written);
    let server = support::embedded(dir.path(), &["--gateway-url", "demo:"]);
    assert_eq!(Client::new(&server).job(&job).await["latest_run"]["stats"]["successful"], 5);
}

/// `user_version`: the 4-byte big-endian integer at offset 60 of the database header.
fn layout(dir: &Path) -> u8 {
    std::fs::read(dir.join("conveyor.db")).unwrap()[63]
}

fn set_layout(dir: &Path, version: u8) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().write(true).open(dir.join("conveyor.db")).unwrap();
    file.write_all_at(&[0, 0, 0, version], 60).unwrap();
}

#[tokio::test]
async fn a_corrupt_data_directory() {
    let dir = TempDir::new().unwrap();
    used(dir.path()).await;
    std::fs::write(dir.path().join("conveyor.db"), vec![0xa5; 20_000]).unwrap();
    let text = refused(embedded_command(dir.path(), &[])).await;
    assert!(text.contains("is corrupt") && text.contains("Nothing was changed"), "{text}");
    assert_eq!(std::fs::read(dir.path().join("conveyor.db")).unwrap(), vec![0xa5; 20_000]);
}

#[tokio::test]
async fn bad_flags_are_usage_errors() {
    let code = |args: &[&str]| {
        let mut command = conveyor();
        command.args(args);
        let output = run(command);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let bad: [&[&str]; 5] = [
        &["dev", "--gateway-url", "ftp://x"],
        &["dev", "--slots", "0"],
        &["dev", "--listen", "nowhere"],
        &["dev", "--no-such-flag"],
        &["no-such-command"],
    ];
    for args in bad {
        let (code, text) = code(args);
        assert_eq!(code, Some(2), "{args:?}: {text}");
        assert!(text.contains("error:"), "{text}");
    }
}

#[tokio::test]
async fn a_short_api_key_or_a_bad_secret() {
    let dir = TempDir::new().unwrap();
    let mut command = conveyor();
    command.args(["dev", "--listen", "127.0.0.1:0", "--api-key", "short", "--data-dir"]).arg(dir.path());
    let text = refused(command).await;
    assert!(text.contains("at least 16 characters") && !text.contains("short"), "{text}");
    let text = refused(embedded_command(dir.path(), &["--secret-key", "abc"])).await;
    assert!(text.contains("64 hex digits"), "{text}");
}
