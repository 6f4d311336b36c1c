//! Objects that are written as their bytes arrive.

use super::Objects;
use super::cut::{Cutter, part_bytes};
use super::unfinished::{Sent, Unfinished};
use bytes::Bytes;
use conveyor_store::port::{BlobKey, ByteStream, Stored};
use conveyor_store::{Error, Result};
use futures::{StreamExt, TryStreamExt, stream};

/// Parts of one object in memory, the one that fills included.
const PARTS_AT_ONCE: usize = 3;

/// A body that fits into one part is one request; only a longer one is worth three or more.
pub async fn put_stream(objects: &Objects, key: &BlobKey, body: ByteStream) -> Result<Stored> {
    let mut cutter = Cutter::new(body);
    let first = cutter.next(part_bytes(1)).await?;
    if first.len() < part_bytes(1) {
        let size = first.len() as u64;
        return Ok(Stored { size, etag: objects.put_whole(key, first).await? });
    }
    let unfinished = Unfinished::begin(objects, key).await?;
    let parts = numbered(first, cutter)
        .map(|part| async {
            let (number, body) = part?;
            unfinished.send(number, body).await
        })
        .buffer_unordered(PARTS_AT_ONCE);
    let sent: Result<Vec<Sent>> = parts.try_collect().await;
    unfinished.finish(sent).await
}

/// The parts of a body whose first one is already there.
fn numbered(first: Bytes, cutter: Cutter) -> impl futures::Stream<Item = Result<(i32, Bytes)>> {
    let rest = stream::try_unfold((2_usize, cutter), |(number, mut cutter)| async move {
        let body = cutter.next(part_bytes(number)).await?;
        if body.is_empty() {
            return Ok(None);
        }
        let part = i32::try_from(number).map_err(|e| Error::Corrupt(e.to_string()))?;
        Ok(Some(((part, body), (number + 1, cutter))))
    });
    stream::once(async move { Ok((1, first)) }).chain(rest)
}
