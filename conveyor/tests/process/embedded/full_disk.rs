//! A disk that fills: new work is refused, reads go on, nothing that was accepted is lost, and room heals it.

use crate::support::{self, Client, Process, Signal, embedded_command, list, run, until, urls};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const TASKS: usize = 500;
/// A worker that finds no room gives its messages back only after this time.
const FLAGS: [&str; 4] = ["--gateway-url", "demo:", "--visibility-ms", "2000"];

/// A server whose data directory is a file system with a few megabytes left, in a mount namespace of its own.
struct SmallDisk {
    server: Process,
    dir: TempDir,
}

impl SmallDisk {
    fn start() -> SmallDisk {
        let dir = TempDir::new().unwrap();
        let small = dir.path().join("small");
        let server = embedded_command(&small, &FLAGS);
        let words: Vec<String> = std::iter::once(server.get_program())
            .chain(server.get_args())
            .map(|word| format!("'{}'", word.to_string_lossy()))
            .collect();
        // About 6 MB are left to fill. What the ballast gives back has room for the results of all that was accepted, however
        // far the worker got before the disk was full.
        // `exec`: the process that was started is the server, so that killing it leaves nothing behind.
        let script = format!(
            "mkdir {small} && mount -t tmpfs -o size=64m none {small} && head -c 61000000 /dev/zero > {small}/ballast && exec {server}",
            small = small.display(),
            server = words.join(" "),
        );
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
            .env("CONVEYOR_LOG", "warn");
        SmallDisk { server: Process::start(command), dir }
    }

    /// The small disk as seen from inside the namespace.
    fn inside(&self) -> PathBuf {
        let small = self.dir.path().join("small");
        Path::new("/proc")
            .join(self.server.id().to_string())
            .join("root")
            .join(small.strip_prefix("/").unwrap())
    }

    /// Submits until the disk is full. Returns what was accepted.
    async fn fill(&self, client: &Client) -> Vec<String> {
        let mut accepted = Vec::new();
        for n in 0..100 {
            let (status, answer) = client.try_submit(&large(n)).await.unwrap();
            if status != 201 {
                assert_eq!((status, answer["code"].as_str()), (507, Some("storage_full")), "{answer}");
                assert!(!accepted.is_empty(), "nothing was ever accepted");
                return accepted;
            }
            accepted.push(answer["job_id"].as_str().unwrap().to_owned());
        }
        panic!("the disk never filled");
    }
}

fn large(n: usize) -> serde_json::Value {
    list(&urls(&format!("full/{n}/{}", "x".repeat(500)), TASKS))
}

async fn all_complete(client: &Client, jobs: &[String]) {
    for job in jobs {
        let done = client.wait_for(job, &["completed"]).await;
        assert_eq!(done["latest_run"]["stats"]["successful"], TASKS, "{done}");
        assert_eq!(client.results(job).await.len(), TASKS);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_new_work_serves_reads_and_heals() {
    let disk = SmallDisk::start();
    let client = Client::new(&disk.server);
    let accepted = disk.fill(&client).await;
    for job in &accepted {
        assert_eq!(client.job(job).await["latest_run"]["stats"]["total"], TASKS);
    }
    assert_eq!(client.text(&format!("{}/healthz", client.url)).await.0, 200);
    std::fs::remove_file(disk.inside().join("ballast")).unwrap();
    until("a submit is accepted again", async || {
        matches!(client.try_submit(&list(&urls("healed", 1))).await.unwrap(), (201, _))
    })
    .await;
    assert_eq!(client.text(&format!("{}/readyz", client.url)).await.0, 200);
    all_complete(&client, &accepted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_on_a_full_disk_and_moved_to_a_larger_one() {
    let disk = SmallDisk::start();
    let accepted = disk.fill(&Client::new(&disk.server)).await;
    // The disk goes with its namespace: stop the process where it is, keep what the disk holds, then kill it.
    disk.server.signal(Signal::STOP);
    let kept = disk.dir.path().join("kept");
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(disk.inside()).arg(&kept);
    assert!(run(copy).status.success());
    disk.server.kill();
    let server = support::embedded(&kept, &FLAGS);
    all_complete(&Client::new(&server), &accepted).await;
}
