//! Lists that nobody reads (SPEC 6.13).

use crate::harness::{Damaged, SECOND};
use conveyor_domain::repair::Subject;
use conveyor_domain::{Command, IngestEvent, QueueName, limits};
use conveyor_store::port::RunKey;
use conveyor_sweeper::{Pace, Sweeper};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_lost_call_for_an_ingester_is_repeated_but_not_for_ever() {
    let damaged = Damaged::new();
    let key = damaged.accepted().await;
    damaged.sweep().await;
    assert_eq!(damaged.depth(QueueName::Control).await, 1, "it was only just sent");
    for resent in 1..=limits::INGEST_RESENDS_MAX {
        assert_eq!(damaged.lose_messages(QueueName::Control), 1);
        assert_eq!(damaged.damage().await, [], "somebody may still be at it");
        damaged.pass(11 * SECOND);
        let finding = damaged.only_damage_of("stalled_ingest", key).await;
        assert_eq!(finding.remedy, "sends the control message again");
        damaged.is_mended_by_a_sweep().await;
        damaged.sweep().await;
        assert_eq!(damaged.depth(QueueName::Control).await, 1, "once");
        assert_eq!(damaged.state(key).await.resends, resent);
    }
    damaged.lose_messages(QueueName::Control);
    damaged.pass(11 * SECOND);
    let finding = damaged.only_damage_of("stalled_ingest", key).await;
    assert!(
        finding.why.contains("nothing was logged for 11 s after 4 calls, and the control queue is empty")
    );
    assert!(finding.why.ends_with("the last event was ingest.resent 11 s ago"), "{}", finding.why);
    assert_eq!(finding.remedy, "gives it up after 4 calls, with a dead letter");
    damaged.is_mended_by_a_sweep().await;
    assert_eq!(
        damaged.depth(QueueName::Control).await,
        0,
        "a list that never gets anywhere is not tried for ever"
    );
    let given_up = damaged.state(key).await;
    assert!(given_up.dead_lettered && given_up.last_error.is_some(), "and says so");
    let kept = damaged.backend().store.letters(None, 9).await.unwrap();
    assert_eq!(kept.iter().map(|letter| letter.ingest().unwrap().run).collect::<Vec<_>>(), [key.run]);
    damaged.pass(200 * SECOND);
    damaged.sweep().await;
    assert_eq!(damaged.state(key).await, given_up, "once");
}

#[tokio::test]
async fn a_stalled_ingest_is_called_again_but_not_one_that_waits_its_turn() {
    let damaged = Damaged::new();
    let key = damaged.accepted().await;
    damaged.pass(500 * SECOND);
    assert_eq!(damaged.damage().await, [], "its message waits: nobody has the time for it");
    // Somebody has it, and says nothing.
    let (queue, now) = (&damaged.backend().queue, damaged.world.now());
    let hour = Duration::from_secs(3_600);
    assert_eq!(queue.receive(QueueName::Control, 1, hour, now).await.unwrap().len(), 1);
    let finding = damaged.only_damage_of("stalled_ingest", key).await;
    assert!(finding.why.contains("whoever has its message says nothing"), "{}", finding.why);
    damaged.is_mended_by_a_sweep().await;
    assert_eq!(damaged.calls().await.len(), 1);
}

/// An ingester without a place for it receives its message all the same, to see whose it is, and sends it again.
#[tokio::test]
async fn a_message_that_is_passed_over_at_this_moment_still_waits_its_turn() {
    let damaged = Damaged::new();
    let key = damaged.accepted().await;
    let (sweeper, stop) =
        (Sweeper::alone(damaged.backend().clone(), damaged.clock.clone()), CancellationToken::new());
    damaged.pass(500 * SECOND);
    sweeper.sweep(Pace::Messages, &stop).await;
    let (queue, now) = (&damaged.backend().queue, damaged.world.now());
    let hour = Duration::from_secs(3_600);
    assert_eq!(queue.receive(QueueName::Control, 1, hour, now).await.unwrap().len(), 1);
    sweeper.sweep(Pace::Messages, &stop).await;
    assert_eq!(damaged.state(key).await.resends, 0, "it was seen waiting a moment ago");
    damaged.pass_for(limits::INGEST_STALLED);
    sweeper.sweep(Pace::Messages, &stop).await;
    assert_eq!(damaged.state(key).await.resends, 1, "somebody has had it for long");
}

#[tokio::test]
async fn an_ingest_that_was_given_up_gets_its_letter_and_waits_until_its_run_has_ended() {
    let damaged = Damaged::new();
    let key = damaged.accepted().await;
    let event = IngestEvent::AttemptFailed { error: "no disk".into(), dead_lettered: true };
    let entry = damaged.state(key).await.entry(event).unwrap();
    damaged.backend().store.append(key, entry, damaged.world.now()).await.unwrap();
    damaged.lose_messages(QueueName::Control);
    damaged.pass(11 * SECOND);
    let finding = damaged.only_damage_of("stalled_ingest", key).await;
    assert_eq!(finding.remedy, "keeps a dead letter of it, for an operator");
    damaged.is_mended_by_a_sweep().await;
    damaged.pass(200 * SECOND);
    damaged.sweep().await;
    assert_eq!(damaged.depth(QueueName::Control).await, 0, "an operator has to look");
    damaged.backend().store.apply(key.job, Command::Stop, damaged.world.now()).await.unwrap();
    damaged.lose_messages(QueueName::Control);
    damaged.is_mended_by_a_sweep().await;
    assert_eq!(damaged.calls().await.len(), 1, "it has only to be cut");
    assert_eq!(damaged.backend().store.letters(None, 9).await.unwrap(), []);
}

/// Stopped while its message was lost: there is no letter, and nothing to try often.
#[tokio::test]
async fn the_ingest_of_a_run_that_ended_is_called_however_often_it_was_called() {
    let damaged = Damaged::new();
    let key = damaged.accepted().await;
    damaged.backend().store.apply(key.job, Command::Stop, damaged.world.now()).await.unwrap();
    for _ in 0..=limits::INGEST_RESENDS_MAX + 1 {
        damaged.lose_messages(QueueName::Control);
        damaged.pass(11 * SECOND);
        damaged.sweep().await;
        assert_eq!(damaged.depth(QueueName::Control).await, 1);
    }
}

#[tokio::test]
async fn a_log_that_cannot_be_read_is_named_and_hides_nothing_else() {
    let damaged = Damaged::new();
    let (broken, lost) = (damaged.accepted().await, damaged.accepted().await);
    damaged.lose_messages(QueueName::Control);
    assert_eq!(
        damaged.sql(
            "UPDATE events SET doc = '{}' WHERE run_id = ?1 AND ingest_number = 0",
            [broken.run.to_bytes()]
        ),
        1
    );
    damaged.pass(11 * SECOND);
    let found = damaged.findings().await;
    let named =
        |key: RunKey| found.iter().find(|finding| finding.subject == Subject::Run(key.job, key.run)).unwrap();
    assert!(!named(broken).fixable && named(broken).why.contains("corrupt"), "{:?}", named(broken));
    assert!(named(lost).fixable);
    let audit = damaged.audit(broken).await;
    assert!(audit.disagreements[0].starts_with("the log of its ingest cannot be read"), "{audit:?}");
    assert_eq!(audit.findings, [named(broken).clone()]);
    damaged.is_mended_by_a_sweep().await;
    assert_eq!(damaged.calls().await.iter().map(|call| call.run).collect::<Vec<_>>(), [lost.run]);
}
