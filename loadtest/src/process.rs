//! Servers that a measurement starts: waited for, watched, and ended whatever happens.

use anyhow::{Context, bail, ensure};
use reqwest::Url;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How much of a log is shown when a server ends on its own.
const LOG_TAIL_BYTES: usize = 2000;

/// A process of ours with its output in files. Dropping it ends it and waits until it is gone.
#[derive(Debug)]
pub struct Service {
    name: &'static str,
    child: Child,
    /// What ends it at once, with everything that it started.
    at_once: Signal,
    out: PathBuf,
    log: PathBuf,
}

impl Service {
    /// Starts it with stdout and stderr in files of that folder.
    pub fn start(
        name: &'static str,
        command: &mut Command,
        folder: &Path,
        at_once: Signal,
    ) -> anyhow::Result<Service> {
        let (out, log) = (folder.join("stdout"), folder.join("stderr"));
        let child = command
            .stdin(Stdio::null())
            .stdout(File::create(&out)?)
            .stderr(File::create(&log)?)
            .spawn()
            .with_context(|| format!("cannot start {name}: {}", command.get_program().display()))?;
        Ok(Service { name, child, at_once, out, log })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to stdout so far.
    pub fn stdout(&self) -> anyhow::Result<String> {
        Ok(fs::read_to_string(&self.out)?)
    }

    /// Asks again and again until there is an answer. A server that ends meanwhile, or takes too long, is an error.
    pub async fn wait_for<T>(
        &mut self,
        mut ask: impl FnMut(&Service) -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<T> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            self.expect_running()?;
            if let Some(answer) = ask(self)? {
                return Ok(answer);
            }
            ensure!(Instant::now() < deadline, "{} does not come up: {}", self.name, tail(&self.log));
            sleep(LOOK_EVERY).await;
        }
    }

    /// An error if it has ended.
    pub fn expect_running(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("{} ended with {status}: {}", self.name, tail(&self.log)),
            None => Ok(()),
        }
    }

    /// SIGTERM, and the time to end in good order.
    pub async fn stop(mut self) -> anyhow::Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        let deadline = Instant::now() + STOP_TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            ensure!(Instant::now() < deadline, "SIGTERM did not end {}: {}", self.name, tail(&self.log));
            sleep(LOOK_EVERY).await;
        }
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), signal)
            .with_context(|| format!("cannot signal {}", self.name))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // Waiting also keeps its folder from being removed under it.
            let _ = self.signal(self.at_once);
            let _ = self.child.wait();
        }
    }
}

fn tail(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(LOG_TAIL_BYTES)..]).trim().to_owned()
}

/// The program that is measured: the one that was named, or the `conveyor` beside this one.
pub fn conveyor_program(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    let program = match named {
        Some(program) => program.to_owned(),
        None => std::env::current_exe()?.with_file_name("conveyor"),
    };
    ensure!(
        program.is_file(),
        "there is no {}: build it (cargo build --release), or name it with --conveyor",
        program.display()
    );
    Ok(program)
}

/// Where a role of Conveyor says that it listens.
pub fn listening(stdout: &str) -> anyhow::Result<Option<Url>> {
    // Only whole lines: the last one may still be written.
    let whole = stdout.rsplit_once('\n').map_or("", |(whole, _)| whole);
    match whole.lines().find_map(|line| line.strip_prefix("listening on ")) {
        Some(url) => Ok(Some(url.trim().parse().context("conveyor listens on what is not a URL")?)),
        None => Ok(None),
    }
}

/// Memory of a process in MB, as the kernel counts it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Memory {
    #[serde(rename = "peak_memory_mb")]
    pub peak_mb: f64,
    #[serde(rename = "memory_mb")]
    pub resident_mb: f64,
}

pub fn memory_of(process: u32) -> anyhow::Result<Memory> {
    let path = format!("/proc/{process}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    parse_memory(&status).with_context(|| format!("{path} does not tell the memory"))
}

fn parse_memory(status: &str) -> Option<Memory> {
    let mb = |name: &str| -> Option<f64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let kb: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some((kb / 1024.0 * 10.0).round() / 10.0)
    };
    Some(Memory { peak_mb: mb("VmHWM")?, resident_mb: mb("VmRSS")? })
}

/// Runs work until it is done or we are told to stop; then what it started is dropped, and so ended.
pub async fn unless_stopped<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::select! {
        done = work => done,
        signal = stop_signal() => {
            signal?;
            bail!("stopped by a signal")
        }
    }
}

pub async fn stop_signal() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_the_whole_line() {
        let at = |stdout| listening(stdout).unwrap().map(String::from);
        assert_eq!(at(""), None);
        assert_eq!(at("listening on http://127.0.0.1:80"), None);
        assert_eq!(
            at("api key: k\nlistening on http://127.0.0.1:8081\n").as_deref(),
            Some("http://127.0.0.1:8081/")
        );
        assert!(listening("listening on nothing\n").is_err());
    }

    #[test]
    fn memory_is_read_in_mb() {
        let status = "Name:\tconveyor\nVmPeak:\t  999 kB\nVmHWM:\t   52224 kB\nVmRSS:\t   1075 kB\n";
        assert_eq!(parse_memory(status), Some(Memory { peak_mb: 51.0, resident_mb: 1.0 }));
        assert_eq!(parse_memory("Name:\tkthreadd\n"), None);
        assert!(memory_of(std::process::id()).unwrap().peak_mb > 1.0);
    }
}
