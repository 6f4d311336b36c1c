//! Additions that were given up, and refs that were not sent (SPEC 5.4).

use super::{enumerate, open_on, rows};
use crate::on_aws::OnAws;
use aws_sdk_dynamodb::types::AttributeValue;
use conveyor_domain::{RecordKind, RunStatus, limits};
use conveyor_store::conformance::{World, success};
use conveyor_store::port::{Claim, RunKey};
use std::collections::HashMap;

/// Sets the holes of a run, as earlier versions wrote them.
async fn set_holes(harness: &OnAws, key: RunKey, holes: &[(u32, u32)], next: u32, total: u32) {
    let (pk, sk) = (format!("Job#{}", key.job), format!("R#{}", key.run));
    let holes: Vec<String> = holes.iter().map(|(first, end)| format!("[{first},{end}]")).collect();
    let update = harness.clients.dynamodb.update_item().table_name(&harness.settings.table);
    let update = update
        .key("pk", AttributeValue::S(pk.clone()))
        .key("sk", AttributeValue::S(sk.clone()))
        .update_expression("SET holes = :holes")
        .expression_attribute_values(":holes", AttributeValue::S(format!("[{}]", holes.join(","))));
    update.send().await.unwrap();
    rows::set(harness, &pk, &sk, &[("nxt", Some(next.into())), ("tot", Some(total.into()))]).await;
}

#[tokio::test(flavor = "current_thread")]
async fn rows_of_additions_that_were_given_up_are_never_seen() {
    for shards in [1, 4] {
        let (harness, world) = open_on(shards).await;
        let store = &world.backend.store;
        let key = world.submit(true, 4).await;
        // Tasks 1 to 3 were written by an addition that was never counted; 255 others left nothing but their holes.
        let others = (4..259).map(|n| (n, n + 1));
        set_holes(&harness, key, &[(1, 4)].into_iter().chain(others).collect::<Vec<_>>(), 259, 1).await;
        assert_eq!(enumerate(&world, key, 100).await, 1);

        let add = async || store.add_tasks(key.job, World::inputs(2), false, 1_000, None, world.now()).await;
        // Nobody knows how old they are: an earlier version may be filling them now.
        assert!(add().await.is_err(), "none of them is closed yet");
        let stamped = rows::rows(&harness, &format!("Job#{}", key.job), "R#").await.remove(0);
        assert_eq!(stamped["hs"].as_s().unwrap().matches(&world.now().0.to_string()).count(), 256);
        world.pass(i64::try_from(limits::ADDITION_GIVEN_UP.as_millis()).unwrap());
        add().await.unwrap();
        let left: HashMap<_, _> = rows::rows(&harness, &format!("Job#{}", key.job), "R#").await.remove(0);
        assert!(!left.contains_key("holes"), "all of them are closed: {left:?}");
        assert_eq!(enumerate(&world, key, 100).await, 3);
        let tally = store.tally(key, true).await.unwrap().unwrap();
        assert_eq!((tally.rows.pending, tally.run.total, tally.damaged.count), (3, 3, 0));
        assert_eq!(world.claim(key, 2).await, Claim::Gone);
        assert_eq!(store.task(key, World::task(key, 2)).await.unwrap(), None);
        // An addition that stalled for all that time finds its places taken.
        for index in [0, 259, 260] {
            world.finish(key, index, success()).await;
        }
        let view = store.apply(key.job, conveyor_domain::Command::Close, world.now()).await.unwrap();
        assert_eq!(
            (view.latest_run().run.status, view.latest_run().stats.counts.successful),
            (RunStatus::Completed, 3)
        );
    }
}

#[tokio::test(flavor = "current_thread")]
async fn an_addition_that_is_under_way_is_left_alone() {
    let (harness, world) = open_on(1).await;
    let store = &world.backend.store;
    let key = world.submit(true, 1).await;
    let holes: Vec<(u32, u32)> = (1..257).map(|n| (n, n + 1)).collect();
    set_holes(&harness, key, &holes, 257, 1).await;
    let (pk, sk) = (format!("Job#{}", key.job), format!("R#{}", key.run));
    let since: Vec<String> = holes.iter().map(|_| world.now().0.to_string()).collect();
    let update = harness.clients.dynamodb.update_item().table_name(&harness.settings.table);
    let since = AttributeValue::S(format!("[{}]", since.join(",")));
    let update = update.key("pk", AttributeValue::S(pk)).key("sk", AttributeValue::S(sk));
    update
        .update_expression("SET hs = :since")
        .expression_attribute_values(":since", since)
        .send()
        .await
        .unwrap();
    let add = || store.add_tasks(key.job, World::inputs(1), false, 1_000, None, world.now());
    assert!(add().await.is_err(), "so many at once");
    world.pass(i64::try_from(limits::ADDITION_GIVEN_UP.as_millis()).unwrap());
    add().await.unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn an_outbox_is_empty_once_its_refs_are_sent() {
    let (_, world) = open_on(1).await;
    let store = &world.backend.store;
    let key = world.submit(true, 3).await;
    store.add_tasks(key.job, World::inputs(2), false, 1_000, None, world.now()).await.unwrap();
    let later = world.now().after(limits::REFS_SENT_WITHIN * 2);
    assert_eq!(store.due_records(RecordKind::UnsentRefs, later, 10).await.unwrap(), []);
}
