//! Rules of upload slots (SPEC 6.9).

use super::world::must;
use super::{Harness, World};
use crate::port::{Error, Mark, Removal, UploadsQuery};
use conveyor_domain::ingest::upload::Part;
use conveyor_domain::{CallerId, Command, Refusal, Staged, Upload, UploadStatus, limits};

const DAY_MS: i64 = 24 * 3_600_000;

pub async fn an_upload_is_its_callers_own_and_survives_a_crash(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let upload = Upload { parts_handle: Some("handle".to_owned()), ..world.new_upload() };
    must(world.backend.store.create_upload(upload.clone(), u32::MAX).await);
    let other = CallerId::new(world.now(), &world.entropy);
    let store = &world.backend.store;
    assert_eq!(must(store.upload(world.caller, upload.id, world.now()).await), Some(upload.clone()));
    assert_eq!(must(store.upload(other, upload.id, world.now()).await), None);
    assert_eq!(store.doom_upload(upload.id, Some(other), world.now()).await, Err(Error::NotFound));
    let crashed = harness.crash().await;
    let after = crashed.backend();
    assert_eq!(must(after.store.upload(world.caller, upload.id, world.now()).await), Some(upload));
}

pub async fn staged_bytes_can_be_replaced_until_a_job_is_made_of_them(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let upload = world.upload().await;
    let store = &world.backend.store;
    let first = world.staged("one", b"a\n").await;
    assert_eq!(must(store.put_staged(upload.id, first.clone(), None, world.now()).await), None);
    let second = Staged { copy_of: Some("other".to_owned()), ..world.staged("two", b"b\n").await };
    let replaced = must(store.put_staged(upload.id, second.clone(), None, world.now()).await);
    assert_eq!(replaced, Some(first.clone()));
    let again = must(store.put_staged(upload.id, second.clone(), None, world.now()).await);
    assert_eq!(again, None, "a repeat replaces nothing: its object is still needed");
    world.accept(&upload, &second).await;
    let again = must(store.put_staged(upload.id, second.clone(), None, world.now()).await);
    assert_eq!(again, None, "a late repeat, as after a lost answer: the object is the job's now");
    let refused = store.put_staged(upload.id, first, None, world.now()).await;
    assert_eq!(refused, Err(Error::Refused(Refusal::UploadClaimed)));
    let aborted = store.doom_upload(upload.id, Some(world.caller), world.now()).await;
    assert_eq!(aborted, Err(Error::Refused(Refusal::UploadClaimed)));
    let other = CallerId::new(world.now(), &world.entropy);
    let foreign = store.doom_upload(upload.id, Some(other), world.now()).await;
    assert_eq!(foreign, Err(Error::NotFound), "another caller does not learn that a job was made of it");
    let kept = must(store.upload(world.caller, upload.id, world.now()).await).expect("it is there");
    assert_eq!((kept.status(), kept.staged), (UploadStatus::Claimed, Some(second)));
}

pub async fn parts_are_replaced_by_number(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let upload = world.upload().await;
    let store = &world.backend.store;
    let part = |number, staged| Part { number, staged };
    let (a, b, c) =
        (world.staged("a", b"1").await, world.staged("b", b"2").await, world.staged("c", b"3").await);
    for (number, staged) in [(2, &b), (1, &a)] {
        assert_eq!(must(store.put_part(upload.id, part(number, staged.clone()), world.now()).await), None);
    }
    let replaced = must(store.put_part(upload.id, part(2, c.clone()), world.now()).await);
    assert_eq!(replaced.as_ref(), Some(&b));
    assert_eq!(must(store.parts(upload.id).await), [part(1, a.clone()), part(2, c)]);
    let joined = world.staged("joined", b"13").await;
    let before = vec![part(1, a.clone()), part(2, b.clone())];
    let stale = store.put_staged(upload.id, joined.clone(), Some(before), world.now()).await;
    assert!(matches!(stale, Err(Error::Conflict(_))), "a part was replaced since: {stale:?}");
    let parts = must(store.parts(upload.id).await);
    assert_eq!(must(store.put_staged(upload.id, joined, Some(parts), world.now()).await), None);
    let late = store.put_part(upload.id, part(3, a), world.now()).await;
    assert_eq!(late, Err(Error::Refused(Refusal::UploadComplete)));
}

pub async fn uploads_page_newest_first(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let mut made = Vec::new();
    for _ in 0..5 {
        world.pass(1);
        made.push(world.upload().await.id);
    }
    made.reverse();
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let query = UploadsQuery { caller: world.caller, before, limit: 2, look: 9 };
        let page = must(world.backend.store.uploads(query, world.now()).await);
        seen.extend(page.rows.iter().map(|upload| upload.id));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(seen, made);
}

pub async fn a_page_of_uploads_looks_at_no_more_than_it_may(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let mut made = Vec::new();
    for _ in 0..8 {
        world.pass(1);
        made.push(world.upload().await.id);
    }
    for aborted in &made[1..7] {
        must(world.backend.store.doom_upload(*aborted, Some(world.caller), world.now()).await);
    }
    let (mut pages, mut before) = (Vec::new(), None);
    loop {
        let query = UploadsQuery { caller: world.caller, before, limit: 9, look: 3 };
        let page = must(world.backend.store.uploads(query, world.now()).await);
        pages.push(page.rows.iter().map(|upload| upload.id).collect::<Vec<_>>());
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(pages, [vec![made[7]], vec![], vec![made[0]]]);
}

pub async fn a_caller_cannot_have_too_many_unused_uploads(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let store = &world.backend.store;
    must(store.create_upload(world.new_upload(), 2).await);
    let second = world.new_upload();
    must(store.create_upload(second.clone(), 2).await);
    let refused = store.create_upload(world.new_upload(), 2).await;
    assert_eq!(refused, Err(Error::Refused(Refusal::TooManyUploads)));
    must(store.doom_upload(second.id, Some(world.caller), world.now()).await);
    must(store.create_upload(world.new_upload(), 2).await);
}

pub async fn an_expired_or_aborted_upload_is_gone_before_it_is_removed(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let store = &world.backend.store;
    let (expiring, aborted) = (world.upload().await, world.upload().await);
    must(store.doom_upload(aborted.id, Some(world.caller), world.now()).await);
    assert_eq!(must(store.upload(world.caller, aborted.id, world.now()).await), None);
    world.pass(DAY_MS);
    assert_eq!(must(store.upload(world.caller, expiring.id, world.now()).await), None);
    let late = store.put_staged(expiring.id, world.staged("x", b"x").await, None, world.now()).await;
    assert_eq!(late, Err(Error::NotFound));
    let mut expired = world.expired_uploads(world.now()).await;
    expired.sort();
    assert_eq!(expired, [expiring.id, aborted.id]);
    must(store.forget_upload(expiring.id).await);
    assert_eq!(world.expired_uploads(world.now()).await.len(), 2, "one is not marked yet");
    for upload in expired {
        assert!(must(store.doom_upload(upload, None, world.now()).await));
        assert!(must(store.doom_upload(upload, None, world.now()).await), "it is marked, as before");
        must(store.forget_upload(upload).await);
        must(store.forget_upload(upload).await);
        assert!(!must(store.doom_upload(upload, None, world.now()).await), "it is gone");
    }
    assert!(world.expired_uploads(world.now()).await.is_empty());
}

pub async fn an_upload_that_is_wanted_is_never_marked(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let store = &world.backend.store;
    let (waiting, claimed) = (world.upload().await, world.upload().await);
    let staged = world.staged("list", b"https://a.example\n").await;
    must(store.put_staged(claimed.id, staged.clone(), None, world.now()).await);
    world.accept(&claimed, &staged).await;
    let refuse = async |upload: &Upload| {
        assert!(!must(store.doom_upload(upload.id, None, world.now()).await));
        assert!(must(store.upload(world.caller, upload.id, world.now()).await).is_some());
        must(store.forget_upload(upload.id).await);
        assert!(must(store.upload(world.caller, upload.id, world.now()).await).is_some(), "it is not marked");
    };
    refuse(&waiting).await;
    refuse(&claimed).await;
    assert!(world.expired_uploads(world.now()).await.is_empty());
    world.pass(DAY_MS);
    assert!(
        !must(store.doom_upload(claimed.id, None, world.now()).await),
        "a job needs it, however old it is"
    );
    assert_eq!(world.expired_uploads(world.now()).await, [waiting.id]);
    assert!(must(store.doom_upload(waiting.id, None, world.now()).await));
}

pub async fn an_upload_stays_while_a_job_needs_it(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let store = &world.backend.store;
    let upload = world.upload().await;
    let staged = world.staged("list", b"https://a.example\n").await;
    must(store.put_staged(upload.id, staged.clone(), None, world.now()).await);
    let (first, second) = (world.accept(&upload, &staged).await, world.accept(&upload, &staged).await);
    world.pass(DAY_MS + i64::try_from(limits::UPLOAD_TTL.as_millis()).unwrap_or(0));
    for key in [first, second] {
        assert!(world.expired_uploads(world.now()).await.is_empty(), "a job needs it");
        assert!(!must(store.doom_upload(upload.id, None, world.now()).await), "a job needs it");
        must(store.apply(key.job, Command::Delete, world.now()).await);
        while must(store.remove_rows(Removal::Job(key.job), 100).await) > 0 {}
        must(store.mark(key, Mark::QueueGone).await);
        assert!(must(store.forget_job(key.job, world.now()).await));
    }
    assert_eq!(world.expired_uploads(world.now()).await, [upload.id]);
    assert!(must(store.doom_upload(upload.id, None, world.now()).await));
}
