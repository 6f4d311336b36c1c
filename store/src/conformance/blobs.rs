//! Rules of objects.

use super::Harness;
use super::world::must;
use crate::port::{BlobKey, Error};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};

fn key(text: &str) -> BlobKey {
    must(text.parse())
}

pub async fn an_object_reads_back_by_range(harness: &dyn Harness) {
    let blobs = harness.backend().blobs;
    must(blobs.put(&key("a/b/c"), Bytes::from_static(b"0123456789")).await);
    assert_eq!(must(blobs.get(&key("a/b/c"), 0, 10).await), "0123456789");
    assert_eq!(must(blobs.get(&key("a/b/c"), 3, 4).await), "3456");
    assert_eq!(must(blobs.get(&key("a/b/c"), 10, 0).await), "");
}

pub async fn a_missing_object_is_not_found(harness: &dyn Harness) {
    assert_eq!(harness.backend().blobs.get(&key("no/where"), 0, 1).await, Err(Error::NotFound));
}

pub async fn a_short_object_is_corrupt(harness: &dyn Harness) {
    let blobs = harness.backend().blobs;
    must(blobs.put(&key("short"), Bytes::from_static(b"abc")).await);
    assert!(matches!(blobs.get(&key("short"), 1, 3).await, Err(Error::Corrupt(_))));
}

pub async fn deleting_is_repeatable_and_stays_in_its_prefix(harness: &dyn Harness) {
    let blobs = harness.backend().blobs;
    for name in ["jobs/1/a", "jobs/1/x/b", "jobs/10/c"] {
        must(blobs.put(&key(name), Bytes::from_static(b"x")).await);
    }
    for _ in 0..2 {
        must(blobs.delete_under(&key("jobs/1")).await);
        must(blobs.delete(&key("jobs/1/a")).await);
    }
    assert_eq!(blobs.get(&key("jobs/1/a"), 0, 1).await, Err(Error::NotFound));
    assert_eq!(blobs.get(&key("jobs/1/x/b"), 0, 1).await, Err(Error::NotFound));
    assert_eq!(must(blobs.get(&key("jobs/10/c"), 0, 1).await), "x");
}

pub async fn an_acknowledged_object_survives_a_crash(harness: &dyn Harness) {
    must(harness.backend().blobs.put(&key("deep/er/est/x"), Bytes::from_static(b"kept")).await);
    let after = harness.crash().await;
    assert_eq!(must(after.backend().blobs.get(&key("deep/er/est/x"), 0, 4).await), "kept");
}

/// Several pieces, some larger than a buffer.
fn pieces() -> Vec<Bytes> {
    let large = (0..600_000_u32).map(|n| (n % 251) as u8).collect::<Vec<_>>();
    vec![Bytes::from_static(b"begin"), Bytes::new(), large.into(), Bytes::from_static(b"end")]
}

pub async fn a_streamed_object_is_whole_and_pinned(harness: &dyn Harness) {
    let blobs = harness.backend().blobs;
    let body = futures::stream::iter(pieces().into_iter().map(Ok)).boxed();
    let stored = must(blobs.put_stream(&key("s/one"), body).await);
    let whole = pieces().concat();
    assert_eq!(stored.size, whole.len() as u64);
    let crashed = harness.crash().await;
    let after = crashed.backend().blobs;
    for offset in [0, 1, 300_000, whole.len() as u64] {
        let stream = must(after.read_pinned(&key("s/one"), &stored.etag, offset).await);
        let read: Vec<Bytes> = must(stream.try_collect().await);
        assert_eq!(read.concat(), whole[offset as usize..]);
    }
    let all: Vec<Bytes> = must(must(after.read(&key("s/one")).await).try_collect().await);
    assert_eq!(all.concat(), whole);
    assert_eq!(after.read(&key("s/none")).await.err(), Some(Error::NotFound));
    let missing = after.read_pinned(&key("s/none"), &stored.etag, 0).await;
    assert_eq!(missing.err(), Some(Error::NotFound));
}

pub async fn a_stream_that_fails_leaves_no_object(harness: &dyn Harness) {
    let blobs = harness.backend().blobs;
    let broken = Error::Unavailable("the caller went away".to_owned());
    let body = futures::stream::iter([Ok(Bytes::from_static(b"half")), Err(broken.clone())]).boxed();
    assert_eq!(blobs.put_stream(&key("s/half"), body).await, Err(broken));
    assert_eq!(blobs.get(&key("s/half"), 0, 0).await, Err(Error::NotFound));
}

pub async fn other_bytes_than_the_pinned_are_never_read(harness: &dyn Harness) {
    let blobs = harness.backend().blobs;
    let put = |text: &'static str| {
        let body = futures::stream::iter([Ok(Bytes::from_static(text.as_bytes()))]).boxed();
        let blobs = blobs.clone();
        async move { must(blobs.put_stream(&key("s/x"), body).await) }
    };
    let first = put("one").await;
    let second = put("two").await;
    assert_ne!(first.etag, second.etag);
    let changed = match blobs.read_pinned(&key("s/x"), &first.etag, 0).await {
        Err(error) => Err(error),
        Ok(stream) => stream.try_collect::<Vec<Bytes>>().await,
    };
    assert_eq!(changed, Err(Error::Changed));
}

pub async fn joined_parts_are_one_object(harness: &dyn Harness) {
    let blobs = harness.backend().blobs;
    must(blobs.put(&key("p/1"), Bytes::from_static(b"ab")).await);
    must(blobs.put(&key("p/2"), Bytes::from_static(b"cde")).await);
    let joined = must(blobs.concat(&key("p/all"), &[key("p/2"), key("p/1"), key("p/2")]).await);
    assert_eq!(joined.size, 8);
    let stream = must(blobs.read_pinned(&key("p/all"), &joined.etag, 0).await);
    assert_eq!(must(stream.try_collect::<Vec<Bytes>>().await).concat(), b"cdeabcde");
    assert_eq!(blobs.concat(&key("p/x"), &[key("p/none")]).await, Err(Error::NotFound));
}
