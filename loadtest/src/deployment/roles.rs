//! The roles of Conveyor as processes of their own.

use crate::process::{Service, listening};
use anyhow::{Context, ensure};
use reqwest::{Client, Url};
use rustix::process::Signal;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const SCRAPE_TIMEOUT: Duration = Duration::from_secs(10);

/// Processes that are ended when this is dropped.
#[derive(Debug)]
pub struct Roles {
    program: PathBuf,
    variables: Vec<(OsString, OsString)>,
    folder: PathBuf,
    client: Client,
    running: Vec<Role>,
    started: usize,
}

#[derive(Debug)]
struct Role {
    name: &'static str,
    service: Service,
    url: Url,
}

impl Roles {
    /// Logs and whatever else the roles write go into the folder.
    pub fn new(
        program: PathBuf,
        variables: Vec<(OsString, OsString)>,
        folder: &Path,
    ) -> anyhow::Result<Roles> {
        let client = conveyor_outbound::client_builder().no_proxy().timeout(SCRAPE_TIMEOUT).build()?;
        Ok(Roles { program, variables, folder: folder.to_owned(), client, running: Vec::new(), started: 0 })
    }

    /// Makes the table, the queues and the bucket.
    pub async fn provision(&self) -> anyhow::Result<()> {
        let mut command = tokio::process::Command::from(self.command("provision", &self.folder));
        let done = command.kill_on_drop(true).output().await.context("cannot start conveyor provision")?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "conveyor provision ended with {}: {}", done.status, said.trim());
        Ok(())
    }

    /// Starts a role and waits until it serves.
    pub async fn start(&mut self, name: &'static str, flags: &[String]) -> anyhow::Result<Url> {
        let folder = self.folder.join(format!("{name}-{}", self.started));
        self.started += 1;
        fs::create_dir(&folder)?;
        let mut command = self.command(name, &folder);
        command.args(flags).env("CONVEYOR_LISTEN", "127.0.0.1:0");
        let mut service = Service::start(name, &mut command, &folder, Signal::KILL)?;
        let url = service.wait_for(|service| listening(&service.stdout()?)).await?;
        self.running.push(Role { name, service, url: url.clone() });
        Ok(url)
    }

    /// Their ids, in the order of their start.
    pub fn processes(&self) -> impl Iterator<Item = u32> {
        self.running.iter().map(|role| role.service.id())
    }

    /// SIGKILL, and it is gone.
    pub fn kill(&mut self, url: &Url) -> anyhow::Result<()> {
        let place = self.running.iter().position(|role| role.url == *url);
        drop(self.running.remove(place.with_context(|| format!("no role of ours listens on {url}"))?));
        Ok(())
    }

    /// The metrics of all of them, a page each.
    pub async fn metrics(&mut self) -> anyhow::Result<Vec<String>> {
        self.expect_running()?;
        let mut pages = Vec::new();
        for role in &self.running {
            pages.push(self.page(role).await?);
        }
        Ok(pages)
    }

    pub async fn metrics_of(&mut self, url: &Url) -> anyhow::Result<String> {
        self.expect_running()?;
        let role = self.running.iter().find(|role| role.url == *url);
        self.page(role.with_context(|| format!("no role of ours listens on {url}"))?).await
    }

    async fn page(&self, role: &Role) -> anyhow::Result<String> {
        let page = self.client.get(role.url.join("/metrics")?).send().await;
        let page = page.and_then(reqwest::Response::error_for_status);
        Ok(page.with_context(|| format!("{} shows no metrics", role.name))?.text().await?)
    }

    /// A role that has ended on its own is an error, with the end of its log.
    pub fn expect_running(&mut self) -> anyhow::Result<()> {
        self.running.iter_mut().try_for_each(|role| role.service.expect_running())
    }

    /// In the reverse order of their start.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        while let Some(role) = self.running.pop() {
            let status = role.service.stop().await?;
            ensure!(status.success(), "conveyor {} ended with {status} when it was told to stop", role.name);
        }
        Ok(())
    }

    fn command(&self, name: &str, folder: &Path) -> Command {
        let mut command = Command::new(&self.program);
        // Settings of the caller's shell must not change what is measured.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CONVEYOR_") {
                command.env_remove(name);
            }
        }
        // Whatever a role thinks that it must keep: not in the caller's folder.
        command.arg(name).env("CONVEYOR_DATA_DIR", folder.join("data"));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}
