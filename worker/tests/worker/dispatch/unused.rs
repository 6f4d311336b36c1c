//! What becomes of a result object when its settle is lost (SPEC 6.6): deleted if it is surely nobody's, otherwise kept.

use crate::dispatch::world::{Witness, World, config, urls};
use async_trait::async_trait;
use bytes::Bytes;
use conveyor_domain::{
    ClaimToken, Clock, Command, Entropy, Format, JobSpec, Outcome, QueueName, ResultRef, Spend, Storage,
    TaskId, TaskRef, WorkerId,
};
use conveyor_store::port::{
    Around, BlobKey, Claim, Mark, Over, OverBlobs, Removal, RunKey, Settle, SettleGroup, Settled,
};
use conveyor_store::{Backend, Result};
use conveyor_testkit::{RunningClock, until};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What others do to a task between its worker's write of the body and its settle.
#[derive(Clone, Copy, Debug)]
enum Meanwhile {
    /// Somebody else claimed it, and ended it with another object.
    EndsElsewhere,
    Fails,
    /// A rebuild found the object and gave it to the row.
    RestoredWithIt,
    /// It is to be done again, and a rebuild may just have listed the object.
    PendingAnew,
    JobDeleted,
    RunDeleted,
    RunRemoved,
    /// All rows are gone, as they are when the table was lost.
    JobGone,
}

/// The objects of a backend; once a body is written, others have their turn before its worker goes on.
struct Interrupted {
    inner: Backend,
    meanwhile: Meanwhile,
    clock: RunningClock,
    entropy: Entropy,
    written: Mutex<Option<BlobKey>>,
    /// Claims of what comes back are left as they are.
    done: AtomicBool,
}

fn reference(object: &BlobKey) -> ResultRef {
    let object = Some(object.to_string());
    ResultRef {
        object,
        whole: true,
        offset: 0,
        length: 4,
        format: Format::Html,
        http_status: 200,
        crc32: None,
    }
}

impl Interrupted {
    fn new(inner: Backend, meanwhile: Meanwhile) -> Interrupted {
        Interrupted {
            inner,
            meanwhile,
            clock: RunningClock::new(),
            entropy: Entropy::from_number(8),
            written: Mutex::default(),
            done: AtomicBool::new(false),
        }
    }

    async fn claim_and_settle(&self, key: RunKey, outcome: Outcome) {
        let (now, token) = (self.clock.now(), ClaimToken::new(&self.entropy));
        let (task, store) = (TaskId::of(key.run, 0), &self.inner.store);
        let claims = vec![(TaskRef { task, task_shard_count: 1 }, token)];
        let claimed = store.claim(key, claims, 10, now).await.unwrap();
        assert!(matches!(claimed[..], [Claim::Claimed(_)]), "{claimed:?}");
        let worker = WorkerId::new(now, &self.entropy);
        let settles = vec![Settle { task, token, outcome, spend: Spend::default() }];
        let settled = store.settle(SettleGroup { key, worker, settles }, now).await.unwrap();
        assert_eq!(settled, [Settled::Applied]);
    }

    async fn delete_job(&self, key: RunKey) {
        let store = &self.inner.store;
        store.apply(key.job, Command::Delete, self.clock.now()).await.unwrap();
        while store.remove_rows(Removal::Job(key.job), 100).await.unwrap() > 0 {}
    }

    async fn delete_run(&self, key: RunKey) {
        let store = &self.inner.store;
        store.delete_run(key, self.clock.now()).await.unwrap();
        while store.remove_rows(Removal::Run(key), 100).await.unwrap() > 0 {}
    }

    async fn interrupt(&self, key: RunKey, object: &BlobKey) {
        let (store, now) = (&self.inner.store, self.clock.now());
        let other = BlobKey::results(key.job, key.run, WorkerId::new(now, &self.entropy), 0);
        match self.meanwhile {
            Meanwhile::EndsElsewhere => {
                self.claim_and_settle(key, Outcome::Successful(reference(&other))).await;
            }
            Meanwhile::Fails => {
                let problem = conveyor_domain::Problem::new(500, "test", "Failed elsewhere");
                let class = conveyor_domain::FailureClass::Other;
                self.claim_and_settle(key, Outcome::Failed { class, problem }).await;
            }
            Meanwhile::RestoredWithIt => {
                let end = (TaskId::of(key.run, 0), Outcome::Successful(reference(object)));
                let worker = WorkerId::new(now, &self.entropy);
                assert_eq!(store.restore(key, worker, vec![end], now).await.unwrap(), [true]);
            }
            Meanwhile::PendingAnew => self.claim_and_settle(key, Outcome::Release).await,
            Meanwhile::JobDeleted => self.delete_job(key).await,
            Meanwhile::RunDeleted => self.delete_run(key).await,
            Meanwhile::RunRemoved => {
                self.delete_run(key).await;
                store.mark(key, Mark::RowsGone(Storage::Removed)).await.unwrap();
                assert_eq!(store.run(key.job, key.run).await.unwrap(), None);
            }
            Meanwhile::JobGone => {
                self.delete_job(key).await;
                while !self.inner.queue.remove(QueueName::Run(key.run), 100).await.unwrap() {}
                store.mark(key, Mark::QueueGone).await.unwrap();
                assert!(store.forget_job(key.job, now).await.unwrap());
            }
        }
    }
}

/// `jobs/<job>/runs/<run>/results/...`
fn run_of(object: &BlobKey) -> RunKey {
    let segments: Vec<&str> = object.as_str().split('/').collect();
    RunKey { job: segments[1].parse().unwrap(), run: segments[3].parse().unwrap() }
}

impl Around for Interrupted {
    fn behind(&self) -> &Backend {
        &self.inner
    }
}

#[async_trait]
impl OverBlobs for Interrupted {
    async fn put(&self, key: &BlobKey, body: Bytes) -> Result<()> {
        self.inner.blobs.put(key, body).await?;
        if !self.done.swap(true, Ordering::SeqCst) {
            self.interrupt(run_of(key), key).await;
            *self.written.lock().unwrap() = Some(key.clone());
        }
        Ok(())
    }
}

/// Whether the object of the one task is there once its worker is done with it.
async fn is_kept(meanwhile: Meanwhile) -> bool {
    let mut world = World::new(Witness::taking(Duration::ZERO));
    let interrupted = Arc::new(Interrupted::new(world.backend.clone(), meanwhile));
    world.backend.blobs = Arc::new(Over(interrupted.clone()));
    world.submit(JobSpec::default(), &urls("a.test", 1)).await;
    world.work(config(1));
    let written = || interrupted.written.lock().unwrap().clone();
    until("the body is written, and the others had their turn", async || written().is_some()).await;
    // It ends what it has begun.
    world.stop().await;
    world.backend.blobs.get(&written().unwrap(), 0, 4).await.is_ok()
}

#[tokio::test]
async fn an_object_is_deleted_only_if_it_is_surely_nobodys() {
    let cases = [
        (Meanwhile::EndsElsewhere, false),
        (Meanwhile::Fails, false),
        (Meanwhile::JobDeleted, false),
        (Meanwhile::RunDeleted, false),
        (Meanwhile::RunRemoved, false),
        (Meanwhile::RestoredWithIt, true),
        (Meanwhile::PendingAnew, true),
        (Meanwhile::JobGone, true),
    ];
    let mut wrong = Vec::new();
    for (meanwhile, kept) in cases {
        if is_kept(meanwhile).await != kept {
            wrong.push(meanwhile);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
