//! AWS-compatible servers for the steps that need them: installed while the workspace compiles, started once for all steps.

use crate::exec::cpu_of;
use crate::workspace::{Variable, Workspace};
use anyhow::{Result, bail};
use conveyor_aws_servers::{Combination, Environment, Installation, Kind, Server, default_pair};
use std::time::Duration;

/// Installs what is missing, and says how it went.
pub fn install(workspace: &Workspace) -> Result<()> {
    let failed = Installation::under(&workspace.target)
        .install_all(&Kind::here())
        .into_iter()
        .filter_map(|installed| Some(format!("{}: {:#}", installed.kind.name(), installed.folder.err()?)))
        .collect::<Vec<_>>();
    if !failed.is_empty() {
        bail!("{}", failed.join("; "));
    }
    Ok(())
}

/// Servers of every kind, which all steps share; they end when this is dropped.
#[derive(Debug)]
pub struct Servers(Vec<Server>);

impl Servers {
    pub fn start(workspace: &Workspace) -> Result<Servers> {
        Ok(Servers(Server::start_all(&Installation::under(&workspace.target), &Kind::here())?))
    }

    /// What makes the SDK of any process use these.
    pub fn environment(&self) -> Result<Vec<Variable>> {
        let urls: Vec<_> = self.0.iter().map(|server| (server.kind(), server.url().to_owned())).collect();
        let environment = Environment::of(Combination::Default, &urls)?;
        Ok(environment.variables().map(|(name, value)| (name, value.to_owned())).into())
    }

    /// What makes tests use these instead of starting their own.
    pub fn variables(&self) -> Vec<Variable> {
        let (name, value) = default_pair().variable();
        let urls = self.0.iter().map(|server| (server.kind().url_variable(), server.url().to_owned()));
        urls.chain([(name, value.to_owned())]).collect()
    }

    pub fn cpu(&self) -> Duration {
        self.0.iter().map(|server| cpu_of(server.process_id())).sum()
    }

    pub fn describe(&self) -> String {
        let one = |server: &Server| format!("{} {}", server.kind().name(), server.kind().version());
        self.0.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}
