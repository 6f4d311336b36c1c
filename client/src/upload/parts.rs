//! A list sent in parts: each can be sent again by itself, and of a file what is there already is not.

use super::plan::{Piece, Plan};
use super::{ListFile, Moved, Slot, read_head};
use crate::Error;
use bytes::Bytes;
use conveyor_wire::{CompleteParts, Part, SignParts, UploadTarget};
use futures::{StreamExt, TryStreamExt, stream};
use md5::Md5;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::io::{self, Cursor, SeekFrom};
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncSeekExt};

/// Parts in flight. More would not make one server faster.
const CONCURRENCY: usize = 4;
/// The same for parts that are held in memory until they are there.
const CONCURRENCY_HELD: usize = 2;
const HASH_BYTES: usize = 256 * 1024;

impl Slot {
    /// Sends every part that is not among those that are there, and joins them.
    pub(super) async fn send_parts(&self, file: &ListFile, plan: Plan, there: &[Part]) -> Result<(), Error> {
        stream::iter(plan.pieces().map(Ok))
            .try_for_each_concurrent(CONCURRENCY, async |piece| {
                let part = there.iter().find(|part| part.number == piece.number);
                if let Some(part) = part
                    && is_same(file, piece, part).await.map_err(|e| self.unreadable(e))?
                {
                    (self.progress)(Moved::AlreadyThere(piece.bytes));
                    return Ok(());
                }
                self.retry(|| self.send_piece(file, piece)).await
            })
            .await?;
        self.check(file).await?;
        self.complete().await
    }

    /// Sends what comes out of a reader: its first part, and the rest in parts of the same size.
    pub(super) async fn send_reader(
        &self,
        first: Vec<u8>,
        rest: Box<dyn AsyncRead + Unpin + Send>,
    ) -> Result<(), Error> {
        let part_bytes = first.len();
        let more = stream::try_unfold((2, rest), |(number, mut rest)| async move {
            let part = read_head(&mut rest, part_bytes).await?;
            Ok((!part.is_empty()).then_some(((number, Bytes::from(part)), (number + 1, rest))))
        });
        stream::once(async { Ok((1, Bytes::from(first))) })
            .chain(more)
            .map_err(|e| self.unreadable(e))
            .try_for_each_concurrent(CONCURRENCY_HELD, async |(number, bytes)| {
                let size = bytes.len() as u64;
                let send = || async {
                    let to = self.sign(number, size).await?;
                    self.put(&to, Cursor::new(bytes.clone()), size).await
                };
                self.retry(send).await
            })
            .await?;
        self.complete().await
    }

    async fn complete(&self) -> Result<(), Error> {
        self.client.complete_input(self.id, &CompleteParts::default()).await?;
        Ok(())
    }

    async fn send_piece(&self, file: &ListFile, piece: Piece) -> Result<(), Error> {
        let to = self.sign(piece.number, piece.bytes).await?;
        let reader = open(file, piece).await.map_err(|e| self.unreadable(e))?;
        self.put(&to, reader, piece.bytes).await
    }

    /// Where a part goes. Asked for each time: an upload may take longer than its URLs are good for.
    async fn sign(&self, number: u32, bytes: u64) -> Result<UploadTarget, Error> {
        let numbers =
            SignParts { numbers: [number.into()].into_iter().collect(), size_bytes: Some(bytes.into()) };
        let mut signed = self.client.sign_parts(self.id, &numbers).once().await?.document;
        match (signed.parts.pop(), signed.parts.is_empty()) {
            (Some(to), true) => Ok(to),
            _ => Err(Error::NotUnderstood("not the one part that was asked for".to_owned())),
        }
    }
}

async fn open(file: &ListFile, piece: Piece) -> io::Result<impl AsyncRead + Send + Unpin + use<>> {
    let mut reader = File::open(&file.path).await?;
    reader.seek(SeekFrom::Start(piece.offset)).await?;
    Ok(reader.take(piece.bytes))
}

/// Whether the part on the server is this piece of the file. Its ETag is a digest in hex, and its length tells which; of any
/// other the part is sent again.
async fn is_same(file: &ListFile, piece: Piece, part: &Part) -> io::Result<bool> {
    // Some servers write it like the header, in quotes.
    let etag = part.etag.trim_matches('"');
    if part.size_bytes != piece.bytes || !etag.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Ok(false);
    }
    match etag.len() {
        64 => Ok(digest::<Sha256>(file, piece).await? == etag),
        32 => Ok(digest::<Md5>(file, piece).await? == etag),
        _ => Ok(false),
    }
}

async fn digest<D: Digest>(file: &ListFile, piece: Piece) -> io::Result<String> {
    let mut reader = open(file, piece).await?;
    let (mut digest, mut buffer) = (D::new(), vec![0; HASH_BYTES]);
    loop {
        match reader.read(&mut buffer).await? {
            0 => return Ok(hex(&digest.finalize())),
            read => digest.update(&buffer[..read]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
