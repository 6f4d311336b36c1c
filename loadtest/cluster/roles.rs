//! The processes of a cluster.

use crate::place::Place;
use anyhow::{Context, Result, bail, ensure};
use futures::future::{select_all, try_join_all};
use rustix::process::{Pid, Signal, kill_process};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

const START_WITHIN: Duration = Duration::from_secs(180);
/// How often a worker is asked whether it is shutting down.
const LOOK_EVERY: Duration = Duration::from_millis(5);

#[derive(Debug)]
struct Role {
    name: &'static str,
    child: Child,
    address: String,
}

#[derive(Debug)]
pub struct Roles(Vec<Role>);

/// The `conveyor` that was built beside this program.
fn conveyor() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let path = own.with_file_name("conveyor");
    ensure!(path.is_file(), "{} is not built", path.display());
    Ok(path)
}

pub fn provision(place: &Place) -> Result<()> {
    let mut command = std::process::Command::new(conveyor()?);
    let done = command.arg("provision").envs(place.variables()).stdout(Stdio::null()).status()?;
    ensure!(done.success(), "conveyor provision ended with {done}");
    Ok(())
}

impl Roles {
    pub async fn start(place: &Place, flags: &[String], each: usize) -> Result<Roles> {
        let program = conveyor()?;
        let mut starting = Vec::new();
        for name in ["api", "ingest", "worker", "sweeper"] {
            for number in 0..each {
                // Ends with us, also when we are killed. Started by the main thread, which lives as long as the process.
                let mut command = Command::new("setpriv");
                command.args(["--pdeathsig", "KILL"]).arg(&program).arg(name).args(flags);
                command.args(["--listen", "127.0.0.1:0"]);
                command.arg("--data-dir").arg(place.folder.join(format!("{name}-{number}")));
                command
                    .envs(place.variables())
                    .stdin(Stdio::null())
                    .stdout(Stdio::piped())
                    .kill_on_drop(true);
                let child = command.spawn().context("cannot start conveyor")?;
                starting.push(Role { name, child, address: String::new() });
            }
        }
        let waiting = try_join_all(starting.into_iter().map(Role::listening));
        Ok(Roles(tokio::time::timeout(START_WITHIN, waiting).await.context("a role does not start")??))
    }

    pub fn apis(&self) -> Vec<String> {
        self.0.iter().filter(|role| role.name == "api").map(|role| role.address.clone()).collect()
    }

    /// Which one ended by itself, and how.
    pub async fn first_to_end(&mut self) -> String {
        let ends = self.0.iter_mut().map(|role| {
            Box::pin(async {
                let status = role.child.wait().await;
                format!("{} ended unexpectedly: {status:?}", role.name)
            })
        });
        select_all(ends).await.0
    }

    /// Sends SIGTERM to all: to the workers first, and to the others once every worker is shutting down. A test that sees an
    /// API shut down can then rely on the state of the workers.
    pub async fn signal(&self) -> Result<()> {
        let (workers, others): (Vec<_>, Vec<_>) = self.0.iter().partition(|role| role.name == "worker");
        let http = conveyor_outbound::client_builder().no_proxy().build()?;
        workers.iter().try_for_each(|role| role.terminate())?;
        for role in workers {
            while !role.is_shutting_down(&http).await {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
        others.iter().try_for_each(|role| role.terminate())
    }

    /// Waits until all have ended in good order.
    pub async fn end(&mut self) -> Result<()> {
        for role in &mut self.0 {
            let status = role.child.wait().await?;
            ensure!(status.success(), "conveyor {} ended with {status}", role.name);
        }
        Ok(())
    }
}

impl Role {
    fn terminate(&self) -> Result<()> {
        if let Some(id) = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            kill_process(id, Signal::TERM)?;
        }
        Ok(())
    }

    /// Whether it says that it is shutting down, or takes no connections any more.
    async fn is_shutting_down(&self, http: &reqwest::Client) -> bool {
        match http.get(format!("http://{}/readyz", self.address)).send().await {
            Ok(answer) => answer.text().await.is_ok_and(|text| text.contains("shutting down")),
            Err(_) => true,
        }
    }

    /// Waits until it says where it listens, and then reads on so that it can.
    async fn listening(mut self) -> Result<Role> {
        let stdout = self.child.stdout.take().context("stdout is piped")?;
        let mut lines = BufReader::new(stdout).lines();
        while let Some(line) = lines.next_line().await? {
            if let Some(address) = line.strip_prefix("listening on http://") {
                self.address = address.to_owned();
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return Ok(self);
            }
        }
        bail!("conveyor {} ended before it listened", self.name)
    }
}
