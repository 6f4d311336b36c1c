//! The Conveyor that is measured: one that runs already, or one that is started for the occasion.

use crate::client::Conveyor;
use crate::gateway;
use crate::process::{Memory, Service, listening, memory_of, without_settings};
use anyhow::{Context, ensure};
use reqwest::Url;
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Rows that a run may have unless it is told otherwise.
const RUN_TASKS_MAX: u64 = 1_000_000;

#[derive(Debug)]
pub struct Server {
    pub conveyor: Conveyor,
    process: Option<u32>,
    started: Option<Started>,
}

/// The process goes before its folder.
#[derive(Debug)]
struct Started {
    service: Service,
    _folder: TempDir,
}

impl Server {
    /// One that somebody else runs; its memory is known if its process is.
    pub fn running(url: &Url, api_key: String, process: Option<u32>) -> anyhow::Result<Server> {
        Ok(Server { conveyor: Conveyor::new(url, api_key)?, process, started: None })
    }

    /// `dev` on a folder of its own, with a gateway that keeps it waiting.
    pub async fn start(program: &Path, scratch: &Path, rows: u64) -> anyhow::Result<Server> {
        let gateway = gateway::serve_silence().await?;
        let folder = tempfile::Builder::new().prefix("conveyor-").tempdir_in(scratch)?;
        let data = folder.path().join("data");
        let mut command = Command::new(program);
        without_settings(&mut command);
        command
            .args(["dev", "--listen", "127.0.0.1:0", "--shutdown-grace-ms", "1000"])
            .args(["--gateway-url", &format!("http://{gateway}"), "--data-dir"])
            .arg(&data);
        if rows > RUN_TASKS_MAX {
            command.args(["--run-tasks-max", &rows.to_string()]);
        }
        let mut service = Service::start("conveyor", &mut command, folder.path(), Signal::KILL)?;
        let url = service.wait_for(|service| listening(&service.stdout()?)).await?;
        // Asked for no key, `dev` makes one; so it is on no command line.
        let api_key =
            fs::read_to_string(data.join("api-key")).context("conveyor dev left no api-key file")?;
        let conveyor = Conveyor::new(&url, api_key.trim().to_owned())?;
        let process = Some(service.id());
        Ok(Server { conveyor, process, started: Some(Started { service, _folder: folder }) })
    }

    pub fn memory(&self) -> anyhow::Result<Option<Memory>> {
        self.process.map(memory_of).transpose()
    }

    /// Leaves things as they were: ends what was started, or takes the job away again.
    pub async fn clean_up(self, job_id: &str) -> anyhow::Result<()> {
        match self.started {
            Some(started) => {
                let status = started.service.stop().await?;
                ensure!(status.success(), "conveyor ended with {status} when it was told to stop");
                Ok(())
            }
            None => {
                self.conveyor.stop(job_id).await?;
                self.conveyor.delete(job_id).await
            }
        }
    }
}
