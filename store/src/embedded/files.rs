//! Objects as files: whole or not there, and durable once answered (SPEC 5.2).

use super::{Embedded, listing, streams};
use crate::port::{BlobKey, Blobs, ByteStream, Error, Listed, Result, Stored};
use async_trait::async_trait;
use bytes::Bytes;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinError;

/// Directories known to be durable, at most this many: jobs come and go.
const KNOWN_MAX: usize = 4_096;
/// The disk could not read a block. `io::ErrorKind` has no name for it.
const EIO: i32 = 5;

#[derive(Clone, Debug)]
pub struct Files {
    root: PathBuf,
    unfinished: PathBuf,
    next: Arc<AtomicU64>,
    /// Directories whose entry in their parent this process has synced. That one exists is not enough: whoever made it may
    /// still be syncing it, or have been killed before.
    durable: Arc<Mutex<HashSet<PathBuf>>>,
}

impl Files {
    pub fn open(dir: &Path) -> io::Result<Files> {
        let (root, unfinished) = (dir.join("blobs"), dir.join("tmp"));
        fs::create_dir_all(&root)?;
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished)?;
        }
        fs::create_dir_all(&unfinished)?;
        Ok(Files { root, unfinished, next: Arc::default(), durable: Arc::default() })
    }

    pub fn path(&self, key: &BlobKey) -> PathBuf {
        self.root.join(key.as_str())
    }

    /// A name for an unfinished write that nobody else has.
    pub fn temporary(&self) -> PathBuf {
        self.unfinished.join(self.next.fetch_add(1, Ordering::Relaxed).to_string())
    }

    fn put(&self, key: &BlobKey, body: &[u8]) -> io::Result<()> {
        let temporary = self.temporary();
        let written = self.write(&temporary, key, body);
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    fn write(&self, temporary: &Path, key: &BlobKey, body: &[u8]) -> io::Result<()> {
        let mut file = File::create(temporary)?;
        file.write_all(body)?;
        self.publish(&file, temporary, key)
    }

    /// Makes a finished file the object, durably.
    pub fn publish(&self, file: &File, temporary: &Path, key: &BlobKey) -> io::Result<()> {
        file.sync_all()?;
        let target = self.path(key);
        let parent = target.parent().unwrap_or(&self.root);
        self.ensure_directory(parent)?;
        fs::rename(temporary, &target)?;
        sync_directory(parent)
    }

    /// Creates missing directories and syncs the parent of each, so that the path to a durable file is durable too.
    fn ensure_directory(&self, dir: &Path) -> io::Result<()> {
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if durable.len() > KNOWN_MAX {
            durable.clear();
        }
        self.ensure_durable(dir, &mut durable)
    }

    fn ensure_durable(&self, dir: &Path, durable: &mut HashSet<PathBuf>) -> io::Result<()> {
        if durable.contains(dir) && dir.is_dir() {
            return Ok(());
        }
        if let Some(parent) = dir.parent().filter(|_| dir != self.root) {
            self.ensure_durable(parent, durable)?;
            match fs::create_dir(dir) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                Ok(()) | Err(_) => sync_directory(parent)?,
            }
        }
        durable.insert(dir.to_owned());
        Ok(())
    }

    fn get(&self, key: &BlobKey, offset: u64, length: u64) -> io::Result<Bytes> {
        let mut file = File::open(self.path(key))?;
        // A damaged row can name any length: memory is taken only for bytes that are there.
        if file.metadata()?.len() < offset.saturating_add(length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.seek(SeekFrom::Start(offset))?;
        let mut body = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        file.read_exact(&mut body)?;
        Ok(body.into())
    }
}

/// Creates the data directory for its owner alone: lists and results may hold what is nobody else's business. One that is
/// there keeps the mode that somebody gave it.
pub fn create_private(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    match dir.canonicalize()?.parent() {
        Some(parent) => sync_directory(parent),
        None => Ok(()),
    }
}

pub fn sync_directory(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

pub fn explain(e: &io::Error) -> Error {
    match e.kind() {
        io::ErrorKind::NotFound => Error::NotFound,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full(e.to_string()),
        io::ErrorKind::UnexpectedEof => Error::Corrupt("an object is shorter than its row says".to_owned()),
        _ => Error::Unavailable(e.to_string()),
    }
}

/// The same, of reading one object: what is broken there is that object, and the storage answers for all others.
fn explain_read(e: &io::Error) -> Error {
    let is_broken = matches!(e.kind(), io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory);
    if is_broken || e.raw_os_error() == Some(EIO) {
        return Error::Corrupt(format!("an object cannot be read: {e}"));
    }
    explain(e)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T> {
    joined(tokio::task::spawn_blocking(work).await)
}

pub fn joined<T>(outcome: std::result::Result<io::Result<T>, JoinError>) -> Result<T> {
    outcome.map_err(|e| Error::Unavailable(e.to_string()))?.map_err(|e| explain(&e))
}

fn absent_is_fine(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[async_trait]
impl Blobs for Embedded {
    async fn put(&self, key: &BlobKey, body: Bytes) -> Result<()> {
        let (files, key) = (self.files.clone(), key.clone());
        blocking(move || files.put(&key, &body)).await
    }

    async fn get(&self, key: &BlobKey, offset: u64, length: u64) -> Result<Bytes> {
        let (files, key) = (self.files.clone(), key.clone());
        let read = tokio::task::spawn_blocking(move || files.get(&key, offset, length)).await;
        read.map_err(|e| Error::Unavailable(e.to_string()))?.map_err(|e| explain_read(&e))
    }

    async fn put_stream(&self, key: &BlobKey, body: ByteStream) -> Result<Stored> {
        streams::put(&self.files, key, body).await
    }

    async fn concat(&self, key: &BlobKey, parts: &[BlobKey]) -> Result<Stored> {
        streams::concat(self.files.clone(), key.clone(), parts.to_vec()).await
    }

    async fn read(&self, key: &BlobKey) -> Result<ByteStream> {
        streams::read(self.files.path(key)).await
    }

    async fn read_pinned(&self, key: &BlobKey, etag: &str, offset: u64) -> Result<ByteStream> {
        streams::read_pinned(self.files.path(key), etag.to_owned(), offset).await
    }

    async fn delete(&self, key: &BlobKey) -> Result<()> {
        let path = self.files.path(key);
        blocking(move || absent_is_fine(fs::remove_file(path))).await
    }

    async fn list(&self, prefix: &BlobKey, after: Option<&BlobKey>, limit: usize) -> Result<Vec<Listed>> {
        let (dir, prefix, after) = (self.files.path(prefix), prefix.clone(), after.cloned());
        blocking(move || listing::list(&dir, &prefix, after.as_ref(), limit)).await
    }

    async fn delete_under(&self, prefix: &BlobKey) -> Result<()> {
        let path = self.files.path(prefix);
        blocking(move || absent_is_fine(fs::remove_dir_all(path))).await
    }

    async fn ready(&self) -> Result<()> {
        // Files are where the rows are, which the store tries.
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_cannot_be_read_is_told_from_a_storage_that_does_not_answer() {
        let is_corrupt =
            |code| matches!(explain_read(&io::Error::from_raw_os_error(code)), Error::Corrupt(_));
        let (enotdir, eisdir, eacces, emfile) = (20, 21, 13, 24);
        assert_eq!([EIO, enotdir, eisdir, eacces, emfile].map(is_corrupt), [true, true, true, false, false]);
        assert_eq!(explain_read(&io::ErrorKind::NotFound.into()), Error::NotFound);
    }
}
