//! Bodies, read a page at a time (SPEC 6.14).

use crate::harness::{Damaged, success};
use conveyor_domain::{
    BodiesAudit, BodyFault, FailureClass, Format, Outcome, Problem, ResultRef, TaskId, checksum, limits,
};
use conveyor_store::Error;
use conveyor_store::port::{BlobKey, RunKey};
use conveyor_sweeper::audit_bodies;
use std::fs;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(600);

/// A run whose tasks have these bodies, all in one object.
async fn run_of(damaged: &Damaged, bodies: &[Vec<u8>]) -> (RunKey, BlobKey) {
    let key = damaged.world.submit(false, u32::try_from(bodies.len()).unwrap() + 1).await;
    let object: BlobKey = format!("jobs/{}/runs/{}/results/x", key.job, key.run).parse().unwrap();
    damaged.backend().blobs.put(&object, bodies.concat().into()).await.unwrap();
    let mut offset = 0;
    for (index, body) in (0..).zip(bodies) {
        let result = ResultRef {
            object: Some(object.to_string()),
            offset,
            length: body.len() as u64,
            crc32: Some(checksum::hash(body)),
            ..ResultRef::empty(Format::Html, 200)
        };
        offset += result.length;
        damaged.world.finish(key, index, Outcome::Successful(result)).await;
    }
    (key, object)
}

/// All pages, each of which has so much time.
async fn pages(damaged: &Damaged, key: RunKey, within: Duration) -> Vec<BodiesAudit> {
    let mut pages: Vec<BodiesAudit> = Vec::new();
    loop {
        let after = pages.last().and_then(|page| page.next);
        let page = audit_bodies(damaged.backend(), key, after, within).await.unwrap();
        let is_last = page.next.is_none();
        pages.push(page);
        if is_last {
            return pages;
        }
    }
}

#[tokio::test]
async fn a_page_that_has_no_time_reads_one_body_and_the_next_goes_on_behind_it() {
    let damaged = Damaged::new();
    let bodies: Vec<Vec<u8>> = (1..6).map(|n| vec![n; usize::from(n)]).collect();
    let (key, object) = run_of(&damaged, &bodies).await;
    let problem = Problem::new(404, "http_404", "Not Found");
    damaged.world.finish(key, 5, Outcome::Failed { class: FailureClass::Other, problem }).await;
    let mut stored = bodies.concat();
    stored[1] ^= 1;
    damaged.backend().blobs.put(&object, stored.into()).await.unwrap();
    let pages = pages(&damaged, key, Duration::ZERO).await;
    let read: Vec<(u32, u64)> =
        pages.iter().filter(|page| page.read > 0).map(|p| (p.read, p.bytes)).collect();
    assert_eq!(read, [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5)], "each body once, in order");
    let named: Vec<_> = pages.iter().flat_map(|page| page.at_fault.clone()).collect();
    assert_eq!(named, [(TaskId::of(key.run, 1), BodyFault::Damaged)]);
}

#[tokio::test]
async fn a_page_names_the_first_and_counts_the_others() {
    let damaged = Damaged::new();
    let (key, object) = run_of(&damaged, &vec![b"body".to_vec(); 50]).await;
    damaged.world.finish(key, 50, success()).await;
    // What is left of the object are 12 bodies and a half.
    damaged.backend().blobs.put(&object, b"body".repeat(50)[..50].to_vec().into()).await.unwrap();
    let [page] = &pages(&damaged, key, LONG).await[..] else { panic!("one page") };
    assert_eq!((page.read, page.bytes, page.unverified), (51, 200, 0), "an empty body needs no checksum");
    assert_eq!((page.at_fault.len(), page.more_at_fault), (limits::FAULTS_NAMED_MAX, 18));
    assert_eq!(page.at_fault[0], (TaskId::of(key.run, 12), BodyFault::Truncated));
    damaged.backend().blobs.delete(&object).await.unwrap();
    let [page] = &pages(&damaged, key, LONG).await[..] else { panic!("one page") };
    assert_eq!((page.at_fault[0].1, page.more_at_fault), (BodyFault::Missing, 30));
}

#[tokio::test]
async fn a_body_of_an_earlier_version_is_counted_as_unverified() {
    let damaged = Damaged::new();
    let (key, object) = run_of(&damaged, &[]).await;
    damaged.backend().blobs.put(&object, "body".into()).await.unwrap();
    let object = Some(object.to_string());
    let result = ResultRef { object, length: 4, ..ResultRef::empty(Format::Html, 200) };
    damaged.world.finish(key, 0, Outcome::Successful(result)).await;
    let [page] = &pages(&damaged, key, LONG).await[..] else { panic!("one page") };
    assert_eq!((page.read, page.unverified, page.at_fault.len()), (1, 1, 0));
}

/// A run whose tasks have these bodies, each in an object of its own.
async fn run_of_objects(damaged: &Damaged, count: u32) -> (RunKey, Vec<BlobKey>) {
    let key = damaged.world.submit(false, count).await;
    let mut objects = Vec::new();
    for index in 0..count {
        let object: BlobKey = format!("jobs/{}/runs/{}/results/{index}", key.job, key.run).parse().unwrap();
        damaged.backend().blobs.put(&object, "body".into()).await.unwrap();
        let crc32 = Some(checksum::hash(b"body"));
        let stored = Some(object.to_string());
        let result = ResultRef { object: stored, length: 4, crc32, ..ResultRef::empty(Format::Html, 200) };
        damaged.world.finish(key, index, Outcome::Successful(result)).await;
        objects.push(object);
    }
    (key, objects)
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_named_and_the_others_are_read() {
    let damaged = Damaged::new();
    let (key, objects) = run_of_objects(&damaged, 5).await;
    let file = damaged.file(&objects[2]);
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let [page] = &pages(&damaged, key, LONG).await[..] else { panic!("one page") };
    assert_eq!((page.read, page.more_at_fault), (5, 0));
    assert_eq!(page.at_fault, [(TaskId::of(key.run, 2), BodyFault::Truncated)]);
}

#[tokio::test]
async fn a_page_ends_before_a_storage_that_does_not_answer() {
    let damaged = Damaged::new();
    let (key, objects) = run_of_objects(&damaged, 4).await;
    fs::remove_file(damaged.file(&objects[0])).unwrap();
    let file = damaged.file(&objects[2]);
    fs::remove_file(&file).unwrap();
    // Leads to itself: no fault of an object that is known.
    std::os::unix::fs::symlink(&file, &file).unwrap();
    let page = audit_bodies(damaged.backend(), key, None, LONG).await.unwrap();
    assert_eq!((page.read, page.next), (2, Some(TaskId::of(key.run, 1))));
    assert_eq!(page.at_fault, [(TaskId::of(key.run, 0), BodyFault::Missing)], "what was found is not lost");
    let next = audit_bodies(damaged.backend(), key, page.next, LONG).await;
    assert!(matches!(next, Err(Error::Unavailable(_))), "{next:?}");
    fs::remove_file(&file).unwrap();
    damaged.backend().blobs.put(&objects[2], "body".into()).await.unwrap();
    let next = audit_bodies(damaged.backend(), key, page.next, LONG).await.unwrap();
    assert_eq!((next.read, next.next, next.at_fault.len()), (2, None, 0));
}
