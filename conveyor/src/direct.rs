//! Work on a backend without a server in between, for when none is up.

use crate::server::{BackendArgs, BackendKind, Opened, Repairs, SystemClock, entropy};
use anyhow::ensure;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A backend that this process has for itself, or shares where it can be shared.
pub struct Direct {
    pub operations: Repairs,
    /// On the embedded backend, the lock of its directory.
    _opened: Opened,
}

impl Direct {
    pub async fn open(args: &BackendArgs) -> anyhow::Result<Direct> {
        if args.backend == BackendKind::Embedded {
            // Opening would make a new one, in which nothing is ever wrong.
            let there = args.data_dir.join("conveyor.db").exists();
            ensure!(
                there,
                "there is no data in {}; name another folder with --data-dir",
                args.data_dir.display()
            );
        }
        let clock = Arc::new(SystemClock::new());
        let opened = Opened::open(args, &Arc::new(entropy()?), &clock).await?;
        let operations = Repairs::new(opened.backend(), clock, CancellationToken::new());
        Ok(Direct { operations, _opened: opened })
    }
}
