//! A list sent in parts: each can be sent again by itself, and of a file what is there already is not.

use super::super::failure::Failure;
use super::super::http::{Answer, Attempt, Patience, Signed};
use super::super::list::{ListFile, read_head};
use super::Staging;
use super::meter::Meter;
use super::plan::{Piece, Plan};
use super::slot::{Digested, Part, SignedParts};
use bytes::Bytes;
use conveyor_lists::ListError;
use futures::{StreamExt, TryStreamExt, stream};
use indicatif::ProgressBar;
use md5::Md5;
use serde_json::{Value, json};
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

/// Sends every part that is not among those that are there, and joins them.
pub async fn send(
    staging: &Staging<'_>,
    file: &ListFile,
    plan: Plan,
    there: &[Part],
    bar: &ProgressBar,
) -> Result<(), Failure> {
    stream::iter(plan.pieces().map(Ok))
        .try_for_each_concurrent(CONCURRENCY, async |piece| {
            let part = there.iter().find(|part| part.number == piece.number);
            if let Some(part) = part
                && is_same(file, piece, part).await.map_err(|e| unreadable(file, e))?
            {
                bar.inc(piece.bytes);
                // It took no time, and says nothing about the speed.
                bar.reset_eta();
                return Ok(());
            }
            Patience::LONG.retry(|| send_piece(staging, file, piece, bar)).await
        })
        .await?;
    if !file.is_unchanged().await {
        return Err(Failure::file_changed(&file.path.display().to_string()));
    }
    complete(staging).await
}

/// Sends what comes out of a reader: its first part, and the rest in parts of the same size.
pub async fn send_stream(
    staging: &Staging<'_>,
    name: &str,
    first: Vec<u8>,
    rest: Box<dyn AsyncRead + Unpin + Send>,
    bar: &ProgressBar,
) -> Result<(), Failure> {
    let part_bytes = first.len();
    let more = stream::try_unfold((2, rest), |(number, mut rest)| async move {
        let part = read_head(&mut rest, part_bytes).await?;
        Ok((!part.is_empty()).then_some(((number, Bytes::from(part)), (number + 1, rest))))
    });
    stream::once(async { Ok((1, Bytes::from(first))) })
        .chain(more)
        .map_err(|e| Failure::unreadable(name, ListError::Read(e)))
        .try_for_each_concurrent(CONCURRENCY_HELD, async |(number, bytes)| {
            let size = bytes.len() as u64;
            let send = || async {
                let to = sign(staging, number, size).await?;
                Meter::new(bar).send(staging.api, &to, name, Cursor::new(bytes.clone()), size).await
            };
            Patience::LONG.retry(send).await
        })
        .await?;
    complete(staging).await
}

async fn complete(staging: &Staging<'_>) -> Result<(), Failure> {
    let complete = staging.api.url(&["job_inputs", &staging.upload, "complete"]);
    let _: Answer<Value> = staging.api.post_again(complete, Some(&json!({}))).await?;
    Ok(())
}

async fn send_piece(
    staging: &Staging<'_>,
    file: &ListFile,
    piece: Piece,
    bar: &ProgressBar,
) -> Result<(), Attempt> {
    let to = sign(staging, piece.number, piece.bytes).await?;
    let reader = open(file, piece).await.map_err(|e| unreadable(file, e))?;
    let name = file.path.display().to_string();
    Meter::new(bar).send(staging.api, &to, &name, reader, piece.bytes).await
}

/// Where a part goes. Asked for each time: an upload may take longer than its URLs are good for.
async fn sign(staging: &Staging<'_>, number: u32, bytes: u64) -> Result<Signed, Attempt> {
    let api = staging.api;
    let url = api.url(&["job_inputs", &staging.upload, "parts"]);
    let body = json!({ "numbers": [number], "size_bytes": bytes });
    let mut signed: Answer<SignedParts> = api.try_post(url, Some(&body)).await?;
    match (signed.document.parts.pop(), signed.document.parts.is_empty()) {
        (Some(to), true) => Ok(to),
        _ => Err(Failure::not_understood("not the one part that was asked for").into()),
    }
}

async fn open(file: &ListFile, piece: Piece) -> io::Result<impl AsyncRead + Send + Unpin + use<>> {
    let mut reader = File::open(&file.path).await?;
    reader.seek(SeekFrom::Start(piece.offset)).await?;
    Ok(reader.take(piece.bytes))
}

/// Whether the part on the server is this piece of the file.
async fn is_same(file: &ListFile, piece: Piece, part: &Part) -> io::Result<bool> {
    if part.size_bytes != piece.bytes {
        return Ok(false);
    }
    match part.digest() {
        Digested::Sha256(etag) => Ok(digest::<Sha256>(file, piece).await? == etag),
        Digested::Md5(etag) => Ok(digest::<Md5>(file, piece).await? == etag),
        // Sending it again does no harm.
        Digested::Otherwise => Ok(false),
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

fn unreadable(file: &ListFile, error: io::Error) -> Failure {
    Failure::unreadable(&file.path.display().to_string(), ListError::Read(error))
}
