//! Files of a run's results: built when they are due, removed when their time is over (SPEC 6.22).
//!
//! It knows the ports and what the domain decides about an export; never a backend, never another role. An export is a
//! record, and every step is a write of it that names the version before: whoever loses one has lost the export. How large a
//! run is decides how long a build takes, and never how much memory.

mod attempt;
mod bodies;
mod build;
mod held;
mod meter;
mod rows;
mod sink;
mod take;
mod trouble;
mod turns;
mod zip;

pub use attempt::End;
pub use take::Taken;
pub use turns::run;

use conveyor_domain::{Clock, Entropy, Export, WorkerId, limits};
use conveyor_store::Backend;
use conveyor_store::port::BlobKey;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What an operator decides about exports.
#[derive(Clone, Copy, Debug)]
pub struct ExportConfig {
    /// Long exports of one caller that this process builds at once, and as many short ones. All callers together: twice that.
    pub exports_max: u32,
    /// An export of a run with up to so many tasks is a short one.
    pub small_max_tasks: u32,
    /// Bodies that go into one, all together.
    pub max_bytes: u64,
    /// Bodies in memory for one export, about.
    pub ahead_max_bytes: usize,
    /// How much of a zip's directory is in memory.
    pub directory_bytes: usize,
}

impl Default for ExportConfig {
    fn default() -> Self {
        ExportConfig {
            exports_max: limits::EXPORTS_MAX,
            small_max_tasks: limits::EXPORT_SMALL_MAX_TASKS,
            max_bytes: limits::EXPORT_MAX_BYTES,
            ahead_max_bytes: limits::EXPORT_AHEAD_MAX_BYTES,
            directory_bytes: limits::EXPORT_DIRECTORY_BYTES,
        }
    }
}

/// One incarnation of a builder.
#[derive(Debug)]
pub struct Builder {
    id: WorkerId,
    backend: Backend,
    clock: Arc<dyn Clock>,
    entropy: Arc<Entropy>,
    config: ExportConfig,
    objects: AtomicU64,
}

impl Builder {
    pub fn new(
        backend: Backend,
        clock: Arc<dyn Clock>,
        entropy: Arc<Entropy>,
        config: ExportConfig,
    ) -> Builder {
        let id = WorkerId::new(clock.now(), &entropy);
        Builder { id, backend, clock, entropy, config, objects: AtomicU64::new(0) }
    }

    /// A key that nobody has used.
    fn new_key(&self, export: &Export) -> BlobKey {
        let n = self.objects.fetch_add(1, Ordering::Relaxed);
        BlobKey::export(export.job, export.run, export.id, self.id, n)
    }
}
