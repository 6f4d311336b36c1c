//! One process per data directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Held for as long as the process has the directory; the operating system drops it when the process dies.
#[derive(Debug)]
pub struct DirectoryLock {
    _file: File,
}

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("data directory {} is in use by {holder}; one process at a time can have it", dir.display())]
    InUse { dir: PathBuf, holder: String },
    #[error("cannot lock data directory {}: {source}", dir.display())]
    Io { dir: PathBuf, source: io::Error },
}

impl DirectoryLock {
    pub fn acquire(dir: &Path) -> Result<DirectoryLock, LockError> {
        let failed = |source| LockError::Io { dir: dir.to_owned(), source };
        let path = dir.join("conveyor.lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let known = file.read_to_string(&mut holder).is_ok() && !holder.trim().is_empty();
                let holder = if known { holder.trim().to_owned() } else { "another process".to_owned() };
                return Err(LockError::InUse { dir: dir.to_owned(), holder });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        // The text only helps people; a disk too full to take it does not matter.
        let note = format!("process {}\n", std::process::id());
        let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(note.as_bytes()));
        Ok(DirectoryLock { _file: file })
    }
}
