//! Task queues for Node, each driven by a small script of ours.

use super::{missing, on_path};
use crate::list::List;
use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

const INSTALL_TIMEOUT: Duration = Duration::from_secs(900);
const MEASURE_TIMEOUT: Duration = Duration::from_secs(900);

/// Exact versions. The Node is among them because the packages want a newer one than Debian has; rrule-temporal, which
/// only schedules use, because pg-boss asks for a version that mirrors may not have yet.
const PACKAGES: &str = include_str!("../../floors/package.json");
/// They are part of this program, so that it can be run from anywhere.
const SCRIPTS: [(&str, &str); 4] = [
    ("rows.mjs", include_str!("../../floors/rows.mjs")),
    (BULLMQ.script, include_str!("../../floors/bullmq.mjs")),
    (PG_BOSS.script, include_str!("../../floors/pg-boss.mjs")),
    (GRAPHILE_WORKER.script, include_str!("../../floors/graphile-worker.mjs")),
];

/// A script, and the batches with which it was fastest: 1,000 and 5,000 rows, 1 to 4 at once, were tried.
#[derive(Debug)]
pub struct Peer {
    script: &'static str,
    batch: u32,
    in_flight: u32,
}

pub const BULLMQ: Peer = Peer { script: "bullmq.mjs", batch: 1000, in_flight: 4 };
pub const PG_BOSS: Peer = Peer { script: "pg-boss.mjs", batch: 5000, in_flight: 2 };
pub const GRAPHILE_WORKER: Peer = Peer { script: "graphile-worker.mjs", batch: 1000, in_flight: 2 };

/// Rows a second of each.
#[derive(Clone, Debug, Serialize)]
pub struct Peers {
    #[serde(rename = "bullmq_rows_per_second")]
    pub bullmq: f64,
    #[serde(rename = "bullmq_fsync_always_rows_per_second")]
    pub bullmq_fsync_always: f64,
    #[serde(rename = "pg_boss_rows_per_second")]
    pub pg_boss: f64,
    #[serde(rename = "graphile_worker_rows_per_second")]
    pub graphile_worker: f64,
}

/// What a script prints.
#[derive(Debug, Deserialize)]
struct Answer {
    rows: u64,
    seconds: f64,
}

/// The scripts with what they need, in a folder.
#[derive(Debug)]
pub struct Tools {
    folder: PathBuf,
    node: PathBuf,
}

/// Under the target directory, where cargo's other products are.
pub fn default_folder() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    workspace.join(target).join("floors")
}

impl Tools {
    /// Installs what is not there yet, and says so.
    pub async fn install(folder: PathBuf) -> anyhow::Result<Tools> {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "x64",
            "aarch64" => "arm64",
            other => bail!("the floors have no Node for {other}"),
        };
        let tools = Tools {
            node: folder.join(format!("node_modules/node-linux-{architecture}/bin/node")),
            folder: folder.clone(),
        };
        tools.write().await.with_context(|| format!("cannot install into {}", folder.display()))?;
        ensure!(tools.node.is_file(), "npm installed no {}", tools.node.display());
        Ok(tools)
    }

    async fn write(&self) -> anyhow::Result<()> {
        fs::create_dir_all(&self.folder)?;
        for (name, text) in SCRIPTS {
            fs::write(self.folder.join(name), text)?;
        }
        // Written last: half an installation has none.
        let stamp = self.folder.join("installed.json");
        if fs::read_to_string(&stamp).is_ok_and(|installed| installed == PACKAGES) {
            return Ok(());
        }
        let npm = on_path("npm").ok_or_else(|| missing("npm", "npm"))?;
        eprintln!("installing the packages of loadtest/floors/package.json into {}", self.folder.display());
        fs::write(self.folder.join("package.json"), PACKAGES)?;
        // npm may run on an older Node than the one it installs, hence no word about engines.
        let mut install = Command::new(npm);
        install
            .args(["install", "--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund"])
            .args(["--engine-strict=false", "--loglevel=error"])
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(std::io::stderr())
            .kill_on_drop(true);
        let status = timeout(INSTALL_TIMEOUT, install.status()).await.context("npm takes too long")??;
        ensure!(status.success(), "npm install: {status}");
        fs::write(stamp, PACKAGES)?;
        Ok(())
    }

    /// Has a peer take the first rows of the list, and says how many seconds it took.
    pub async fn measure(&self, peer: &Peer, socket: &Path, list: &List, rows: u64) -> anyhow::Result<f64> {
        let mut script = Command::new(&self.node);
        script
            .arg(self.folder.join(peer.script))
            .args([socket, &list.path])
            .args([rows, peer.batch.into(), peer.in_flight.into()].map(|number| number.to_string()))
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .kill_on_drop(true);
        let output = timeout(MEASURE_TIMEOUT, script.output());
        let output = output.await.with_context(|| format!("{} takes too long", peer.script))??;
        ensure!(output.status.success(), "{}: {}", peer.script, output.status);
        let answer: Answer = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("{} did not answer as agreed", peer.script))?;
        ensure!(answer.rows == rows, "{} took {} of {rows} rows", peer.script, answer.rows);
        Ok(answer.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn packages_are_pinned_to_the_digit() {
        let packages: Value = serde_json::from_str(PACKAGES).unwrap();
        for group in ["dependencies", "optionalDependencies", "overrides"] {
            for (name, version) in packages[group].as_object().unwrap() {
                let version = version.as_str().unwrap();
                assert!(version.split('.').all(|part| part.parse::<u32>().is_ok()), "{name} {version}");
            }
        }
    }
}
