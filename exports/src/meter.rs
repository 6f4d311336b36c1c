use conveyor_domain::export::Progress;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// How far a build is, for whoever renews its lease.
#[derive(Debug)]
pub(crate) struct Meter {
    total: u32,
    tasks: AtomicU32,
    bytes: AtomicU64,
}

impl Meter {
    pub fn new(total: u32) -> Meter {
        Meter { total, tasks: AtomicU32::new(0), bytes: AtomicU64::new(0) }
    }

    pub fn add_task(&self) {
        self.tasks.fetch_add(1, Ordering::Relaxed);
    }

    pub fn add_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub fn tasks(&self) -> u32 {
        self.tasks.load(Ordering::Relaxed)
    }

    pub fn progress(&self) -> Progress {
        let tasks_done = self.tasks();
        // A run that goes on had fewer when this began.
        let tasks_total = self.total.max(tasks_done);
        Progress { tasks_done, tasks_total, bytes: self.bytes.load(Ordering::Relaxed) }
    }
}
