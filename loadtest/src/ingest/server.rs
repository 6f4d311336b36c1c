//! The Conveyor that is measured: one that runs already, or one that is started for the occasion.

use crate::client::Conveyor;
use crate::deployment::{Place, Roles};
use crate::gateway;
use crate::process::{Memory, memory_of};
use conveyor_client::JobId;
use reqwest::Url;
use std::path::Path;
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
    roles: Roles,
    _folder: TempDir,
}

impl Server {
    /// One that somebody else runs; its memory is known if its process is.
    pub fn running(url: &Url, api_key: String, process: Option<u32>) -> anyhow::Result<Server> {
        Ok(Server { conveyor: Conveyor::new(url, &api_key)?, process, started: None })
    }

    /// `dev` on a folder of its own, with a gateway that keeps it waiting.
    pub async fn start(program: &Path, scratch: &Path, rows: u64) -> anyhow::Result<Server> {
        let gateway = gateway::serve_silence().await?;
        let folder = tempfile::Builder::new().prefix("conveyor-").tempdir_in(scratch)?;
        let place = Place::embedded(&folder.path().join("data"), &format!("http://{gateway}"))?;
        let mut roles = Roles::new(program.to_owned(), place.variables, folder.path())?;
        let mut flags = vec!["--shutdown-grace-ms".to_owned(), "1000".to_owned()];
        if rows > RUN_TASKS_MAX {
            flags.extend(["--run-tasks-max".to_owned(), rows.to_string()]);
        }
        let url = roles.start("dev", &flags).await?;
        let conveyor = Conveyor::new(&url, &place.api_keys[0])?;
        let process = roles.processes().next();
        Ok(Server { conveyor, process, started: Some(Started { roles, _folder: folder }) })
    }

    pub fn memory(&self) -> anyhow::Result<Option<Memory>> {
        self.process.map(memory_of).transpose()
    }

    /// Leaves things as they were: ends what was started, or takes the job away again.
    pub async fn clean_up(self, job: JobId) -> anyhow::Result<()> {
        match self.started {
            Some(started) => started.roles.stop().await,
            None => {
                self.conveyor.0.stop(job).await?;
                self.conveyor.0.delete_job(job).await?;
                Ok(())
            }
        }
    }
}
