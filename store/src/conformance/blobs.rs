//! Rules of objects.

use super::Harness;
use super::world::must;
use crate::port::{BlobKey, Error};
use bytes::Bytes;

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
