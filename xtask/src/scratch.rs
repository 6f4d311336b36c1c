//! A folder for temporary data, in memory where there is room: a disk that syncs takes 4 ms for every commit, and no test but
//! those of a full disk, which mount their own, is about the disk.

use anyhow::{Context, Result};
use std::path::Path;
use tempfile::TempDir;

const MEMORY: &str = "/dev/shm";
/// What all steps at once need, with room to spare.
const FREE_MIN_BYTES: u64 = 3 << 30;

/// Removed when dropped.
pub fn folder() -> Result<TempDir> {
    let builder = || {
        let mut builder = tempfile::Builder::new();
        builder.prefix("conveyor-test-");
        builder
    };
    if has_room(Path::new(MEMORY))
        && let Ok(folder) = builder().tempdir_in(MEMORY)
    {
        return Ok(folder);
    }
    builder().tempdir().context("no temporary folder")
}

fn has_room(folder: &Path) -> bool {
    rustix::fs::statvfs(folder).is_ok_and(|fs| fs.f_bavail.saturating_mul(fs.f_frsize) >= FREE_MIN_BYTES)
}
