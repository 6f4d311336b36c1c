//! Rules of objects.

use super::Harness;
use super::world::must;
use crate::port::{BlobKey, Error};
use crate::{check_body, read_body};
use bytes::Bytes;
use conveyor_domain::{BodyFault, Format, ResultRef, RunId, TaskId, checksum, limits};
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

pub async fn a_body_is_verified_when_it_is_read(harness: &dyn Harness) {
    let blobs = harness.backend().blobs;
    // More than a piece, and between other bodies.
    let body: Vec<u8> = (0..limits::AUDIT_PIECE_BYTES + 9).map(|n| (n % 251) as u8).collect();
    let stored = [b"before".as_slice(), &body, b"behind"].concat();
    let flipped = |at: usize| {
        let mut bytes = stored.clone();
        bytes[at] ^= 1;
        bytes
    };
    let (first, last) = (6, 5 + body.len());
    let task = TaskId::of(RunId::from_bytes([7; 16]), 3);
    let of = |object: &str, crc32| ResultRef {
        object: Some(object.to_owned()),
        offset: 6,
        length: body.len() as u64,
        crc32,
        ..ResultRef::empty(Format::Html, 200)
    };
    let crc32 = Some(checksum::hash(&body));
    for (name, bytes) in [
        ("b/fine", stored.clone()),
        ("b/first", flipped(first)),
        ("b/last", flipped(last)),
        ("b/beside", flipped(first - 1)),
        ("b/short", stored[..last].to_vec()),
    ] {
        must(blobs.put(&key(name), bytes.into()).await);
    }
    for (result, expected) in [
        (of("b/fine", crc32), Ok(())),
        (of("b/beside", crc32), Ok(())),
        (of("b/first", crc32), Err(BodyFault::Damaged)),
        (of("b/last", crc32), Err(BodyFault::Damaged)),
        (of("b/short", crc32), Err(BodyFault::Truncated)),
        (of("b/gone", crc32), Err(BodyFault::Missing)),
        (of("../b/fine", crc32), Err(BodyFault::Damaged)),
        // A damaged digit of the row: no memory is taken for what cannot be there.
        (ResultRef { length: 1 << 45, ..of("b/fine", crc32) }, Err(BodyFault::Truncated)),
        (ResultRef { offset: u64::MAX - 1, ..of("b/fine", crc32) }, Err(BodyFault::Truncated)),
        // Rows of earlier versions have no checksum.
        (of("b/last", None), Ok(())),
        (of("b/short", None), Err(BodyFault::Truncated)),
        (ResultRef::empty(Format::Html, 204), Ok(())),
    ] {
        let read = must(read_body(&*blobs, task, &result).await);
        assert_eq!(read.as_ref().map(|_| ()), expected.as_ref().copied(), "{:?}", result.object);
        assert!(read.is_err() || read.is_ok_and(|read| read.len() as u64 == result.length));
        assert_eq!(must(check_body(&*blobs, task, &result).await), expected, "{:?}", result.object);
    }
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

pub async fn objects_are_listed_by_their_keys_page_by_page(harness: &dyn Harness) {
    let blobs = harness.backend().blobs;
    // In the order of their bytes: a "-" and a "." come before the "/", a digit comes after it.
    let names = ["l/a-b/c", "l/a.b", "l/a/b", "l/a/b-", "l/a/c/d", "l/a0", "l/b"];
    for name in names.iter().rev().chain(&["la/x", "k/x", "l-/x"]) {
        must(blobs.put(&key(name), Bytes::copy_from_slice(name.as_bytes())).await);
    }
    for limit in [1, 2, 3, 100] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = must(blobs.list(&key("l"), after.as_ref(), limit).await);
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            after = Some(last.key.clone());
            seen.extend(page);
        }
        assert_eq!(seen.iter().map(|listed| listed.key.as_str()).collect::<Vec<_>>(), names);
        assert!(seen.iter().all(|listed| listed.size == listed.key.as_str().len() as u64));
    }
    let from = |after: &'static str| {
        let (blobs, after) = (blobs.clone(), key(after));
        async move { must(blobs.list(&key("l"), Some(&after), 1).await).pop().map(|listed| listed.key) }
    };
    assert_eq!(from("l/a/bx").await, Some(key("l/a/c/d")), "behind one that is not there");
    assert_eq!(from("l/a/c/d/e").await, Some(key("l/a0")));
    assert_eq!(from("l/b").await, None);
    assert!(must(blobs.list(&key("nowhere"), None, 9).await).is_empty());
    assert!(must(blobs.list(&key("l/b"), None, 9).await).is_empty(), "an object has nothing under it");
    must(blobs.delete_under(&key("l/a")).await);
    let left = must(blobs.list(&key("l"), None, 9).await);
    assert_eq!(
        left.iter().map(|listed| listed.key.as_str()).collect::<Vec<_>>(),
        ["l/a-b/c", "l/a.b", "l/a0", "l/b"]
    );
}
