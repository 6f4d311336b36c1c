//! Rules of the small documents beside jobs and runs (SPEC 5.7).

use super::world::must;
use super::{Harness, World};
use crate::port::{DueQuery, RecordsQuery};
use conveyor_domain::job::record::Expected;
use conveyor_domain::{Record, RecordKey, RecordKind, RecordVersion, RecordWrite, Timestamp};
use futures::future::join_all;

fn key(owner: &str, id: &str) -> RecordKey {
    RecordKey::new(RecordKind::Delivery, owner, id)
}

fn record(world: &World, key: RecordKey, doc: &str) -> Record {
    Record::new(key, RecordVersion::new(&world.entropy), &doc)
}

pub async fn a_record_is_written_only_over_what_was_expected(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let store = &world.backend.store;
    let first = record(&world, key("owner", "a"), "first").expires(Some(Timestamp(9_000_000_000_000)));
    let second = record(&world, key("owner", "a"), "second").due(Some(Timestamp(5)));
    let put = |record: &Record, expected| store.write_record(RecordWrite::put(record.clone(), expected));
    assert_eq!(must(store.record(&first.key).await), None);
    assert!(!must(put(&second, Expected::Version(first.version)).await), "there is nothing yet");
    assert!(must(put(&first, Expected::Absent).await));
    assert!(must(put(&first, Expected::Absent).await), "a repeat finds its own");
    assert!(!must(put(&second, Expected::Absent).await));
    assert_eq!(must(store.record(&first.key).await), Some(first.clone()));
    assert!(must(put(&second, Expected::Version(first.version)).await));
    assert!(!must(put(&first, Expected::Version(first.version)).await), "it has moved on");
    let crashed = harness.crash().await;
    let after = crashed.backend().store;
    assert_eq!(must(after.record(&first.key).await), Some(second.clone()));
    let remove = |expected| after.write_record(RecordWrite::remove(first.key.clone(), expected));
    assert!(!must(remove(Expected::Version(first.version)).await));
    assert!(must(remove(Expected::Version(second.version)).await));
    assert!(must(remove(Expected::Anything).await), "gone is gone");
    assert_eq!(must(after.record(&first.key).await), None);
}

pub async fn of_many_who_write_at_once_one_wins(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let store = &world.backend.store;
    let base = record(&world, key("owner", "a"), "base");
    must(store.write_record(RecordWrite::put(base.clone(), Expected::Absent)).await);
    let drafts: Vec<Record> = (0..20).map(|n| record(&world, base.key.clone(), &format!("{n}"))).collect();
    let over_base = Expected::Version(base.version);
    let writes = drafts.iter().map(|draft| store.write_record(RecordWrite::put(draft.clone(), over_base)));
    let won: Vec<bool> = join_all(writes).await.into_iter().map(must).collect();
    assert_eq!(won.iter().filter(|won| **won).count(), 1, "{won:?}");
    let winner = drafts.into_iter().zip(won).find(|(_, won)| *won).map(|(draft, _)| draft);
    assert_eq!(must(store.record(&base.key).await), winner);
}

pub async fn records_page_by_id_both_ways_and_are_their_owners_own(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let store = &world.backend.store;
    for (owner, id) in [("one", "a"), ("one", "b"), ("one", "c"), ("one", "d"), ("two", "b"), ("tw", "e")] {
        must(
            store
                .write_record(RecordWrite::put(record(&world, key(owner, id), id), Expected::Anything))
                .await,
        );
    }
    let ids = async |owner: &str, after: Option<&str>, newest_first, limit| -> Vec<String> {
        let query = RecordsQuery {
            kind: RecordKind::Delivery,
            owner: owner.to_owned(),
            after: after.map(str::to_owned),
            newest_first,
            limit,
        };
        must(store.records(query).await).into_iter().map(|record| record.key.id).collect()
    };
    assert_eq!(ids("one", None, false, 3).await, ["a", "b", "c"]);
    assert_eq!(ids("one", Some("c"), false, 3).await, ["d"]);
    assert_eq!(ids("one", None, true, 3).await, ["d", "c", "b"]);
    assert_eq!(ids("one", Some("b"), true, 3).await, ["a"]);
    assert_eq!(ids("two", None, true, 9).await, ["b"]);
    assert!(ids("nobody", None, true, 9).await.is_empty());
}

pub async fn records_are_found_by_when_they_are_due(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let store = &world.backend.store;
    let at = |id: &str, due| record(&world, key("owner", id), id).due(due);
    for (id, due) in [("late", Some(3_000)), ("never", None), ("soon", Some(1_000)), ("next", Some(2_000))] {
        let put = RecordWrite::put(at(id, due.map(Timestamp)), Expected::Absent);
        must(store.write_record(put).await);
    }
    let due = async |by: i64, limit| -> Vec<String> {
        let found = must(store.due_records(RecordKind::Delivery, Timestamp(by), limit).await);
        found.into_iter().map(|record| record.key.id).collect()
    };
    assert!(due(999, 9).await.is_empty());
    assert_eq!(due(2_000, 9).await, ["soon", "next"]);
    assert_eq!(due(9_000, 1).await, ["soon"]);
    let other = must(store.due_records(RecordKind::Export, Timestamp(9_000), 9).await);
    assert!(other.is_empty(), "of another kind");
    // What was put off is due when it says now.
    must(store.write_record(RecordWrite::put(at("soon", Some(Timestamp(4_000))), Expected::Anything)).await);
    assert_eq!(due(3_000, 9).await, ["next", "late"]);
}

pub async fn what_is_due_is_paged_from_either_end(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let store = &world.backend.store;
    for (id, due) in [("a", 1_000), ("b", 2_000), ("c", 2_000), ("d", 3_000), ("later", 9_000)] {
        let at = record(&world, key("owner", id), id).due(Some(Timestamp(due)));
        must(store.write_record(RecordWrite::put(at, Expected::Absent)).await);
    }
    let page = async |after, newest_first, limit| {
        let (kind, by) = (RecordKind::Delivery, Timestamp(3_000));
        must(store.due_keys(DueQuery { kind, by, after, newest_first, limit }).await)
    };
    let ids =
        |page: &[(Timestamp, RecordKey)]| page.iter().map(|(_, key)| key.id.clone()).collect::<Vec<_>>();
    let newest = page(None, true, 3).await;
    assert_eq!(ids(&newest), ["d", "c", "b"]);
    let before = page(newest.last().cloned(), true, 3).await;
    assert_eq!(ids(&before), ["a"]);
    assert!(page(before.last().cloned(), true, 3).await.is_empty());
    let first = page(None, false, 2).await;
    assert_eq!(ids(&first), ["a", "b"]);
    assert_eq!(first[1], (Timestamp(2_000), key("owner", "b")));
    let second = page(first.last().cloned(), false, 2).await;
    assert_eq!(ids(&second), ["c", "d"]);
    assert!(page(second.last().cloned(), false, 2).await.is_empty());
}
