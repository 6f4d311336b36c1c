//! AWS-compatible servers for the steps that need them.

use crate::workspace::{Variable, Workspace};
use anyhow::Result;
use conveyor_aws_servers::{Combination, Environment, Installation, Kind, Server};

/// Installs all of them. A step that needs one would do it as well; this one says how long it takes.
pub fn install(workspace: &Workspace) -> Result<()> {
    let installation = Installation::under(&workspace.target);
    for kind in Kind::ALL {
        installation.install(kind)?;
        println!("{} {} is installed", kind.name(), kind.version());
    }
    Ok(())
}

/// Servers of every kind, which all tests of a step share; they end when this is dropped.
pub struct Servers(Vec<Server>);

impl Servers {
    pub fn start(workspace: &Workspace) -> Result<Servers> {
        let servers = Server::start_all(&Installation::under(&workspace.target), &Kind::ALL)?;
        for server in &servers {
            println!("{} {} runs at {}", server.kind().name(), server.kind().version(), server.url());
        }
        Ok(Servers(servers))
    }

    /// What makes the SDK of any process use these.
    pub fn environment(&self) -> Result<Vec<Variable>> {
        let urls: Vec<_> = self.0.iter().map(|server| (server.kind(), server.url().to_owned())).collect();
        let environment = Environment::of(Combination::Default, &urls)?;
        Ok(environment.variables().map(|(name, value)| (name, value.to_owned())).into())
    }

    /// What makes tests use these instead of starting their own.
    pub fn variables(&self) -> Vec<Variable> {
        self.0.iter().map(|server| (server.kind().url_variable(), server.url().to_owned())).collect()
    }
}
