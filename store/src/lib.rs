//! Where state lives: the ports that the roles speak, the rules every backend obeys, and the backends.
//!
//! Roles know [`port`], never a backend. A backend knows the domain's decisions and carries each out in one atomic step.
//! `conformance`, a feature that only tests turn on, holds one function per rule; a backend is one that passes them all.

pub mod admission;
mod bodies;
pub mod clock_watch;
#[cfg(feature = "conformance")]
pub mod conformance;
mod due;
pub mod embedded;
pub mod port;
pub mod server_time;
pub mod template;

pub use bodies::{check_body, read_body};
pub use due::Due;
pub use port::{Blobs, Coordinator, Error, Queue, Result, Store};

use port::{Capabilities, DirectAccess};
use std::sync::Arc;
use tokio::sync::watch;

/// One backend of each port: what a role is given.
#[derive(Clone)]
pub struct Backend {
    pub store: Arc<dyn Store>,
    pub queue: Arc<dyn Queue>,
    pub blobs: Arc<dyn Blobs>,
    pub coordinator: Arc<dyn Coordinator>,
    /// How callers get at objects without us in between, where they can.
    pub direct: Option<Arc<dyn DirectAccess>>,
    pub capabilities: Capabilities,
    /// See [`Backend::changes`].
    pub changed: watch::Receiver<u64>,
}

impl Backend {
    /// Moves when this process may have made a message receivable. A hint: a backend that cannot tell never moves it.
    pub fn changes(&self) -> watch::Receiver<u64> {
        let mut changes = self.changed.clone();
        changes.mark_unchanged();
        changes
    }
}

impl std::fmt::Debug for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Backend")
    }
}
