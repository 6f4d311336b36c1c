//! `loadtest floors`: how fast others take the same rows, on the same disk, in the same run.
//!
//! Each is measured on a fresh server of its own, in its usual durable setting, by the fastest bulk way that it
//! documents. What is missing fails the measurement; nothing is left out in silence.

mod peers;
mod postgres;
mod redis;

use crate::list::List;
use crate::process::unless_stopped;
use crate::round;
use anyhow::{Context, ensure};
use clap::Args;
pub use peers::Peers;
use peers::Tools;
use postgres::Programs;
use serde::Serialize;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio::process::Command;

/// Measure what others do with the same rows: PostgreSQL COPY, BullMQ, pg-boss, graphile-worker
///
/// COPY takes --rows rows in one transaction, before and after the others. The others take --floor-rows of the same
/// rows, in batches: BullMQ by Queue.addBulk, on Redis with its append-only file synced every second (and once more
/// with every write), pg-boss by insert, graphile-worker by add_jobs. The servers are started here on Unix sockets in a
/// temporary folder, PostgreSQL with its default settings, Redis without snapshots, and ended here. One JSON object is
/// printed on stdout.
///
/// Needs PostgreSQL, Redis and npm (Debian: postgresql, redis-server, npm). The Node packages, and a Node that is new
/// enough for them, are installed into target/floors at the first run.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// How many rows COPY takes
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    rows: u64,
    #[command(flatten)]
    bench: BenchSettings,
}

/// What `ingest` and `floors` have in common.
#[derive(Clone, Debug, Args)]
pub struct BenchSettings {
    /// How many rows BullMQ, pg-boss and graphile-worker take, at most the list; they are slow
    #[arg(long, value_name = "NUMBER", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    floor_rows: u64,
    /// Where lists and databases are written, and removed again: it should be on the disk that is to be measured
    #[arg(long, value_name = "FOLDER", default_value_os_t = std::env::temp_dir())]
    scratch_dir: PathBuf,
    /// Where Node packages are installed [default: target/floors of the workspace]
    #[arg(long, value_name = "FOLDER")]
    tools_dir: Option<PathBuf>,
}

impl BenchSettings {
    pub fn scratch(&self) -> anyhow::Result<TempDir> {
        let folder = &self.scratch_dir;
        tempfile::Builder::new()
            .prefix("loadtest-")
            .tempdir_in(folder)
            .with_context(|| format!("cannot write to --scratch-dir {}", folder.display()))
    }
}

/// All that was measured, in rows a second.
#[derive(Clone, Debug, Serialize)]
pub struct Floors {
    copy_rows: u64,
    #[serde(rename = "copy_before_rows_per_second")]
    copy_before: f64,
    #[serde(rename = "copy_after_rows_per_second")]
    copy_after: f64,
    /// The mean of both.
    #[serde(rename = "copy_rows_per_second")]
    pub copy: f64,
    floor_rows: u64,
    #[serde(flatten)]
    pub peers: Peers,
}

impl Floors {
    pub fn new(copy_rows: u64, floor_rows: u64, copy: (f64, f64), peers: Peers) -> Floors {
        let (copy_before, copy_after) = copy;
        let mean = ((copy_before + copy_after) / 2.0).round();
        Floors { copy_rows, copy_before, copy_after, copy: mean, floor_rows, peers }
    }
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    #[serde(flatten)]
    floors: Floors,
}

pub async fn run(settings: Settings) -> anyhow::Result<()> {
    let floors = unless_stopped(take(&settings)).await?;
    println!("{}", serde_json::to_string(&Report { bench: "floors", floors })?);
    Ok(())
}

async fn take(settings: &Settings) -> anyhow::Result<Floors> {
    let scratch = settings.bench.scratch()?;
    let bench = Bench::prepare(&settings.bench).await?;
    eprintln!("writing a list of {} rows", settings.rows);
    let list = List::write(scratch.path(), settings.rows).await?;
    let indexed = List::write_indexed(scratch.path(), settings.rows).await?;
    let before = bench.copy(&indexed).await?;
    let peers = bench.peers(&list).await?;
    let after = bench.copy(&indexed).await?;
    Ok(bench.floors(&list, (before, after), peers))
}

/// Everything that is needed, found or installed.
#[derive(Debug)]
pub struct Bench {
    settings: BenchSettings,
    postgres: Programs,
    redis: PathBuf,
    tools: Tools,
}

impl Bench {
    pub async fn prepare(settings: &BenchSettings) -> anyhow::Result<Bench> {
        let postgres = Programs::find()?;
        let redis = redis::find()?;
        let tools = Tools::install(settings.tools_dir.clone().unwrap_or_else(peers::default_folder)).await?;
        Ok(Bench { settings: settings.clone(), postgres, redis, tools })
    }

    /// Rows a second of PostgreSQL COPY.
    pub async fn copy(&self, indexed: &List) -> anyhow::Result<f64> {
        let scratch = &self.settings.scratch_dir;
        let server = self.postgres.start(scratch).await?;
        sync(scratch).await?;
        let seconds = server.copy(indexed).await?;
        Ok(said("PostgreSQL COPY", indexed.rows, seconds))
    }

    pub async fn peers(&self, list: &List) -> anyhow::Result<Peers> {
        let rows = self.floor_rows(list);
        let (everysec, always) = (self.bullmq(list, "everysec").await?, self.bullmq(list, "always").await?);
        Ok(Peers {
            bullmq: said("BullMQ", rows, everysec),
            bullmq_fsync_always: said("BullMQ, fsync always", rows, always),
            pg_boss: said("pg-boss", rows, self.on_postgres(&peers::PG_BOSS, list).await?),
            graphile_worker: said(
                "graphile-worker",
                rows,
                self.on_postgres(&peers::GRAPHILE_WORKER, list).await?,
            ),
        })
    }

    pub fn floors(&self, list: &List, copy: (f64, f64), peers: Peers) -> Floors {
        Floors::new(list.rows, self.floor_rows(list), copy, peers)
    }

    fn floor_rows(&self, list: &List) -> u64 {
        self.settings.floor_rows.min(list.rows)
    }

    async fn bullmq(&self, list: &List, fsync: &str) -> anyhow::Result<f64> {
        let scratch = &self.settings.scratch_dir;
        let server = redis::Server::start(&self.redis, scratch, fsync).await?;
        sync(scratch).await?;
        self.tools.measure(&peers::BULLMQ, &server.socket, list, self.floor_rows(list)).await
    }

    async fn on_postgres(&self, peer: &peers::Peer, list: &List) -> anyhow::Result<f64> {
        let scratch = &self.settings.scratch_dir;
        let server = self.postgres.start(scratch).await?;
        sync(scratch).await?;
        self.tools.measure(peer, server.socket_folder(), list, self.floor_rows(list)).await
    }
}

fn said(name: &str, rows: u64, seconds: f64) -> f64 {
    let rate = round::rate(rows, seconds);
    eprintln!("{name}: {rows} rows in {seconds:.2} s, {rate} rows/s");
    rate
}

/// Has the disk write what others left behind, so that whoever is measured next does not pay for it.
pub async fn sync(folder: &Path) -> anyhow::Result<()> {
    let status = Command::new("sync").arg("-f").arg(folder).kill_on_drop(true).status().await;
    let status = status.context("cannot run sync")?;
    ensure!(status.success(), "sync -f {}: {status}", folder.display());
    Ok(())
}

/// Why a program is missing, and where it is had.
fn missing(program: &str, package: &str) -> anyhow::Error {
    anyhow::anyhow!("the floors need {program}, and it is not there (Debian: apt-get install {package})")
}

/// A program on the PATH.
fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_on_the_path_or_missed_by_name() {
        assert!(on_path("sh").is_some_and(|file| file.is_absolute()));
        assert_eq!(on_path("no-such-program"), None);
        let said = missing("redis-server", "redis-server").to_string();
        assert!(said.contains("apt-get install redis-server"));
    }
}
