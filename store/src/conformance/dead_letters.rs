//! Rules of messages that were given up (SPEC 6.15).

use super::world::must;
use super::{Harness, World};
use conveyor_domain::{DeadLetter, IngestRef, JobId, RunId};

fn message(world: &World) -> IngestRef {
    let (job, run) = (JobId::new(world.now(), &world.entropy), RunId::new(world.now(), &world.entropy));
    IngestRef { job, run, progress: 1 }
}

pub async fn a_letter_that_comes_again_is_the_same_letter(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let store = &world.backend.store;
    let sent = message(&world);
    let first = DeadLetter::new(sent.to_string(), world.now());
    assert_eq!(must(store.letter(first.id).await), None);
    must(store.keep_letter(first.clone()).await);
    assert!(must(store.count_redrive(first.id, 0).await));
    world.pass(5_000);
    let again = DeadLetter::new(IngestRef { progress: 4, ..sent }.to_string(), world.now());
    must(store.keep_letter(again.clone()).await);
    let crashed = harness.crash().await;
    let after = crashed.backend().store;
    let expected = DeadLetter { first: first.first, redrives: 1, ..again };
    assert_eq!(must(after.letter(first.id).await), Some(expected.clone()));
    assert_eq!(must(after.letters(None, 9).await), [expected]);
    must(after.forget_letter(first.id).await);
    must(after.forget_letter(first.id).await);
    assert_eq!(must(after.letter(first.id).await), None);
    assert!(must(after.letters(None, 9).await).is_empty());
}

pub async fn letters_page_by_their_ids(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let store = &world.backend.store;
    let mut kept = Vec::new();
    for n in 0..7 {
        let body = if n % 2 == 0 { message(&world).to_string() } else { format!("nobody reads this {n}") };
        let letter = DeadLetter::new(body, world.now());
        must(store.keep_letter(letter.clone()).await);
        kept.push(letter);
    }
    kept.sort_by_key(|letter| letter.id);
    let mut seen: Vec<DeadLetter> = Vec::new();
    loop {
        let page = must(store.letters(seen.last().map(|letter| letter.id), 3).await);
        if page.is_empty() {
            break;
        }
        seen.extend(page);
    }
    assert_eq!(seen, kept);
}

pub async fn of_two_who_send_a_letter_again_one_counts(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let store = &world.backend.store;
    let letter = DeadLetter::new("nobody reads this".to_owned(), world.now());
    assert!(!must(store.count_redrive(letter.id, 0).await), "there is none");
    assert_eq!(must(store.letter(letter.id).await), None, "and none was made");
    must(store.keep_letter(letter.clone()).await);
    assert!(must(store.count_redrive(letter.id, 0).await));
    assert!(!must(store.count_redrive(letter.id, 0).await));
    assert!(must(store.count_redrive(letter.id, 1).await));
    assert_eq!(must(store.letter(letter.id).await).map(|found| found.redrives), Some(2));
}
