//! One object of several.

use super::Objects;
use super::download::Download;
use super::unfinished::{Sent, Unfinished, put_stream};
use conveyor_domain::limits::MIB;
use conveyor_store::port::{BlobKey, Stored};
use conveyor_store::{Error, Result};
use futures::{StreamExt, TryStreamExt, stream};

/// S3 takes no shorter part, except as the last.
pub const PART_MIN_BYTES: u64 = 5 * MIB as u64;
/// Nor a longer one.
const PART_MAX_BYTES: u64 = 5 * 1024 * MIB as u64;
const PARTS_MAX: usize = 10_000;
const CALLS_AT_ONCE: usize = 4;

pub async fn concat(objects: &Objects, key: &BlobKey, parts: &[BlobKey]) -> Result<Stored> {
    let look = |part: BlobKey| async move {
        let stored = objects.stored(&part).await?;
        stored.map(|stored| (part, stored)).ok_or(Error::NotFound)
    };
    let looks = stream::iter(parts.to_vec()).map(look).buffered(CALLS_AT_ONCE);
    let parts: Vec<(BlobKey, Stored)> = looks.try_collect().await?;
    if can_be_parts(&parts) { copy(objects, key, &parts).await } else { carry(objects, key, parts).await }
}

fn can_be_parts(parts: &[(BlobKey, Stored)]) -> bool {
    let sizes = || parts.iter().map(|(_, stored)| stored.size);
    let large_enough = sizes().rev().skip(1).all(|size| size >= PART_MIN_BYTES);
    let possible = sizes().all(|size| (1..=PART_MAX_BYTES).contains(&size));
    (1..=PARTS_MAX).contains(&parts.len()) && large_enough && possible
}

/// S3 puts them together: the bytes stay where they are.
async fn copy(objects: &Objects, key: &BlobKey, parts: &[(BlobKey, Stored)]) -> Result<Stored> {
    let unfinished = Unfinished::begin(objects, key).await?;
    let copies = stream::iter((1..).zip(parts.to_vec()))
        .map(|(number, (from, pinned))| {
            let unfinished = &unfinished;
            async move { unfinished.copy(number, &from, &pinned).await }
        })
        .buffer_unordered(CALLS_AT_ONCE);
    let sent: Result<Vec<Sent>> = copies.try_collect().await;
    unfinished.finish(sent).await
}

/// Parts that are too short for S3 come through here.
async fn carry(objects: &Objects, key: &BlobKey, parts: Vec<(BlobKey, Stored)>) -> Result<Stored> {
    let reader = objects.clone();
    let bytes = stream::iter(parts).then(move |(part, stored)| {
        let reader = reader.clone();
        async move { Download::pinned(&reader, &part, &stored.etag, 0).open().await }
    });
    put_stream(objects, key, bytes.try_flatten().boxed()).await
}
