//! Notifications that should be there.

use crate::harness::{DAY, Damaged, SECOND, success};
use conveyor_domain::delivery::delivery_key;
use conveyor_domain::delivery::webhook::Target;
use conveyor_domain::{Command, RecordKind, WebhookConfig};
use conveyor_store::port::RunKey;
use conveyor_sweeper::Scope;

/// A job with a webhook, whose run has ended, and nothing written that says so to anybody.
async fn untold(damaged: &Damaged) -> RunKey {
    let (world, store) = (&damaged.world, &damaged.backend().store);
    let key = world.submit(false, 1).await;
    let hook = WebhookConfig::new("https://hook.example/".to_owned(), false);
    store.apply(key.job, Command::Webhook(Some(hook)), world.now()).await.unwrap();
    world.finish(key, 0, success()).await;
    damaged.pass(SECOND);
    store.apply(key.job, Command::Drained, world.now()).await.unwrap();
    assert_eq!(damaged.sql("DELETE FROM records WHERE kind = 'delivery'", []), 1);
    key
}

async fn due(damaged: &Damaged) -> usize {
    let store = &damaged.backend().store;
    store.due_records(RecordKind::Delivery, damaged.world.now(), 10).await.unwrap().len()
}

#[tokio::test]
async fn a_lost_notice_is_made_anew_under_its_own_id() {
    let damaged = Damaged::new();
    let key = untold(&damaged).await;
    damaged.only_damage_of("lost_notices", key).await;
    damaged.is_mended_by_a_sweep().await;
    let id = delivery_key(key.job, Target::Webhook.event_of(key.run));
    assert!(damaged.backend().store.record(&id).await.unwrap().is_some());
    assert_eq!(due(&damaged).await, 1);
    damaged.sweep().await;
    assert_eq!(due(&damaged).await, 1);
}

/// Later than its queue is gone, only whoever asks for the job looks at it.
#[tokio::test]
async fn a_job_that_is_asked_for_is_looked_at_whole() {
    let damaged = Damaged::new();
    let key = untold(&damaged).await;
    damaged.sweep().await;
    assert_eq!(damaged.sql("DELETE FROM records WHERE kind = 'delivery'", []), 1);
    assert_eq!(damaged.damage().await, []);
    damaged.reconcile(Scope::Job(key.job), false).await;
    assert_eq!(due(&damaged).await, 1);
}

#[tokio::test]
async fn what_is_long_over_or_was_not_to_be_told_is_left_alone() {
    let damaged = Damaged::new();
    untold(&damaged).await;
    damaged.pass(4 * DAY);
    assert_eq!(damaged.damage().await, []);
    let (world, store) = (&damaged.world, &damaged.backend().store);
    let late = world.submit(false, 1).await;
    world.finish(late, 0, success()).await;
    store.apply(late.job, Command::Drained, world.now()).await.unwrap();
    damaged.pass(SECOND);
    let hook = WebhookConfig::new("https://hook.example/".to_owned(), false);
    store.apply(late.job, Command::Webhook(Some(hook)), world.now()).await.unwrap();
    assert_eq!(damaged.damage().await, []);
}
