//! Objects that are longer than what is held of them.

use crate::objects::proxy::Proxy;
use crate::objects::world::{World, key};
use aws_sdk_s3::types::{BucketVersioningStatus, VersioningConfiguration};
use bytes::Bytes;
use conveyor_domain::limits::MIB;
use conveyor_store::port::{ByteStream, Stored};
use conveyor_store::{Blobs, Error};
use conveyor_testkit::{DEADLINE, until};
use futures::{StreamExt, TryStreamExt, stream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

crate::objects::on_each_server!(
    a_long_stream_is_written_in_parts,
    a_stream_as_long_as_a_part_is_whole,
    a_stream_that_breaks_leaves_nothing_behind,
    a_stream_that_is_given_up_leaves_nothing_behind,
    a_pinned_read_outlives_its_connection,
    a_range_outlives_its_connection,
    a_read_that_never_gets_anywhere_ends,
    an_object_that_changes_while_it_is_read_is_not_mixed,
    reading_from_behind_the_end_is_nothing,
    large_parts_are_joined_where_they_are,
    parts_that_cannot_be_joined_leave_nothing_behind,
    everything_under_a_prefix_goes,
    a_bucket_that_keeps_versions_will_do,
);

/// Bytes that are different everywhere.
pub fn bytes(length: usize) -> Bytes {
    (0..length as u64)
        .step_by(8)
        .flat_map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
        .take(length)
        .collect()
}

fn streamed(whole: &Bytes) -> ByteStream {
    let pieces: Vec<_> = (0..whole.len()).step_by(300_000).collect();
    let whole = whole.clone();
    let piece = move |from| Ok(whole.slice(from..whole.len().min(from + 300_000)));
    stream::iter(pieces).map(piece).boxed()
}

async fn collected(stream: ByteStream) -> Result<Bytes, Error> {
    Ok(stream.try_collect::<Vec<Bytes>>().await?.concat().into())
}

async fn read(world: &World, name: &str, stored: &Stored) -> Bytes {
    collected(world.objects.read_pinned(&key(name), &stored.etag, 0).await.unwrap()).await.unwrap()
}

async fn a_long_stream_is_written_in_parts(world: World) {
    let whole = bytes(21 * MIB + 7);
    let stored = world.objects.put_stream(&key("s/long"), streamed(&whole)).await.unwrap();
    assert_eq!(stored.size, whole.len() as u64);
    assert!(stored.etag.ends_with("-3"), "three parts: {}", stored.etag);
    assert!(read(&world, "s/long", &stored).await == whole);
    let far =
        collected(world.objects.read_pinned(&key("s/long"), &stored.etag, 20_000_000).await.unwrap()).await;
    assert!(far.unwrap() == whole.slice(20_000_000..));
    assert_eq!(world.unfinished().await, 0);
}

async fn a_stream_as_long_as_a_part_is_whole(world: World) {
    for (length, parts) in [(8 * MIB - 1, 0), (8 * MIB, 1), (16 * MIB, 2)] {
        let whole = bytes(length);
        let stored = world.objects.put_stream(&key("s/exact"), streamed(&whole)).await.unwrap();
        let in_parts = stored.etag.split_once('-').map_or(0, |(_, parts)| parts.parse().unwrap());
        assert_eq!((stored.size, in_parts), (length as u64, parts));
        assert!(read(&world, "s/exact", &stored).await == whole);
    }
    let nothing = world.objects.put_stream(&key("s/nothing"), stream::empty().boxed()).await.unwrap();
    assert_eq!((nothing.size, read(&world, "s/nothing", &nothing).await), (0, Bytes::new()));
}

async fn a_stream_that_breaks_leaves_nothing_behind(world: World) {
    let broken = Error::Unavailable("the caller went away".to_owned());
    let half = streamed(&bytes(18 * MIB)).chain(stream::iter([Err(broken.clone())])).boxed();
    assert_eq!(world.objects.put_stream(&key("s/half"), half).await, Err(broken));
    assert_eq!((world.unfinished().await, world.keys().await.len()), (0, 0));
}

async fn a_stream_that_is_given_up_leaves_nothing_behind(world: World) {
    let whole = bytes(18 * MIB);
    let (pieces, read) = (streamed(&whole).count().await, Arc::new(AtomicUsize::new(0)));
    let counted = read.clone();
    let half = streamed(&whole).inspect(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let (half, objects) = (half.chain(stream::pending()).boxed(), world.objects.clone());
    let putting = tokio::spawn(async move { objects.put_stream(&key("s/half"), half).await });
    // More than the first part is read only once S3 has answered which upload it is. An upload whose answer is lost stays
    // until the rules of the bucket remove it.
    until("it is being sent", async || read.load(Ordering::SeqCst) == pieces).await;
    assert_eq!(world.unfinished().await, 1);
    putting.abort();
    until("it is aborted", async || world.unfinished().await == 0).await;
    assert_eq!(world.keys().await.len(), 0);
}

async fn a_pinned_read_outlives_its_connection(world: World) {
    let whole = bytes(10 * MIB);
    let stored = world.objects.put_stream(&key("s/x"), streamed(&whole)).await.unwrap();
    let proxy = Proxy::before(&world.endpoint, 4, 2 * MIB + 12_345).await;
    let objects = world.by(&proxy.endpoint).await;
    let stream = objects.read_pinned(&key("s/x"), &stored.etag, 1_000).await.unwrap();
    assert!(collected(stream).await.unwrap() == whole.slice(1_000..));
    assert!(proxy.connections.load(Ordering::SeqCst) >= 5, "it broke");
}

async fn a_range_outlives_its_connection(world: World) {
    let whole = bytes(6 * MIB);
    world.objects.put(&key("s/x"), whole.clone()).await.unwrap();
    let proxy = Proxy::before(&world.endpoint, 2, MIB).await;
    let objects = world.by(&proxy.endpoint).await;
    assert!(objects.get(&key("s/x"), 10, 5_000_000).await.unwrap() == whole.slice(10..5_000_010));
}

async fn a_read_that_never_gets_anywhere_ends(world: World) {
    let proxy = Proxy::promising("\"e\"", 100).await;
    let objects = world.by(&proxy.endpoint).await;
    let stream = objects.read_pinned(&key("s/x"), "e", 0).await.unwrap();
    let outcome = tokio::time::timeout(DEADLINE, collected(stream)).await.unwrap();
    assert!(matches!(outcome, Err(Error::Unavailable(_))), "{outcome:?}");
    assert_eq!(proxy.connections.load(Ordering::SeqCst), 6);
}

async fn an_object_that_changes_while_it_is_read_is_not_mixed(world: World) {
    let (one, two) = (bytes(4 * MIB), bytes(5 * MIB).slice(MIB..));
    let stored = world.objects.put_stream(&key("s/x"), streamed(&one)).await.unwrap();
    let proxy = Proxy::before(&world.endpoint, 2, MIB).await;
    let objects = world.by(&proxy.endpoint).await;
    for pinned in [true, false] {
        world.objects.put(&key("s/x"), one.clone()).await.unwrap();
        let mut stream = match pinned {
            true => objects.read_pinned(&key("s/x"), &stored.etag, 0).await.unwrap(),
            false => objects.read(&key("s/x")).await.unwrap(),
        };
        stream.next().await.unwrap().unwrap();
        world.objects.put(&key("s/x"), two.clone()).await.unwrap();
        assert_eq!(collected(stream).await, Err(Error::Changed));
    }
}

async fn reading_from_behind_the_end_is_nothing(world: World) {
    let stored = world.objects.put_stream(&key("s/x"), streamed(&bytes(10))).await.unwrap();
    for offset in [10, 11, 1_000] {
        let stream = world.objects.read_pinned(&key("s/x"), &stored.etag, offset).await.unwrap();
        assert_eq!(collected(stream).await.unwrap(), Bytes::new(), "from {offset}");
    }
    for offset in [0, 10] {
        let other = world.objects.read_pinned(&key("s/x"), "0123456789abcdef0123456789abcdef", offset).await;
        assert_eq!(other.err(), Some(Error::Changed), "from {offset}");
    }
    assert!(matches!(world.objects.get(&key("s/x"), 10, 1).await, Err(Error::Corrupt(_))));
}

async fn large_parts_are_joined_where_they_are(world: World) {
    let (one, two) = (bytes(5 * MIB), bytes(17));
    world.objects.put(&key("p/1"), one.clone()).await.unwrap();
    world.objects.put(&key("p/2"), two.clone()).await.unwrap();
    let parts = [key("p/1"), key("p/1"), key("p/2")];
    let joined = world.objects.concat(&key("p/all"), &parts).await.unwrap();
    assert!(joined.etag.ends_with("-3"), "copied as parts: {}", joined.etag);
    assert_eq!(joined.size, 10 * MIB as u64 + 17);
    assert!(read(&world, "p/all", &joined).await == [&one[..], &one, &two].concat());
    let carried = world.objects.concat(&key("p/carried"), &[key("p/2"), key("p/1")]).await.unwrap();
    assert!(!carried.etag.contains('-'), "a part that is too short was carried: {}", carried.etag);
    assert!(read(&world, "p/carried", &carried).await == [&two[..], &one].concat());
    world.objects.put(&key("p/0"), Bytes::new()).await.unwrap();
    let with_nothing =
        world.objects.concat(&key("p/n"), &[key("p/0"), key("p/2"), key("p/0")]).await.unwrap();
    assert!(read(&world, "p/n", &with_nothing).await == two);
    assert_eq!(world.unfinished().await, 0);
}

async fn parts_that_cannot_be_joined_leave_nothing_behind(world: World) {
    world.objects.put(&key("p/1"), bytes(5 * MIB)).await.unwrap();
    let missing = world.objects.concat(&key("p/all"), &[key("p/1"), key("p/none")]).await;
    assert_eq!(missing, Err(Error::NotFound));
    assert_eq!((world.unfinished().await, world.keys().await), (0, vec!["p/1".to_owned()]));
}

async fn everything_under_a_prefix_goes(world: World) {
    let puts = (0..1_030).map(|n| {
        let objects = world.objects.clone();
        async move { objects.put(&key(&format!("jobs/1/{n}")), Bytes::from_static(b"x")).await.unwrap() }
    });
    stream::iter(puts).buffer_unordered(8).collect::<Vec<()>>().await;
    world.objects.put(&key("jobs/10"), Bytes::from_static(b"x")).await.unwrap();
    for begun in ["jobs/1/begun", "jobs/10/begun"] {
        let begin = world.s3.create_multipart_upload().bucket(&world.settings.bucket).key(begun);
        begin.send().await.unwrap();
    }
    world.objects.delete_under(&key("jobs/1")).await.unwrap();
    assert_eq!(world.keys().await, ["jobs/10"]);
    assert_eq!(world.unfinished().await, 1, "of another prefix");
    world.objects.delete_under(&key("jobs/1")).await.unwrap();
}

async fn a_bucket_that_keeps_versions_will_do(world: World) {
    let versions = VersioningConfiguration::builder().status(BucketVersioningStatus::Enabled).build();
    let keep = world.s3.put_bucket_versioning().bucket(&world.settings.bucket);
    keep.versioning_configuration(versions).send().await.unwrap();
    let one = world.objects.put_stream(&key("s/x"), streamed(&bytes(10))).await.unwrap();
    let two = world.objects.put_stream(&key("s/x"), streamed(&bytes(11))).await.unwrap();
    let replaced = world.objects.read_pinned(&key("s/x"), &one.etag, 0).await;
    assert_eq!(replaced.err(), Some(Error::Changed));
    assert_eq!(read(&world, "s/x", &two).await, bytes(11));
    world.objects.put(&key("s/y"), bytes(3)).await.unwrap();
    world.objects.delete(&key("s/x")).await.unwrap();
    assert_eq!(world.objects.get(&key("s/x"), 0, 1).await, Err(Error::NotFound));
    for _ in 0..2 {
        world.objects.delete_under(&key("s")).await.unwrap();
    }
    assert_eq!(world.objects.get(&key("s/y"), 0, 0).await, Err(Error::NotFound));
}
