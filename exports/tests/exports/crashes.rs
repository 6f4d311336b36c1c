//! Builders that die, stall, lose and are told to end.

use crate::blobs::Watched;
use crate::world::{World, attend, bodies, expected, unzip};
use conveyor_domain::export::State;
use conveyor_domain::job::record::Expected;
use conveyor_domain::{ExportFormat, RecordWrite, limits};
use conveyor_exports::{End, ExportConfig};
use conveyor_testkit::{cancel_at, until};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn whenever_a_builder_dies_the_next_one_finishes() {
    let world = World::new();
    let bodies = bodies(60);
    let key = world.finished(&bodies, false).await;
    let config = ExportConfig { directory_bytes: 2_000, ..ExportConfig::default() };
    let mut deaths = 0;
    for n in 0.. {
        let export = world.ask(key, ExportFormat::Zip).await;
        let builder = world.builder_with(&world.backend, config);
        if cancel_at(n, attend(&builder)).await.is_some() {
            break;
        }
        deaths += 1;
        drop(builder);
        world.clock.advance(limits::EXPORT_LEASE);
        // A write of the dropped builder may still be queued. If it commits late, the next builder loses once and retries.
        until("the next one finishes", async || {
            world.build().await;
            matches!(world.find(&export).await.unwrap().state, State::Completed { .. })
        })
        .await;
        assert_eq!(unzip(&world.file(&export).await), expected(key, &bodies), "after {n} waits");
        // Nothing outlives it, whoever left it.
        world.clock.advance(limits::EXPORT_TTL);
        world.build().await;
        assert_eq!(world.find(&export).await, None);
        assert_eq!(world.objects(&export).len(), 0, "after {n} waits");
    }
    assert!(deaths > 10, "it waits more often than that");
}

#[tokio::test]
async fn who_always_dies_has_it_fail() {
    let world = World::new();
    let key = world.finished(&bodies(5), false).await;
    let export = world.ask(key, ExportFormat::Zip).await;
    for _ in 0..limits::EXPORT_TRIES_MAX {
        let (watched, backend) = Watched::over(&world.backend);
        let builder = world.builder_with(&backend, ExportConfig::default());
        // It dies in the middle: it reads, and nothing passes the gate.
        tokio::select! {
            ended = attend(&builder) => panic!("{ended:?}"),
            () = until("it reads", async || watched.reads.most() > 0) => {}
        }
        world.clock.advance(limits::EXPORT_LEASE);
    }
    assert_eq!(world.build().await, []);
    assert!(world.error(&export).await.starts_with("given up after 3 tries"));
}

#[tokio::test]
async fn who_stalled_and_lost_deletes_its_own_object() {
    let world = World::new();
    let bodies = bodies(40);
    let key = world.finished(&bodies, false).await;
    let export = world.ask(key, ExportFormat::Zip).await;
    let (watched, backend) = Watched::over(&world.backend);
    let slow = world.builder_with(&backend, ExportConfig::default());
    let (ended, ()) = tokio::join!(attend(&slow), async {
        until("it reads", async || watched.reads.most() > 0).await;
        world.clock.advance(limits::EXPORT_LEASE);
        assert_eq!(world.build().await, [End::Completed]);
        watched.gate.close();
    });
    assert_eq!(ended, [End::Lost]);
    assert_eq!(unzip(&world.file(&export).await), expected(key, &bodies));
    assert_eq!(world.objects(&export).len(), 1);
}

#[tokio::test]
async fn storage_that_does_not_answer_is_tried_again_and_then_told() {
    let world = World::new();
    let bodies = bodies(5);
    let key = world.finished(&bodies, false).await;
    let (watched, backend) = Watched::over(&world.backend);
    watched.gate.close();
    watched.fails.store(true, Ordering::SeqCst);
    let builder = world.builder_with(&backend, ExportConfig::default());
    let export = world.ask(key, ExportFormat::Zip).await;
    for end in [End::PutOff, End::PutOff, End::Failed] {
        assert_eq!(attend(&builder).await, [end]);
        assert_eq!(attend(&builder).await, [], "not at once");
        world.clock.advance(Duration::from_secs(60));
    }
    assert_eq!(world.error(&export).await, "given up after 3 tries: the storage does not answer");
    // One that passes costs nothing but time.
    let export = world.ask(key, ExportFormat::Zip).await;
    assert_eq!(attend(&builder).await, [End::PutOff]);
    watched.fails.store(false, Ordering::SeqCst);
    world.clock.advance(Duration::from_secs(60));
    assert_eq!(attend(&builder).await, [End::Completed]);
    assert_eq!(unzip(&world.file(&export).await), expected(key, &bodies));
}

#[tokio::test]
async fn who_is_asked_to_end_gives_it_back_at_no_cost() {
    let world = World::new();
    let key = world.finished(&bodies(40), false).await;
    let export = world.ask(key, ExportFormat::Zip).await;
    let (watched, backend) = Watched::over(&world.backend);
    let builder = world.builder_with(&backend, ExportConfig::default());
    let stop = CancellationToken::new();
    let record = builder.due(1).await.unwrap().remove(0);
    let taken = builder.take(record).await.unwrap().unwrap();
    let (ended, ()) = tokio::join!(builder.attempt(taken, &stop), async {
        until("it reads", async || watched.reads.most() > 0).await;
        stop.cancel();
        tokio::task::yield_now().await;
        watched.gate.close();
    });
    assert_eq!(ended, End::GivenBack);
    assert_eq!(world.find(&export).await.unwrap(), export, "as if nobody had begun");
    assert!(world.objects(&export).is_empty());
    assert_eq!(world.build().await, [End::Completed]);
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_with_its_progress_until_its_caller_does_not_want_it() {
    let world = World::new();
    let key = world.finished(&bodies(40), false).await;
    let export = world.ask(key, ExportFormat::Zip).await;
    let (watched, backend) = Watched::over(&world.backend);
    watched.gate.add_permits(9);
    let builder = world.builder_with(&backend, ExportConfig::default());
    let (ended, ()) = tokio::join!(attend(&builder), async {
        until("progress", async || world.find(&export).await.unwrap().progress.tasks_done > 2).await;
        world.clock.advance(limits::EXPORT_LEASE - Duration::from_secs(1));
        let lease = |state| if let State::Running { until } = state { until } else { panic!("{state:?}") };
        let first = lease(world.find(&export).await.unwrap().state);
        until("a renewal", async || lease(world.find(&export).await.unwrap().state) > first).await;
        let now = world.find(&export).await.unwrap();
        assert_eq!(now.progress.tasks_total, 40);
        let removed = now.removed(world.now()).record(&world.entropy);
        world.backend.store.write_record(RecordWrite::put(removed, Expected::Anything)).await.unwrap();
        tokio::time::sleep(2 * limits::EXPORT_RENEW_EVERY).await;
        watched.gate.close();
    });
    assert_eq!(ended, [End::Lost]);
    assert!(world.objects(&export).is_empty());
    world.build().await;
    assert_eq!(world.find(&export).await, None);
}
