//! Objects too large to hold in memory: written as their bytes arrive, read in pieces under their pin (SPEC 5.2).

use super::files::Files;
use crate::port::{BlobKey, ByteStream, Error, Result, Stored};
use bytes::Bytes;
use conveyor_domain::limits::KIB;
use futures::StreamExt;
use sha2::{Digest, Sha256};
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// What is written or read at once.
const PIECE_BYTES: usize = 256 * KIB;

/// A file that grows, its digest with it. Removed unless it is kept.
struct Growing {
    file: File,
    path: PathBuf,
    digest: Sha256,
    size: u64,
    kept: bool,
}

impl Growing {
    fn create(path: PathBuf) -> io::Result<Growing> {
        Ok(Growing { file: File::create(&path)?, path, digest: Sha256::new(), size: 0, kept: false })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.digest.update(bytes);
        self.size += bytes.len() as u64;
        Ok(())
    }

    fn keep(mut self, files: &Files, key: &BlobKey) -> io::Result<Stored> {
        files.publish(&self.file, &self.path, key)?;
        self.kept = true;
        Ok(Stored { size: self.size, etag: hex(&self.digest.finalize_reset()) })
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        if !self.kept {
            // What a failed write leaves is emptied at the next start anyway.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Runs work on the disk in a thread that is there for nothing else; none is held while bytes are waited for, however slow
/// whoever sends or reads them is.
async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T> {
    super::files::joined(tokio::task::spawn_blocking(work).await)
}

pub async fn put(files: &Files, key: &BlobKey, mut body: ByteStream) -> Result<Stored> {
    let path = files.temporary();
    let mut growing = on_disk(move || Growing::create(path)).await?;
    let mut gathered: Vec<Bytes> = Vec::new();
    let mut waiting = 0;
    loop {
        let next = body.next().await.transpose()?;
        let ended = next.is_none();
        waiting += next.as_ref().map_or(0, Bytes::len);
        gathered.extend(next);
        if waiting >= PIECE_BYTES || (ended && waiting > 0) {
            let pieces = std::mem::take(&mut gathered);
            waiting = 0;
            growing = on_disk(move || {
                pieces.iter().try_for_each(|piece| growing.write(piece))?;
                Ok(growing)
            })
            .await?;
        }
        if ended {
            break;
        }
    }
    let (files, key) = (files.clone(), key.clone());
    on_disk(move || growing.keep(&files, &key)).await
}

/// Runs work on the disk that takes long. It ends between two pieces if nobody waits for it any more.
async fn long_on_disk<T: Send + 'static>(
    work: impl FnOnce(&Waited) -> io::Result<T> + Send + 'static,
) -> Result<T> {
    let waiting = Arc::new(());
    let waited = Waited(Arc::downgrade(&waiting));
    let outcome = on_disk(move || work(&waited)).await;
    drop(waiting);
    outcome
}

/// Whether anybody waits for work on the disk.
struct Waited(Weak<()>);

impl Waited {
    /// The next piece of a file; nothing at its end.
    fn read(&self, file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.strong_count() {
            0 => Err(io::Error::other("nobody waits for it any more")),
            _ => file.read(buffer),
        }
    }
}

pub async fn concat(files: Files, key: BlobKey, parts: Vec<BlobKey>) -> Result<Stored> {
    long_on_disk(move |waited| join(&files, &key, &parts, waited)).await
}

fn join(files: &Files, key: &BlobKey, parts: &[BlobKey], waited: &Waited) -> io::Result<Stored> {
    let mut growing = Growing::create(files.temporary())?;
    let mut buffer = vec![0; PIECE_BYTES];
    for part in parts {
        let mut file = File::open(files.path(part))?;
        loop {
            match waited.read(&mut file, &mut buffer)? {
                0 => break,
                n => growing.write(&buffer[..n])?,
            }
        }
    }
    growing.keep(files, key)
}

/// What changes when somebody writes to a file behind our back.
fn fingerprint(meta: &Metadata) -> (u64, i64, i64, u64) {
    (meta.len(), meta.mtime(), meta.mtime_nsec(), meta.ino())
}

/// The bytes are checked before the first of them is given out: a list that changed half way must not be read half way. `None`
/// if they are others.
fn open_pinned(
    path: &Path,
    etag: &str,
    offset: u64,
    waited: &Waited,
) -> io::Result<Option<(File, Metadata)>> {
    let mut file = File::open(path)?;
    let meta = file.metadata()?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        match waited.read(&mut file, &mut buffer)? {
            0 => break,
            n => digest.update(&buffer[..n]),
        }
    }
    if hex(&digest.finalize()) != etag {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(offset))?;
    Ok(Some((file, meta)))
}

pub async fn read_pinned(path: PathBuf, etag: String, offset: u64) -> Result<ByteStream> {
    let opened = long_on_disk(move |waited| open_pinned(&path, &etag, offset, waited)).await?;
    let (file, meta) = opened.ok_or(Error::Changed)?;
    Ok(pieces(file, meta))
}

pub async fn read(path: PathBuf) -> Result<ByteStream> {
    let opened = tokio::task::spawn_blocking(move || {
        let file = File::open(path)?;
        let meta = file.metadata()?;
        Ok((file, meta))
    });
    let (file, meta) = super::files::joined(opened.await)?;
    Ok(pieces(file, meta))
}

fn pieces(file: File, opened: Metadata) -> ByteStream {
    let next = |(file, opened): (File, Metadata)| async move {
        let (piece, file, opened) = on_disk(move || read_piece(file, opened)).await?;
        match piece {
            Some(piece) => Ok(Some((piece, (file, opened)))),
            // The same file, untouched since it was opened, and its digest checked.
            None => {
                let now = file.metadata().map_err(|e| super::files::explain(&e))?;
                if fingerprint(&now) == fingerprint(&opened) { Ok(None) } else { Err(Error::Changed) }
            }
        }
    };
    futures::stream::try_unfold((file, opened), next).boxed()
}

fn read_piece(mut file: File, opened: Metadata) -> io::Result<(Option<Bytes>, File, Metadata)> {
    let mut buffer = vec![0; PIECE_BYTES];
    let read = file.read(&mut buffer)?;
    buffer.truncate(read);
    Ok(((read > 0).then(|| Bytes::from(buffer)), file, opened))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use std::time::Duration;

    /// A thread is held for no list that nobody waits for, however long it is.
    #[test]
    fn a_list_that_nobody_waits_for_is_not_read_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let (long, short) = (dir.path().join("long"), dir.path().join("short"));
        // A hole: of nothing on the disk, and minutes to read.
        File::create(&long).unwrap().set_len(1 << 38).unwrap();
        fs::write(&short, b"x").unwrap();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().max_blocking_threads(1).build().unwrap();
        let other = runtime.block_on(async {
            assert!(Box::pin(read_pinned(long, String::new(), 0)).now_or_never().is_none());
            tokio::time::timeout(Duration::from_secs(60), read(short)).await
        });
        // Not to wait for what should have ended.
        runtime.shutdown_background();
        assert!(other.expect("the only thread is free").is_ok());
    }
}
