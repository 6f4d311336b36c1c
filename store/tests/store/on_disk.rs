//! The embedded backend in a directory of its own, for the tests.

use async_trait::async_trait;
use conveyor_domain::Timestamp;
use conveyor_store::Backend;
use conveyor_store::conformance::Harness;
use conveyor_store::embedded::Embedded;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

pub const NOW: Timestamp = Timestamp(1_800_000_000_000);

pub struct OnDisk {
    // Dropped in this order: the store lets go of the directory before it is removed.
    pub store: Arc<Embedded>,
    pub dir: TempDir,
}

impl OnDisk {
    fn open(dir: TempDir) -> OnDisk {
        OnDisk { store: Embedded::open(dir.path(), NOW).unwrap(), dir }
    }

    pub fn new() -> OnDisk {
        OnDisk::open(TempDir::new().unwrap())
    }
}

#[async_trait]
impl Harness for OnDisk {
    fn backend(&self) -> Backend {
        self.store.backend()
    }

    /// What kill -9 leaves is what the files hold now: a copy of them, opened by "another process".
    async fn crash(&self) -> Box<dyn Harness> {
        let copy = TempDir::new().unwrap();
        copy_tree(self.dir.path(), copy.path());
        Box::new(OnDisk::open(copy))
    }
}

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
