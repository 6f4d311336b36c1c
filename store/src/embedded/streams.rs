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
use tokio::sync::mpsc;

const PIECE_BYTES: usize = 256 * KIB;
/// Pieces on their way between the disk and whoever reads or sends them.
const PIECES_AHEAD: usize = 4;

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

/// Sent last: bytes that just stop are not an object.
enum Piece {
    Bytes(Bytes),
    End,
}

pub async fn put(files: &Files, key: &BlobKey, mut body: ByteStream) -> Result<Stored> {
    let (send, mut receive) = mpsc::channel(PIECES_AHEAD);
    let (files, key) = (files.clone(), key.clone());
    let writing = tokio::task::spawn_blocking(move || -> io::Result<Option<Stored>> {
        let mut growing = Growing::create(files.temporary())?;
        while let Some(piece) = receive.blocking_recv() {
            match piece {
                Piece::Bytes(bytes) => growing.write(&bytes)?,
                Piece::End => return growing.keep(&files, &key).map(Some),
            }
        }
        Ok(None)
    });
    let mut source_error = None;
    while let Some(next) = body.next().await {
        match next {
            // A closed channel means that the disk failed; the reason comes with the join.
            Ok(bytes) => {
                if send.send(Piece::Bytes(bytes)).await.is_err() {
                    break;
                }
            }
            Err(error) => {
                source_error = Some(error);
                break;
            }
        }
    }
    if source_error.is_none() {
        let _ = send.send(Piece::End).await;
    }
    drop(send);
    let written = super::files::joined(writing.await)?;
    match (source_error, written) {
        (Some(error), _) => Err(error),
        (None, Some(stored)) => Ok(stored),
        (None, None) => Err(Error::Unavailable("the write was given up".to_owned())),
    }
}

pub fn concat(files: &Files, key: &BlobKey, parts: &[BlobKey]) -> io::Result<Stored> {
    let mut growing = Growing::create(files.temporary())?;
    let mut buffer = vec![0; PIECE_BYTES];
    for part in parts {
        let mut file = File::open(files.path(part))?;
        loop {
            match file.read(&mut buffer)? {
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

/// The bytes are checked before the first of them is given out: a list that changed half way must not be read half way.
fn open_pinned(path: &Path, etag: &str, offset: u64) -> Result<(File, Metadata)> {
    let io = |e: io::Error| super::files::explain(&e);
    let mut file = File::open(path).map_err(io)?;
    let meta = file.metadata().map_err(io)?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        match file.read(&mut buffer).map_err(io)? {
            0 => break,
            n => digest.update(&buffer[..n]),
        }
    }
    if hex(&digest.finalize()) != etag {
        return Err(Error::Changed);
    }
    file.seek(SeekFrom::Start(offset)).map_err(io)?;
    Ok((file, meta))
}

pub async fn read_pinned(path: PathBuf, etag: String, offset: u64) -> Result<ByteStream> {
    let opened = tokio::task::spawn_blocking(move || open_pinned(&path, &etag, offset));
    let (file, meta) = opened.await.map_err(|e| Error::Unavailable(e.to_string()))??;
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

fn pieces(file: File, meta: Metadata) -> ByteStream {
    let (send, receive) = mpsc::channel(PIECES_AHEAD);
    tokio::task::spawn_blocking(move || {
        // A reader that went away closes the channel; there is nobody to tell.
        let _ = read_all(file, &meta, |piece| send.blocking_send(piece).is_ok());
    });
    let stream = futures::stream::unfold(receive, |mut receive| async move {
        receive.recv().await.map(|piece| (piece, receive))
    });
    stream.boxed()
}

fn read_all(mut file: File, opened: &Metadata, mut give: impl FnMut(Result<Bytes>) -> bool) -> Option<()> {
    loop {
        let mut buffer = vec![0; PIECE_BYTES];
        let piece = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => {
                buffer.truncate(n);
                Ok(Bytes::from(buffer))
            }
            Err(e) => Err(super::files::explain(&e)),
        };
        let failed = piece.is_err();
        if !give(piece) || failed {
            return None;
        }
    }
    // The same file, untouched since its digest was checked.
    let now = file.metadata().ok()?;
    if fingerprint(&now) != fingerprint(opened) {
        give(Err(Error::Changed));
    }
    Some(())
}
