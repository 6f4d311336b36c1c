//! Whether the data directory is still the one that was opened (SPEC 5.1).
//!
//! A file that is deleted under an open handle takes writes as before, and loses them all when the process ends. So the
//! writer looks before it answers, and stops for good once a path does not name what was opened under it.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What acknowledged work is kept in, by the inodes that were opened.
#[derive(Debug, Default)]
pub struct Presence {
    files: Vec<Watched>,
    /// Held open, so that no other directory gets the same inode. The files are held open by SQLite.
    _directories: Vec<File>,
}

#[derive(Debug)]
struct Watched {
    path: PathBuf,
    inode: (u64, u64),
}

/// Which file it is, whatever it is called.
pub fn inode(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

impl Presence {
    /// Remembers what an open data directory is made of. SQLite must have its files open: the log exists from the first
    /// transaction on, and stays the same file until the last connection closes.
    pub fn of(dir: &Path) -> io::Result<Presence> {
        let mut files = Vec::new();
        let mut directories = Vec::new();
        for name in ["conveyor.db", "conveyor.db-wal", "blobs", "tmp"] {
            let path = dir.join(name);
            let meta = fs::metadata(&path)?;
            // A database file must not be opened here: closing it would release SQLite's own locks.
            if meta.is_dir() {
                directories.push(File::open(&path)?);
            }
            files.push(Watched { path, inode: inode(&meta) });
        }
        Ok(Presence { files, _directories: directories })
    }

    /// `Err` with the reason if a path does not name what was opened any more. One `stat` each.
    pub fn check(&self) -> Result<(), String> {
        for Watched { path, inode: opened } in &self.files {
            match fs::metadata(path) {
                Ok(meta) if inode(&meta) == *opened => {}
                Ok(_) => {
                    return Err(format!("{} was replaced while this process had it open", path.display()));
                }
                Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                    return Err(format!(
                        "{} was deleted or moved while this process had it open",
                        path.display()
                    ));
                }
                Err(e) => return Err(format!("{} can no longer be reached: {e}", path.display())),
            }
        }
        Ok(())
    }
}
