//! Lost messages of runs, and ends that nobody came to say.

use crate::harness::{Damaged, SECOND, success};
use conveyor_domain::job::record::Expected;
use conveyor_domain::{QueueName, RecordWrite, RunStatus, Timestamp, UnsentRefs, limits};
use conveyor_store::port::{Receipt, RunKey};
use conveyor_sweeper::{Pace, Sweep, Sweeper, sweep};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

fn queue(key: RunKey) -> QueueName {
    QueueName::Run(key.run)
}

#[tokio::test]
async fn lost_messages_are_sent_again_for_the_rows_that_need_them() {
    let damaged = Damaged::new();
    let key = damaged.world.submit(false, 10).await;
    damaged.world.finish(key, 3, success()).await;
    damaged.world.claimed(key, 4).await;
    assert!(damaged.lose_messages(queue(key)) > 0);
    damaged.pass(14 * SECOND);
    let finding = damaged.only_damage_of("missing_refs", key).await;
    assert_eq!(
        finding.why,
        "9 of 10 tasks are unfinished and the queue is empty; the last event was job.submitted 14 s ago"
    );
    damaged.is_mended_by_a_sweep().await;
    assert_eq!(damaged.depth(queue(key)).await, 9, "every row but the settled one");
    damaged.sweep().await;
    assert_eq!(damaged.depth(queue(key)).await, 9, "a second sweep finds nothing");
}

#[tokio::test]
async fn refs_that_cannot_be_sent_keep_those_behind_them_from_nothing() {
    let damaged = Damaged::new();
    let (key, store) = (damaged.world.submit(false, 3).await, &damaged.backend().store);
    damaged.lose_messages(queue(key));
    for (first, end) in [(0, 1), (1, 3)] {
        let unsent = UnsentRefs { job: key.job, first, end };
        let record = unsent.record(key.run, damaged.world.now(), Duration::ZERO, &damaged.world.entropy);
        assert!(store.write_record(RecordWrite::put(record, Expected::Absent)).await.unwrap());
    }
    let refused = damaged.world.task_ref(key, 0).await.to_string();
    let refuse = format!(
        "CREATE TRIGGER refuse BEFORE INSERT ON messages WHEN NEW.body = '{refused}'
            BEGIN SELECT RAISE(ABORT, 'refused'); END"
    );
    damaged.sql(&refuse, []);
    let stop = CancellationToken::new();
    let sweeper = Sweeper::alone(damaged.backend().clone(), damaged.clock.clone());
    sweeper.sweep(Pace::Messages, &stop).await;
    assert_eq!(damaged.depth(queue(key)).await, 2, "the other record's are sent");
    damaged.sql("DROP TRIGGER refuse", []);
    damaged.pass_for(limits::REFS_SENT_WITHIN);
    sweeper.sweep(Pace::Messages, &stop).await;
    assert_eq!(damaged.depth(queue(key)).await, 3, "and this when its lease is over");
}

#[tokio::test]
async fn a_removed_queue_is_made_anew() {
    let damaged = Damaged::new();
    let key = damaged.world.submit(false, 3).await;
    damaged.lose_messages(queue(key));
    assert_eq!(damaged.sql("DELETE FROM queues WHERE name = ?1", [queue(key).to_string()]), 1);
    damaged.only_damage_of("missing_refs", key).await;
    damaged.is_mended_by_a_sweep().await;
    assert_eq!(damaged.depth(queue(key)).await, 3);
}

#[tokio::test]
async fn some_lost_messages_are_found_once_the_others_are_done() {
    let damaged = Damaged::new();
    let (key, queues) = (damaged.world.submit(false, 6).await, &damaged.backend().queue);
    let now = damaged.world.now();
    let received = queues.receive(queue(key), 6, Duration::from_secs(60), now).await.unwrap();
    let lost: Vec<Receipt> = received[..4].iter().map(|delivery| delivery.receipt.clone()).collect();
    queues.ack(queue(key), lost).await.unwrap();
    assert_eq!(damaged.damage().await, [], "two are being worked on");
    for index in 4..6 {
        damaged.world.finish(key, index, success()).await;
    }
    queues
        .ack(queue(key), received[4..].iter().map(|delivery| delivery.receipt.clone()).collect())
        .await
        .unwrap();
    damaged.only_damage_of("missing_refs", key).await;
    damaged.is_mended_by_a_sweep().await;
    assert_eq!(damaged.depth(queue(key)).await, 4);
}

#[tokio::test]
async fn a_run_with_a_row_that_cannot_be_read_costs_only_itself() {
    let damaged = Damaged::new();
    let mut keys = Vec::new();
    for _ in 0..3 {
        keys.push(damaged.world.submit(false, 2).await);
    }
    // The first of them, in whatever order they are looked at.
    keys.sort_by_key(|key| key.run);
    let done = damaged.world.submit(false, 1).await;
    damaged.world.finish(done, 0, success()).await;
    for key in &keys {
        assert!(damaged.lose_messages(queue(*key)) > 0);
    }
    let garbage = "UPDATE tasks SET created_ms = 'garbage' WHERE task_key =
        (SELECT run_key << 32 FROM runs WHERE run_id = ?1)";
    assert_eq!(damaged.sql(garbage, [keys[0].run.to_bytes()]), 1);
    damaged.sweep().await;
    for (key, messages) in keys.iter().zip([1, 2, 2]) {
        assert_eq!(damaged.depth(queue(*key)).await, messages, "every row that can be read has a message");
    }
    assert_eq!(damaged.world.view(done).await.latest_run().run.status, RunStatus::Completed);
}

#[tokio::test]
async fn rows_that_outnumber_the_messages_are_named_and_get_theirs() {
    let damaged = Damaged::new();
    let key = damaged.world.submit(false, 6).await;
    let (now, queues) = (damaged.world.now(), &damaged.backend().queue);
    let received = queues.receive(queue(key), 6, Duration::from_secs(600), now).await.unwrap();
    let lost: Vec<Receipt> = received[..4].iter().map(|delivery| delivery.receipt.clone()).collect();
    queues.ack(queue(key), lost).await.unwrap();
    assert_eq!(damaged.damage().await, [], "it may only seem so");
    damaged.pass_for(conveyor_domain::limits::REF_WAITS_LONG);
    let finding = damaged.only_damage_of("missing_refs", key).await;
    assert!(finding.why.starts_with("6 tasks have been pending for more than 2 min and"), "{}", finding.why);
    assert!(finding.why.contains("the queue holds only 2 messages"), "{}", finding.why);
    damaged.reconcile(conveyor_sweeper::Scope::All, false).await;
    assert_eq!(damaged.damage().await, []);
}

#[tokio::test]
async fn a_lost_completion_is_made_up_for() {
    let damaged = Damaged::new();
    let key = damaged.world.submit(false, 2).await;
    for index in 0..2 {
        damaged.world.finish(key, index, success()).await;
    }
    damaged.pass(7);
    let finding = damaged.only_damage_of("lost_completion", key).await;
    assert!(finding.why.starts_with("all 2 tasks are terminal and the run goes on"), "{}", finding.why);
    damaged.is_mended_by_a_sweep().await;
    let done = damaged.world.view(key).await.latest_run().run.clone();
    assert_eq!((done.status, done.updated), (RunStatus::Completed, damaged.world.now()));
    assert_eq!(damaged.depth(queue(key)).await, 0, "the queue of an ended run is gone");
    damaged.pass(7);
    damaged.sweep().await;
    assert_eq!(damaged.world.view(key).await.latest_run().run, done, "once");
}

#[tokio::test]
async fn an_open_run_that_has_nothing_left_to_do_is_put_to_rest() {
    let damaged = Damaged::new();
    let open = damaged.world.submit(true, 1).await;
    damaged.world.finish(open, 0, success()).await;
    assert_eq!(
        damaged.only_damage_of("lost_completion", open).await.remedy,
        "puts the run to rest until more tasks come"
    );
    damaged.is_mended_by_a_sweep().await;
    assert_eq!(damaged.world.view(open).await.latest_run().run.status, RunStatus::Pending);
}

#[tokio::test]
async fn a_sweep_stops_when_it_is_told_to() {
    let damaged = Damaged::new();
    let key = damaged.world.submit(false, 1).await;
    damaged.world.finish(key, 0, success()).await;
    let stop = CancellationToken::new();
    stop.cancel();
    sweep(&Sweep::new(damaged.backend(), damaged.clock.as_ref(), &stop)).await;
    let run = damaged.world.view(key).await.latest_run().run.clone();
    assert_eq!((run.status, run.updated), (RunStatus::Running, Timestamp(1_800_000_000_000)));
}
