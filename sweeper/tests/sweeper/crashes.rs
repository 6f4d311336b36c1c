//! A sweep that is cut off anywhere leaves nothing that the next one does not mend.

use crate::harness::{Damaged, SECOND, success};
use conveyor_domain::{Command, IngestEvent, QueueName, RunStatus, limits};
use conveyor_store::port::RunKey;
use conveyor_testkit::cancel_at;
use std::time::Duration;

struct Everything {
    done: RunKey,
    unsent: RunKey,
    miscounted: RunKey,
    uncalled: RunKey,
    dead: RunKey,
    deleted: RunKey,
}

/// One of each: what a sweep has to do at least once.
async fn break_everything(damaged: &Damaged) -> Everything {
    let (world, store) = (&damaged.world, &damaged.backend().store);
    let [done, unsent, miscounted, deleted] = [
        world.submit(false, 1).await,
        world.submit(false, 3).await,
        world.submit(false, 2).await,
        world.submit(false, 2).await,
    ];
    world.finish(done, 0, success()).await;
    damaged.lose_messages(QueueName::Run(unsent.run));
    world.finish(miscounted, 0, success()).await;
    let counters =
        "UPDATE counters SET successful = 9 WHERE run_key = (SELECT run_key FROM runs WHERE run_id = ?1)";
    assert_eq!(damaged.sql(counters, [miscounted.run.to_bytes()]), 1);
    store.apply(deleted.job, Command::Delete, world.now()).await.unwrap();
    let dead = damaged.accepted().await;
    for _ in 0..=limits::CONTROL_MAX_RECEIVES {
        let control = QueueName::Control;
        damaged.backend().queue.receive(control, 1, Duration::from_secs(1), world.now()).await.unwrap();
        damaged.pass(SECOND);
    }
    let given_up = IngestEvent::AttemptFailed { error: "no disk".into(), dead_lettered: true };
    let entry = damaged.state(dead).await.entry(given_up).unwrap();
    store.append(dead, entry, world.now()).await.unwrap();
    let uncalled = damaged.accepted().await;
    damaged.lose_messages(QueueName::Control);
    damaged.pass(11 * SECOND);
    Everything { done, unsent, miscounted, uncalled, dead, deleted }
}

async fn is_whole(damaged: &Damaged, all: &Everything) {
    assert_eq!(damaged.damage().await, []);
    let store = &damaged.backend().store;
    assert_eq!(damaged.world.view(all.done).await.latest_run().run.status, RunStatus::Completed);
    assert!(damaged.depth(QueueName::Run(all.unsent.run)).await >= 3);
    assert_eq!(damaged.world.view(all.miscounted).await.latest_run().stats.counts.successful, 1);
    assert!(damaged.calls().await.iter().any(|call| call.run == all.uncalled.run));
    let letters = store.letters(None, 9).await.unwrap();
    assert!(letters.iter().any(|letter| letter.ingest().is_some_and(|message| message.run == all.dead.run)));
    assert!(store.job(None, all.deleted.job).await.unwrap().is_none());
    for key in [all.done, all.unsent, all.miscounted] {
        assert!(damaged.audit(key).await.agrees());
    }
}

#[tokio::test]
async fn a_sweep_that_is_cut_off_at_any_await_is_made_up_for_by_the_next() {
    let mut waits = 0;
    loop {
        let damaged = Damaged::new();
        let all = break_everything(&damaged).await;
        let ended = cancel_at(waits, damaged.sweep()).await.is_some();
        // A message that was received when it was cut off comes back once its time is over.
        damaged.pass_for(limits::VISIBILITY);
        damaged.sweep().await;
        damaged.pass_for(limits::VISIBILITY);
        damaged.sweep().await;
        is_whole(&damaged, &all).await;
        if ended {
            assert!(waits > 30, "{waits} awaits: there was less to do than there should be");
            return;
        }
        waits += 1;
    }
}
