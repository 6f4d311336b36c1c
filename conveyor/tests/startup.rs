//! What cannot work is refused with a clear message and status 1, and nothing is lost by it.

mod support;

use std::path::Path;
use std::process::Command;
use support::{Client, KEY, Process, conveyor, refused, run, server_command, urls};
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
    let first = Process::server(dir.path(), &["--gateway-url", "demo:"]);
    let text = refused(server_command(dir.path(), &["--gateway-url", "demo:"])).await;
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
        let text = refused(server_command(&path, &[])).await;
        assert!(text.contains("cannot use data directory"), "{text}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x");
}

/// Makes a data directory with a completed job, and returns the job.
async fn used(dir: &Path) -> String {
    let server = Process::server(dir, &["--gateway-url", "demo:"]);
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
    set_layout(dir.path(), 2);
    let text = refused(server_command(dir.path(), &[])).await;
    assert!(text.contains("has layout 2, newer than"), "{text}");
    // Nothing was changed: with the right version it is all there.
    set_layout(dir.path(), 1);
    let server = Process::server(dir.path(), &["--gateway-url", "demo:"]);
    assert_eq!(Client::new(&server).job(&job).await["latest_run"]["stats"]["successful"], 5);
}

fn set_layout(dir: &Path, version: u8) {
    use std::os::unix::fs::FileExt;
    // `user_version` is the 4-byte big-endian integer at offset 60 of the database header.
    let file = std::fs::OpenOptions::new().write(true).open(dir.join("conveyor.db")).unwrap();
    file.write_all_at(&[0, 0, 0, version], 60).unwrap();
}

#[tokio::test]
async fn a_corrupt_data_directory() {
    let dir = TempDir::new().unwrap();
    used(dir.path()).await;
    std::fs::write(dir.path().join("conveyor.db"), vec![0xa5; 20_000]).unwrap();
    let text = refused(server_command(dir.path(), &[])).await;
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
    let text = refused(server_command(dir.path(), &["--secret-key", "abc"])).await;
    assert!(text.contains("64 hex digits"), "{text}");
}

/// A file system of a few megabytes, in a mount namespace of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_new_work_and_loses_none() {
    let dir = TempDir::new().unwrap();
    let binary = server_command(&dir.path().join("small"), &["--gateway-url", "demo:"]);
    let words: Vec<String> = std::iter::once(binary.get_program())
        .chain(binary.get_args())
        .map(|a| format!("'{}'", a.to_string_lossy()))
        .collect();
    let small = dir.path().join("small").display().to_string();
    let keep = dir.path().join("keep").display().to_string();
    // When the server is gone the small disk goes with its namespace, so its contents are kept for the restart.
    let script = format!(
        "mkdir {small} && mount -t tmpfs -o size=6m none {small} && {{ {}; code=$?; cp -a {small} {keep}; exit $code; }}",
        words.join(" ")
    );
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]).env("CONVEYOR_LOG", "warn");
    let server = Process::start(command);
    let client = Client::new(&server);
    let mut accepted = Vec::new();
    let mut refusals = 0;
    for n in 0..60 {
        let body = support::list(&urls(&format!("full/{n}/{}", "x".repeat(500)), 500));
        let (status, answer) = client.try_submit(&body).await.unwrap();
        match status {
            201 => accepted.push(answer["job_id"].as_str().unwrap().to_owned()),
            _ => {
                assert_eq!((status, answer["code"].as_str()), (507, Some("storage_full")), "{answer}");
                refusals += 1;
                break;
            }
        }
    }
    assert_eq!(refusals, 1, "the disk never filled");
    assert!(!accepted.is_empty(), "nothing was ever accepted");
    // Reads go on.
    for job in &accepted {
        assert_eq!(client.job(job).await["latest_run"]["stats"]["total"], 500);
    }
    let health = client.text(&format!("{}/healthz", client.url)).await;
    assert_eq!(health.0, 200);
    let server_id = child_of(server.id());
    let killed = Command::new("kill").args(["-9", &server_id]).status().unwrap();
    assert!(killed.success());
    server.wait(support::DEADLINE).await;
    // With room again, everything that was accepted completes.
    let server = Process::server(Path::new(&keep), &["--gateway-url", "demo:"]);
    let client = Client::with_key(&server, KEY);
    for job in &accepted {
        let done = client.wait_for(job, &["completed"]).await;
        assert_eq!(done["latest_run"]["stats"]["successful"], 500, "{done}");
    }
}

/// The server itself, below the shell that was started.
fn child_of(parent: u32) -> String {
    let output = run({
        let mut command = Command::new("pgrep");
        command.args(["-P", &parent.to_string(), "conveyor"]);
        command
    });
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim().to_owned()
}
