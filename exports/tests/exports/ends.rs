use crate::world::{World, attend, bodies, expected, unzip};
use conveyor_domain::export::State;
use conveyor_domain::job::record::Expected;
use conveyor_domain::{Command, ExportFormat, Outcome, Problem, RecordWrite, TaskId, limits};
use conveyor_exports::{End, ExportConfig};
use conveyor_store::clock_watch;
use conveyor_store::port::BlobKey;
use std::time::Duration;

#[tokio::test]
async fn a_body_that_is_gone_fails_it_and_is_named() {
    let world = World::new();
    let key = world.run(2).await;
    let mut results = world.store_bodies(key, &[b"one".to_vec(), b"two".to_vec()], true).await;
    let gone: BlobKey = results[1].object.as_ref().unwrap().parse().unwrap();
    world.backend.blobs.delete(&gone).await.unwrap();
    let ends = (0..).zip(results.drain(..)).map(|(i, result)| (i, Outcome::Successful(result)));
    world.end(key, ends.collect()).await;
    let export = world.ask(key, ExportFormat::Zip).await;
    assert_eq!(world.build().await, [End::Failed]);
    let task = TaskId::of(key.run, 1);
    assert_eq!(world.error(&export).await, format!("the result of task {task} is no longer kept"));
    assert!(world.objects(&export).is_empty(), "half a file is none");
}

#[tokio::test]
async fn a_damaged_body_is_named_in_its_place_and_the_others_are_there() {
    let world = World::new();
    let key = world.run(3).await;
    let bodies = [b"one".to_vec(), b"two".to_vec(), b"three".to_vec()];
    let results = world.store_bodies(key, &bodies, true).await;
    for (index, stored) in [(0, &b"0ne"[..]), (2, b"thr")] {
        let object: BlobKey = results[index].object.as_ref().unwrap().parse().unwrap();
        world.backend.blobs.put(&object, stored.into()).await.unwrap();
    }
    let ends = (0..).zip(results).map(|(i, result)| (i, Outcome::Successful(result)));
    world.end(key, ends.collect()).await;
    let export = world.ask(key, ExportFormat::Zip).await;
    assert_eq!(world.build().await, [End::Completed]);
    let entries = unzip(&world.file(&export).await);
    assert_eq!(entries.len(), 3);
    for index in [0, 2] {
        let task = TaskId::of(key.run, index);
        let problem: Problem = serde_json::from_slice(&entries[&format!("{task}.damaged.json")]).unwrap();
        assert_eq!(problem.code, "result_damaged");
        assert!(problem.detail.unwrap().contains(&task.to_string()));
    }
    assert_eq!(entries[&format!("{}.html", TaskId::of(key.run, 1))], b"two");
}

#[tokio::test]
async fn one_that_is_too_large_says_how_large_it_may_be() {
    let world = World::new();
    let key = world.finished(&vec![vec![b'x'; 1_000]; 11], false).await;
    for (max_bytes, format, end) in [
        (10_999, ExportFormat::Zip, End::Failed),
        (11_000, ExportFormat::Zip, End::Completed),
        (1_000, ExportFormat::Jsonl, End::Completed),
    ] {
        let export = world.ask(key, format).await;
        let config = ExportConfig { max_bytes, ..ExportConfig::default() };
        assert_eq!(attend(&world.builder_with(&world.backend, config)).await, [end], "{max_bytes}");
        if end == End::Failed {
            assert_eq!(world.error(&export).await, "results are larger than 0.000 gb");
            assert!(world.objects(&export).is_empty());
        }
    }
}

#[tokio::test]
async fn it_goes_after_twelve_hours_object_first() {
    let world = World::new();
    let bodies = bodies(3);
    let key = world.finished(&bodies, false).await;
    let export = world.ask(key, ExportFormat::Zip).await;
    world.build().await;
    world.clock.advance(limits::EXPORT_TTL - Duration::from_millis(1));
    assert_eq!(world.build().await, []);
    assert_eq!(unzip(&world.file(&export).await), expected(key, &bodies));
    world.clock.advance(Duration::from_millis(1));
    assert_eq!(world.build().await, []);
    assert_eq!(world.find(&export).await, None);
    assert!(world.objects(&export).is_empty());
}

#[tokio::test]
async fn it_stays_while_the_time_is_in_doubt_and_others_are_built() {
    let world = World::new();
    let bodies = bodies(3);
    let key = world.finished(&bodies, false).await;
    let export = world.ask(key, ExportFormat::Zip).await;
    world.build().await;
    let store = world.backend.store.as_ref();
    clock_watch::observe(store, world.now()).await.unwrap();
    world.clock.advance(Duration::from_secs(2 * 24 * 3600));
    let other = world.ask(key, ExportFormat::Zip).await;
    assert_eq!(world.build().await, [End::Completed]);
    assert_eq!(unzip(&world.file(&export).await), expected(key, &bodies));
    clock_watch::confirm(store, world.now()).await.unwrap();
    assert_eq!(world.build().await, []);
    assert_eq!((world.find(&export).await, world.objects(&export).len()), (None, 0));
    assert!(world.find(&other).await.is_some());
}

#[tokio::test]
async fn one_that_its_caller_removed_goes_with_whatever_there_is_of_it() {
    let world = World::new();
    let key = world.finished(&bodies(3), false).await;
    let export = world.ask(key, ExportFormat::Zip).await;
    world.build().await;
    let built = world.find(&export).await.unwrap();
    let removed = built.removed(world.now()).record(&world.entropy);
    world.backend.store.write_record(RecordWrite::put(removed, Expected::Anything)).await.unwrap();
    world.build().await;
    assert_eq!((world.find(&export).await, world.objects(&export).len()), (None, 0));
}

#[tokio::test]
async fn an_export_of_a_run_that_is_deleted_goes() {
    let world = World::new();
    let (one, two) = (world.finished(&bodies(3), false).await, world.finished(&bodies(3), false).await);
    let of_job = world.ask(one, ExportFormat::Zip).await;
    let of_run = world.ask(two, ExportFormat::Zip).await;
    world.backend.store.apply(one.job, Command::Delete, world.now()).await.unwrap();
    world.backend.store.delete_run(two, world.now()).await.unwrap();
    assert_eq!(world.build().await, []);
    assert_eq!((world.find(&of_job).await, world.find(&of_run).await), (None, None));
}

#[tokio::test]
async fn an_export_of_a_run_whose_tasks_are_gone_says_so() {
    let world = World::new();
    let key = world.finished(&bodies(3), false).await;
    world.backend.store.apply(key.job, Command::Drained, world.now()).await.unwrap();
    world.clock.advance(limits::ROWS_KEPT);
    let export = world.ask(key, ExportFormat::Zip).await;
    assert_eq!(world.build().await, []);
    assert!(world.error(&export).await.contains("no longer kept"));
    assert!(matches!(world.find(&export).await.unwrap().state, State::Failed { .. }));
}
