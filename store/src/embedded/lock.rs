//! One process per data directory.
//!
//! The lock is on the directory itself: a file in it can be deleted and made again, and then two processes would each
//! hold a lock on a file of that name. `conveyor.lock` is locked too, for its note and for versions that know only it.

use super::presence::inode;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Held for as long as the process has the directory; the operating system drops it when the process dies.
#[derive(Debug)]
pub struct DirectoryLock {
    _directory: File,
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
        let in_use = || LockError::InUse { dir: dir.to_owned(), holder: holder(dir) };
        let take = |file: &File, path: &Path| match file.try_lock() {
            Ok(()) => still_names(path, file).map_err(failed),
            Err(TryLockError::WouldBlock) => Err(in_use()),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        };
        let directory = File::open(dir).map_err(failed)?;
        take(&directory, dir)?;
        let path = dir.join("conveyor.lock");
        let mut options = OpenOptions::new();
        let mut file =
            options.read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        take(&file, &path)?;
        // The text only helps people; a disk too full to take it does not matter.
        let note = format!("process {}\n", std::process::id());
        let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(note.as_bytes()));
        Ok(DirectoryLock { _directory: directory, _file: file })
    }
}

/// A lock on what was moved away between opening and locking protects nothing.
fn still_names(path: &Path, locked: &File) -> io::Result<()> {
    match inode(&fs::metadata(path)?) == inode(&locked.metadata()?) {
        true => Ok(()),
        false => Err(io::Error::other("it was replaced at the same moment; try again")),
    }
}

/// Who has the directory, as far as its note says.
fn holder(dir: &Path) -> String {
    let mut note = String::new();
    let read = File::open(dir.join("conveyor.lock")).and_then(|mut file| file.read_to_string(&mut note));
    match read.is_ok() && !note.trim().is_empty() {
        true => note.trim().to_owned(),
        false => "another process".to_owned(),
    }
}
