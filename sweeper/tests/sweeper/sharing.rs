//! Several sweepers share the work, and whoever is left takes over (SPEC 6.17).

use crate::harness::{Damaged, SECOND, success};
use async_trait::async_trait;
use conveyor_domain::repair::Subject;
use conveyor_domain::{DeadLetter, QueueName, RunStatus, Timestamp, WorkerId, limits};
use conveyor_store::port::{Around, Over, OverQueue, RunKey};
use conveyor_store::{Backend, Result};
use conveyor_sweeper::{Pace, Sweeper, owner, run};
use conveyor_testkit::until;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

fn ids() -> [WorkerId; 2] {
    [WorkerId::from_bytes([1; 16]), WorkerId::from_bytes([2; 16])]
}

fn sweeper(damaged: &Damaged, id: WorkerId) -> Sweeper {
    Sweeper::new(damaged.backend().clone(), damaged.clock.clone(), id)
}

/// Runs that are done, and that nobody ended.
async fn lost(damaged: &Damaged, runs: usize) -> Vec<RunKey> {
    let mut keys = Vec::new();
    for _ in 0..runs {
        let key = damaged.world.submit(false, 1).await;
        damaged.world.finish(key, 0, success()).await;
        keys.push(key);
    }
    keys
}

async fn ended(damaged: &Damaged, keys: &[RunKey]) -> Vec<RunKey> {
    let mut ended = Vec::new();
    for key in keys {
        if damaged.world.view(*key).await.latest_run().run.status == RunStatus::Completed {
            ended.push(*key);
        }
    }
    ended
}

/// Both say that they are there before there is anything to do.
async fn two_that_are_there() -> (Damaged, [Sweeper; 2], CancellationToken) {
    let (damaged, stop) = (Damaged::new(), CancellationToken::new());
    let both = ids().map(|id| sweeper(&damaged, id));
    for one in &both {
        one.sweep(Pace::Often, &stop).await;
    }
    (damaged, both, stop)
}

#[tokio::test]
async fn each_finding_is_fixed_by_one_and_the_one_that_is_left_takes_over() {
    let (damaged, [one, _two], stop) = two_that_are_there().await;
    let keys = lost(&damaged, 20).await;
    let is_of = |id: WorkerId| move |key: &&RunKey| owner(&ids(), Subject::Run(key.job, key.run)) == Some(id);
    let first: Vec<RunKey> = keys.iter().filter(is_of(ids()[0])).copied().collect();
    assert!(!first.is_empty() && first.len() < keys.len(), "both have something to do");

    let swept = one.sweep(Pace::Often, &stop).await;
    assert_eq!(ended(&damaged, &keys).await, first, "its own, and nothing else");
    assert_eq!((swept.found, swept.changed), (20, first.len() as u64));

    // The other is gone. Until it lapses, what is its own waits.
    damaged.pass_for(limits::GRANT_TTL - Duration::from_secs(10));
    one.sweep(Pace::Often, &stop).await;
    assert_eq!(ended(&damaged, &keys).await, first);
    damaged.pass(11 * SECOND);
    one.sweep(Pace::Often, &stop).await;
    assert_eq!(ended(&damaged, &keys).await, keys);
}

#[tokio::test]
async fn two_at_once_do_everything_and_nothing_twice() {
    let (damaged, [one, two], stop) = two_that_are_there().await;
    let keys = lost(&damaged, 20).await;
    let unsent = damaged.world.submit(false, 7).await;
    damaged.lose_messages(QueueName::Run(unsent.run));
    for (pace, changed) in [(Pace::Often, 20), (Pace::Refs, 7)] {
        let (a, b) = tokio::join!(one.sweep(pace, &stop), two.sweep(pace, &stop));
        assert_eq!(a.changed + b.changed, changed, "{a:?} {b:?}");
    }
    assert_eq!(ended(&damaged, &keys).await, keys);
    assert_eq!(damaged.depth(QueueName::Run(unsent.run)).await, 7);
}

#[tokio::test]
async fn one_that_ends_says_so_and_is_not_waited_for() {
    let (damaged, [one, two], stop) = two_that_are_there().await;
    let ends = CancellationToken::new();
    ends.cancel();
    run(two, ends).await;
    let keys = lost(&damaged, 20).await;
    one.sweep(Pace::Often, &stop).await;
    assert_eq!(ended(&damaged, &keys).await, keys);
}

/// The loops as they run: what is found often, and what is found slowly, without anybody asking.
#[tokio::test]
async fn a_sweeper_that_runs_mends_and_removes_until_it_is_stopped() {
    let damaged = Damaged::new();
    let keys = lost(&damaged, 3).await;
    let counters =
        "UPDATE counters SET successful = 0 WHERE run_key = (SELECT run_key FROM runs WHERE run_id = ?1)";
    assert_eq!(damaged.sql(counters, [keys[0].run.to_bytes()]), 1);
    damaged.lose_messages(QueueName::Run(keys[0].run));
    let stop = CancellationToken::new();
    let running = tokio::spawn(run(sweeper(&damaged, ids()[0]), stop.clone()));
    until("all are mended", async || ended(&damaged, &keys).await == keys).await;
    stop.cancel();
    running.await.unwrap();
}

/// A queue that takes no message of one run and does not say so.
struct Stuck {
    inner: Backend,
    run: QueueName,
}

impl Around for Stuck {
    fn behind(&self) -> &Backend {
        &self.inner
    }
}

#[async_trait]
impl OverQueue for Stuck {
    async fn send(&self, queue: QueueName, bodies: Vec<String>, now: Timestamp) -> Result<()> {
        if queue == self.run {
            std::future::pending::<()>().await;
        }
        self.inner.queue.send(queue, bodies, now).await
    }
}

/// A million lost messages take minutes to send again. Nobody waits that long for the end of a run.
#[tokio::test]
async fn messages_that_are_sent_again_keep_no_run_from_its_end() {
    let damaged = Damaged::new();
    let unsent = damaged.world.submit(false, 1).await;
    let run = QueueName::Run(unsent.run);
    damaged.lose_messages(run);
    let inner = damaged.backend().clone();
    let queue = Arc::new(Over(Arc::new(Stuck { inner: inner.clone(), run })));
    let sweeper = Sweeper::new(Backend { queue, ..inner }, damaged.clock.clone(), ids()[0]);
    let running = tokio::spawn(conveyor_sweeper::run(sweeper, CancellationToken::new()));
    let keys = lost(&damaged, 3).await;
    until("all are ended", async || ended(&damaged, &keys).await == keys).await;
    running.abort();
}

#[tokio::test]
async fn what_is_found_and_swept_can_be_counted() {
    let damaged = Damaged::new();
    let (recorder, stop) = (DebuggingRecorder::new(), CancellationToken::new());
    let _recording = metrics::set_default_local_recorder(&recorder);
    let sweeper = sweeper(&damaged, ids()[0]);
    lost(&damaged, 2).await;
    damaged
        .backend()
        .store
        .keep_letter(DeadLetter::new("9:?".to_owned(), damaged.world.now()))
        .await
        .unwrap();
    sweeper.sweep(Pace::Messages, &stop).await;
    sweeper.sweep(Pace::Often, &stop).await;
    sweeper.sweep(Pace::Refs, &stop).await;
    let seen: Vec<String> = recorder.snapshotter().snapshot().into_vec().into_iter().map(told).collect();
    for wanted in [
        "conveyor_swept_total repair=lost_completion 2",
        "conveyor_sweep_findings repair=lost_completion 2",
        "conveyor_sweep_findings repair=missing_refs 0",
        "conveyor_dead_letters 1",
    ] {
        assert!(seen.iter().any(|one| one == wanted), "{wanted}: {seen:#?}");
    }
    assert!(seen.iter().any(|one| one.starts_with("conveyor_sweep_seconds pace=often")), "{seen:#?}");
}

type Snapshot =
    (metrics_util::CompositeKey, Option<metrics::Unit>, Option<metrics::SharedString>, DebugValue);

fn told((key, _, _, value): Snapshot) -> String {
    let labels = key.key().labels().map(|label| format!(" {}={}", label.key(), label.value()));
    let value = match value {
        DebugValue::Counter(n) => n.to_string(),
        DebugValue::Gauge(n) => n.to_string(),
        DebugValue::Histogram(times) => format!("{} times", times.len()),
    };
    format!("{}{} {value}", key.key().name(), labels.collect::<String>())
}
