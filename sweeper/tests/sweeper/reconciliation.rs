//! A reconciliation in parts, and what it says of what it did.

use crate::harness::{Damaged, success};
use async_trait::async_trait;
use conveyor_domain::repair::{Outcome, Subject};
use conveyor_domain::{Command, QueueName, Reconciled, RunStatus, Timestamp, limits};
use conveyor_store::port::{
    Around, ChangeCursor, ChangedRuns, Over, OverDeadLetterStore, OverEventStore, OverIngestStore,
    OverJobStore, OverKeyStore, OverProofStore, OverRecordStore, OverRetention, OverTaskStore,
    OverUploadStore, RunKey,
};
use conveyor_store::{Backend, Result};
use conveyor_sweeper::{InvalidCursor, Scope, Sweep, reconcile};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

async fn part(damaged: &Damaged, dry_run: bool, from: Option<&str>, within: Duration) -> Reconciled {
    let stop = CancellationToken::new();
    let sweep = Sweep::new(damaged.backend(), damaged.clock.as_ref(), &stop);
    reconcile(&sweep, Scope::All, dry_run, from, within).await.unwrap()
}

/// All parts of one, and how many there were.
async fn parts(damaged: &Damaged, dry_run: bool, within: Duration) -> (Vec<(Subject, Outcome)>, usize) {
    let (mut all, mut from, mut count) = (Vec::new(), None, 0);
    loop {
        let part = part(damaged, dry_run, from.as_deref(), within).await;
        assert!(part.findings.len() <= limits::FINDINGS_MAX);
        all.extend(part.findings.into_iter().map(|(finding, outcome)| (finding.subject, outcome)));
        count += 1;
        assert!(count < 10_000, "it never ends");
        match part.next {
            Some(next) => from = Some(next),
            None => return (all, count),
        }
    }
}

#[tokio::test]
async fn parts_that_have_no_time_come_to_the_same_in_the_end() {
    let damaged = Damaged::new();
    for _ in 0..120 {
        let key = damaged.world.submit(false, 1).await;
        damaged.world.finish(key, 0, success()).await;
    }
    for _ in 0..120 {
        let key = damaged.world.submit(false, 1).await;
        damaged
            .backend()
            .store
            .apply(key.job, conveyor_domain::Command::Delete, damaged.world.now())
            .await
            .unwrap();
    }
    let before = damaged.dump();
    let (whole, _) = parts(&damaged, true, limits::RECONCILE_WITHIN).await;
    let (cut, count) = parts(&damaged, true, Duration::ZERO).await;
    assert_eq!(cut, whole);
    assert!(count > 12, "{count}: a page each");
    assert_eq!(damaged.dump(), before);
    // 120 to end, 120 queues of deleted runs, 120 jobs.
    assert_eq!(whole.len(), 360);

    let (mended, _) = parts(&damaged, false, Duration::ZERO).await;
    let failed = mended.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Failed(_)));
    assert!(failed.count() < mended.len());
    assert_eq!(damaged.findings().await, []);
    assert_eq!(
        damaged.backend().store.changed_runs(None, damaged.world.now()).await.unwrap().active.len(),
        0
    );
}

/// A store that does not answer about one run.
struct Silent {
    inner: Backend,
    run: RunKey,
}

impl Around for Silent {
    fn behind(&self) -> &Backend {
        &self.inner
    }
}

#[async_trait]
impl OverJobStore for Silent {
    async fn changed_runs(&self, since: Option<ChangeCursor>, now: Timestamp) -> Result<ChangedRuns> {
        let mut runs = self.inner.store.changed_runs(since, now).await?;
        runs.active.retain(|active| active.run.id != self.run.run);
        runs.unread.push(self.run);
        Ok(runs)
    }
}

impl OverTaskStore for Silent {}
impl OverIngestStore for Silent {}
impl OverEventStore for Silent {}
impl OverUploadStore for Silent {}
impl OverRecordStore for Silent {}
impl OverKeyStore for Silent {}
impl OverDeadLetterStore for Silent {}
impl OverProofStore for Silent {}
impl OverRetention for Silent {}

/// The last part may have no repair that looks at runs.
#[tokio::test]
async fn a_run_that_cannot_be_read_is_unsure_however_many_parts_there_are() {
    let mut damaged = Damaged::new();
    let run = damaged.world.submit(false, 1).await;
    let inner = damaged.backend().clone();
    damaged.world.backend.store = Arc::new(Over(Arc::new(Silent { inner, run })));
    for within in [limits::RECONCILE_WITHIN, Duration::ZERO] {
        let (mut unsure, mut from) = (Vec::new(), None);
        loop {
            let part = part(&damaged, true, from.as_deref(), within).await;
            unsure.extend(part.unsure.into_iter().map(|(subject, _)| subject));
            from = part.next;
            if from.is_none() {
                break;
            }
        }
        assert!(unsure.contains(&Subject::from(run)), "{within:?}");
    }
}

#[tokio::test]
async fn an_answer_is_bounded_however_much_is_found() {
    let damaged = Damaged::new();
    for _ in 0..limits::FINDINGS_MAX + 30 {
        let key = damaged.world.submit(false, 1).await;
        damaged.world.finish(key, 0, success()).await;
    }
    let (all, count) = parts(&damaged, true, Duration::from_secs(600)).await;
    assert_eq!((all.len(), count), (limits::FINDINGS_MAX + 30, 2));
}

#[tokio::test]
async fn a_part_says_what_it_found_and_what_it_did() {
    let damaged = Damaged::new();
    let key = damaged.world.submit(false, 3).await;
    damaged.lose_messages(QueueName::Run(key.run));
    let seen = part(&damaged, true, None, limits::RECONCILE_WITHIN).await;
    assert_eq!((seen.dry_run, seen.at), (true, damaged.world.now()));
    let done = part(&damaged, false, None, limits::RECONCILE_WITHIN).await;
    assert_eq!(done.findings.len(), 1);
    assert_eq!((&done.findings[0].0, &done.findings[0].1), (&seen.findings[0].0, &Outcome::Fixed(3)));
    assert_eq!(damaged.world.view(key).await.latest_run().run.status, RunStatus::Running);
    assert_eq!(part(&damaged, false, None, limits::RECONCILE_WITHIN).await.findings, []);
}

#[tokio::test]
async fn a_cursor_that_is_none_is_refused_or_reported() {
    let damaged = Damaged::new();
    let stop = CancellationToken::new();
    let sweep = Sweep::new(damaged.backend(), damaged.clock.as_ref(), &stop);
    let from =
        |cursor: &'static str| reconcile(&sweep, Scope::All, true, Some(cursor), limits::RECONCILE_WITHIN);
    assert_eq!(from("no cursor").await, Err(InvalidCursor));
    assert_eq!(from("missing_refs:x").await.unwrap().errors.len(), 1);
}

/// What has nothing to do with a job must not be looked through, over and over, for it.
#[tokio::test]
async fn a_look_at_one_job_ends_however_many_others_were_removed() {
    let damaged = Damaged::new();
    let key = damaged.world.submit(false, 1).await;
    for _ in 0..60 {
        let gone = damaged.world.submit(false, 1).await;
        damaged.backend().store.apply(gone.job, Command::Delete, damaged.world.now()).await.unwrap();
    }
    damaged.sweep().await;
    damaged.pass_for(limits::TOMBSTONE_LOOKS[0]);
    let looks = async {
        damaged.audit(key).await;
        damaged.reconcile(Scope::Job(key.job), false).await
    };
    let reconciled = tokio::time::timeout(conveyor_testkit::DEADLINE, looks).await.expect("it ends");
    assert_eq!(reconciled.findings, []);
    let due = damaged.backend().store.tombstones(damaged.world.now(), 100).await.unwrap();
    assert_eq!(due.len(), 60, "they were there to be looked through");
}
