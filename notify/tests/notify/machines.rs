//! State machines that wait for a run.

use crate::world::World;
use conveyor_domain::delivery::Answer;
use conveyor_domain::{AccountFault, Command, DeliveryState, RunId, Secret};
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn every_end_is_told() {
    let fault = |run| Command::FailRun {
        run,
        reason: AccountFault::InsufficientCredits,
        detail: "none left".to_owned(),
    };
    type End = (fn(RunId) -> Command, &'static str);
    let ends: [End; 4] = [
        (|_| Command::Close, "success"),
        (fault, "insufficient_credits"),
        (|_| Command::Stop, "run_stopped"),
        (|_| Command::Delete, "run_deleted"),
    ];
    for (command, what) in ends {
        let world = World::new();
        let key = world.awaited("the-token").await;
        world.apply(key, command(key.run)).await;
        assert_eq!(world.deliver().await, 1);
        let told = world.machines.told.lock().unwrap().clone();
        let [(token, said, with)] = &told[..] else { panic!("told once: {told:?}") };
        assert_eq!((token.as_str(), said.as_str()), ("the-token", what));
        match what {
            "success" => assert!(with.contains("run.completed"), "{with}"),
            "insufficient_credits" => assert_eq!(with, "none left"),
            _ => {}
        }
        assert_eq!(world.delivery(key).await.state, DeliveryState::Delivered);
    }
}

#[tokio::test]
async fn a_token_that_nobody_waits_with_is_not_tried_again() {
    let world = World::new();
    *world.machines.answer.lock().unwrap() = Some(Answer::Refused("TaskTimedOut".to_owned()));
    let key = world.awaited("the-token").await;
    world.apply(key, Command::Close).await;
    world.deliver().await;
    let delivery = world.delivery(key).await;
    assert_eq!(delivery.state, DeliveryState::Failed);
    assert_eq!(delivery.attempts[0].ended.as_ref().unwrap().error.as_deref(), Some("TaskTimedOut"));
}

#[tokio::test]
async fn a_service_that_does_not_hear_is_tried_again() {
    let world = World::new();
    *world.machines.answer.lock().unwrap() = Some(Answer::Transport("throttled".to_owned()));
    let key = world.awaited("the-token").await;
    world.apply(key, Command::Close).await;
    world.deliver().await;
    *world.machines.answer.lock().unwrap() = None;
    world.pass(Duration::from_secs(60));
    world.deliver().await;
    assert_eq!(world.delivery(key).await.state, DeliveryState::Delivered);
}

#[tokio::test]
async fn a_token_is_not_stored_in_the_clear() {
    let world = World::new();
    let key = world.awaited("the-token").await;
    world.apply(key, Command::Close).await;
    assert!(!world.records(key).await[0].doc.contains("the-token"));
    let job = world.backend.store.job(None, key.job).await.unwrap().unwrap().job;
    assert!(!serde_json::to_string(job.spec.as_ref()).unwrap().contains("the-token"));
}

/// A process with another secret must not give up for those who have the right one.
#[tokio::test]
async fn a_token_of_another_secret_waits() {
    let mut world = World::new();
    let key = world.awaited("the-token").await;
    world.apply(key, Command::Close).await;
    let right = world.notifier.secret.clone();
    Arc::get_mut(&mut world.notifier).unwrap().secret = Secret::new([8; 32]);
    world.deliver().await;
    let delivery = world.delivery(key).await;
    assert_eq!(delivery.state, DeliveryState::Pending);
    assert!(delivery.attempts[0].ended.as_ref().unwrap().error.as_ref().unwrap().contains("secret"));
    Arc::get_mut(&mut world.notifier).unwrap().secret = right;
    world.pass(Duration::from_secs(60));
    world.deliver().await;
    assert_eq!(world.delivery(key).await.state, DeliveryState::Delivered);
}
