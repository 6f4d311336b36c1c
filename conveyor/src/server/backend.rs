//! The backend that the flags name, opened.

use super::args::{BackendArgs, BackendKind};
use super::aws;
use super::system::SystemClock;
use conveyor_domain::{Clock, Entropy};
use conveyor_store::Backend;
use conveyor_store::embedded::Embedded;
use std::sync::Arc;

/// A backend, for as long as the process has it.
pub enum Opened {
    Embedded(Arc<Embedded>),
    Aws(Backend),
}

impl Opened {
    pub async fn open(
        args: &BackendArgs,
        entropy: &Arc<Entropy>,
        clock: &SystemClock,
    ) -> anyhow::Result<Opened> {
        match args.backend {
            BackendKind::Embedded => Ok(Opened::Embedded(Embedded::open(&args.data_dir, clock.now())?)),
            BackendKind::Aws => Ok(Opened::Aws(aws::open(&args.aws, entropy, clock.server_time()).await?)),
        }
    }

    pub fn backend(&self) -> Backend {
        match self {
            Opened::Embedded(store) => store.backend(),
            Opened::Aws(backend) => backend.clone(),
        }
    }

    /// Resolves, with the reason, when the store can no longer be trusted and the process has to end.
    pub async fn broken(&self) -> String {
        match self {
            Opened::Embedded(store) => store.broken().await,
            // What a service answers can be waited for; there is nothing here that could be left half done.
            Opened::Aws(_) => std::future::pending().await,
        }
    }
}

/// Where it is, for people.
pub fn describe(args: &BackendArgs) -> anyhow::Result<String> {
    match args.backend {
        BackendKind::Embedded => Ok(format!("data in {}", args.data_dir.display())),
        BackendKind::Aws => aws::describe(&args.aws),
    }
}
