//! Callers take turns, and short exports do not wait for long ones.

use crate::blobs::Watched;
use crate::world::World;
use conveyor_domain::export::State;
use conveyor_domain::{CallerId, Export, ExportFormat, limits};
use conveyor_exports::ExportConfig;
use conveyor_testkit::until;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio_util::sync::CancellationToken;

const LONG: u32 = 20;
const SHORT: u32 = 3;

async fn is_completed(world: &World, export: &Export) -> bool {
    matches!(world.find(export).await.unwrap().state, State::Completed { .. })
}

#[tokio::test]
async fn neither_others_nor_short_exports_wait_for_the_long_exports_of_one_caller() {
    let world = World::new();
    let [one, other] = [1, 2].map(|n| CallerId::from_bytes([n; 16]));
    let mut long = Vec::new();
    for _ in 0..6 {
        let run = world.run_of(one, LONG).await;
        for _ in 0..10 {
            long.push(world.ask(run, ExportFormat::Jsonl).await);
        }
    }
    // Whatever is begun of the long ones stays under way until the gate is closed.
    let (watched, backend) = Watched::over(&world.backend);
    let config = ExportConfig { small_max_tasks: LONG - 1, ..ExportConfig::default() };
    let builder = Arc::new(world.builder_with(&backend, config));
    let stop = CancellationToken::new();
    let running = tokio::spawn(conveyor_exports::run(builder, stop.clone()));
    let of_caller = limits::EXPORTS_MAX as usize;
    until("the caller has its places", async || watched.came.load(Ordering::SeqCst) >= of_caller).await;
    let mut free = Vec::new();
    for (caller, count) in [(one, SHORT), (other, SHORT), (other, LONG)] {
        let run = world.run_of(caller, count).await;
        let export = world.prepare(run, ExportFormat::Jsonl).await;
        watched.free.lock().unwrap().push(export.id.to_string());
        world.put(&export).await;
        free.push(export);
    }
    for export in &free {
        until("an export is built beside those that are under way", async || {
            is_completed(&world, export).await
        })
        .await;
    }
    assert_eq!(watched.came.load(Ordering::SeqCst), of_caller, "half of the places");
    for export in &long {
        assert!(!is_completed(&world, export).await);
    }
    watched.gate.close();
    for export in &long {
        until("the others are built in their turns", async || is_completed(&world, export).await).await;
    }
    stop.cancel();
    running.await.unwrap();
}
