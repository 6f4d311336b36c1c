//! A Conveyor with a gateway that records, started for one experiment and ended with it.

use super::queues;
use crate::client::Conveyor;
use crate::deployment::{Place, Roles, total};
use crate::gateway::{self, Serving};
use crate::proxy;
use anyhow::Context;
use clap::ValueEnum;
use conveyor_aws_servers::Combination;
use reqwest::Url;
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// What is left in flight at the end of an experiment is of no interest.
const SHUTDOWN_GRACE_MS: &str = "1000";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// `conveyor dev`: one process is everything
    Embedded,
    /// Each role as a process, on AWS-compatible servers that are started too
    Aws,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub program: PathBuf,
    pub backend: Backend,
    /// On the embedded backend it is always the one.
    pub workers: u32,
    pub worker_flags: Vec<String>,
    /// Of the gateway.
    pub latency_ms: u64,
    /// On the AWS backend: with a proxy in front of DynamoDB.
    pub proxied: bool,
}

/// Fields go in this order: processes end before what they run on.
#[derive(Debug)]
pub struct System {
    roles: Roles,
    pub proxy: Option<proxy::Serving>,
    place: Place,
    pub gateway: Serving,
    scratch: TempDir,
    api: Url,
    workers: Vec<Url>,
    worker_role: &'static str,
    worker_flags: Vec<String>,
}

impl System {
    pub async fn start(plan: &Plan) -> anyhow::Result<System> {
        let scratch = tempfile::Builder::new().prefix("loadtest-").tempdir()?;
        let gateway = Serving::start(gateway::Settings::recording(plan.latency_ms)).await?;
        let mut place = match plan.backend {
            Backend::Embedded => Place::embedded(&scratch.path().join("data"), &gateway.url)?,
            Backend::Aws => Place::start(Combination::Default, &gateway.url).await?,
        };
        place.set([("CONVEYOR_SHUTDOWN_GRACE_MS", SHUTDOWN_GRACE_MS)]);
        let proxy = match place.dynamodb_url().filter(|_| plan.proxied) {
            Some(dynamodb_url) => Some(proxy::Serving::start(dynamodb_url).await?),
            None => None,
        };
        if let Some(proxy) = &proxy {
            place.set([("AWS_ENDPOINT_URL_DYNAMODB", proxy.url.as_str())]);
        }
        let mut roles = Roles::new(plan.program.clone(), place.variables.clone(), scratch.path())?;
        let (api, workers, worker_role) = match plan.backend {
            Backend::Embedded => {
                let url = roles.start("dev", &plan.worker_flags).await?;
                (url.clone(), vec![url], "dev")
            }
            Backend::Aws => {
                roles.provision().await?;
                let api = roles.start("api", &[]).await?;
                roles.start("ingest", &[]).await?;
                roles.start("sweeper", &[]).await?;
                let mut workers = Vec::new();
                for _ in 0..plan.workers {
                    workers.push(roles.start("worker", &plan.worker_flags).await?);
                }
                (api, workers, "worker")
            }
        };
        let worker_flags = plan.worker_flags.clone();
        Ok(System { roles, proxy, place, gateway, scratch, api, workers, worker_role, worker_flags })
    }

    /// The first of two callers.
    pub fn caller(&self) -> anyhow::Result<Conveyor> {
        Conveyor::new(&self.api, &self.place.api_keys[0])
    }

    pub fn other_caller(&self) -> anyhow::Result<Conveyor> {
        Conveyor::new(&self.api, &self.place.api_keys[1])
    }

    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    pub fn workers(&self) -> &[Url] {
        &self.workers
    }

    /// What the metrics of each worker say under a name.
    pub async fn metric_of_each(&mut self, name: &str) -> anyhow::Result<Vec<(Url, u64)>> {
        let mut each = Vec::new();
        for worker in &self.workers {
            let page = self.roles.metrics_of(worker).await?;
            each.push((worker.clone(), total(&page, name).round() as u64));
        }
        Ok(each)
    }

    /// The same of all workers together.
    pub async fn metric(&mut self, name: &str) -> anyhow::Result<u64> {
        Ok(self.metric_of_each(name).await?.into_iter().map(|(_, count)| count).sum())
    }

    /// Messages that were given up. Of the embedded store nobody outside can tell; but only control messages can be given
    /// up there, and a job whose tasks came with its request has none.
    pub async fn dead_letters(&self) -> anyhow::Result<u64> {
        match self.place.sqs_url() {
            Some(sqs_url) => queues::dead_letters(sqs_url).await,
            None => Ok(0),
        }
    }

    /// SIGKILL: no goodbye to anybody.
    pub fn kill(&mut self, worker: &Url) -> anyhow::Result<()> {
        self.workers.retain(|url| url != worker);
        self.roles.kill(worker)
    }

    /// Kills a worker and starts another in its place. On the embedded backend that is everything, so callers have to be
    /// asked for anew.
    pub async fn restart(&mut self, worker: &Url) -> anyhow::Result<()> {
        self.kill(worker)?;
        let url = self.roles.start(self.worker_role, &self.worker_flags).await;
        let url = url.context("the worker did not start again")?;
        if self.api == *worker {
            self.api = url.clone();
        }
        self.workers.push(url);
        Ok(())
    }

    pub fn expect_running(&mut self) -> anyhow::Result<()> {
        self.roles.expect_running()
    }

    /// In good order: also a shutdown is part of what has to work.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.roles.stop().await
    }
}
