//! A file sent in parts: each can be sent again by itself, and what is there already is not.

use super::super::failure::Failure;
use super::super::http::{Answer, Attempt, Patience};
use super::super::list::ListFile;
use super::Staging;
use super::meter::Meter;
use super::plan::{Piece, Plan};
use super::slot::{Part, SignedParts};
use conveyor_lists::ListError;
use futures::{TryStreamExt, stream};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::io::{self, SeekFrom};
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncSeekExt};

/// Parts in flight. More would not make one server faster.
const CONCURRENCY: usize = 4;
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
    let api = staging.api;
    // Asked for each time: an upload may take longer than its URLs are good for.
    let url = api.url(&["job_inputs", &staging.upload, "parts"]);
    let signed: Answer<SignedParts> = api.try_post(url, Some(&json!({ "numbers": [piece.number] }))).await?;
    let [to] = signed.document.parts.as_slice() else {
        return Err(Failure::not_understood("not the one part that was asked for").into());
    };
    let reader = open(file, piece).await.map_err(|e| unreadable(file, e))?;
    let name = file.path.display().to_string();
    Meter::new(bar).send(api, to, &name, reader, Some(piece.bytes)).await
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
    let mut reader = open(file, piece).await?;
    let (mut digest, mut buffer) = (Sha256::new(), vec![0; HASH_BYTES]);
    loop {
        match reader.read(&mut buffer).await? {
            0 => return Ok(hex(&digest.finalize()) == part.sha256()),
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
