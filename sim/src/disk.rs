//! The data directory, and what a killed process leaves of it.

use crate::violation::{Check, Rule, Violation};
use conveyor_domain::Timestamp;
use conveyor_store::Backend;
use conveyor_store::embedded::Embedded;
use std::fmt::Display;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

#[derive(Debug)]
pub struct Disk {
    // Dropped in this order: the store lets go of the directory before it is removed.
    store: Arc<Embedded>,
    dir: TempDir,
}

impl Disk {
    pub fn new(now: Timestamp) -> Check<Disk> {
        Disk::open(TempDir::new().map_err(unusable)?, now)
    }

    fn open(dir: TempDir, now: Timestamp) -> Check<Disk> {
        Ok(Disk { store: Embedded::open(dir.path(), now).map_err(unusable)?, dir })
    }

    pub fn backend(&self) -> Backend {
        self.store.backend()
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// What kill -9 leaves is what the files hold now: a copy of them, taken while the store is open, is opened by the
    /// "next process". No operation is under way, because each is awaited.
    pub fn killed_and_started_again(&self, now: Timestamp) -> Check<Disk> {
        let copy = TempDir::new().map_err(unusable)?;
        copy_tree(self.dir.path(), copy.path()).map_err(unusable)?;
        Disk::open(copy, now)
    }
}

fn unusable(error: impl Display) -> Violation {
    Violation { rule: Rule::Durable, text: format!("the data directory cannot be used: {error}") }
}

fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
