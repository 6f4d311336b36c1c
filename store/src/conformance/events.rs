//! Rules of the timeline of a job (SPEC 6.12).

use super::world::{must, success};
use super::{Harness, World};
use conveyor_domain::{Command, JobEvent, LifecycleEvent, TimelineEntry};

async fn timeline(world: &World, job: conveyor_domain::JobId) -> Vec<TimelineEntry> {
    let (mut entries, mut after) = (Vec::new(), 0);
    loop {
        let page = must(world.backend.store.events(job, after, 2).await);
        let Some(last) = page.last() else { return entries };
        after = last.number;
        entries.extend(page);
    }
}

pub async fn a_timeline_says_what_happened_in_order(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(true, 1).await;
    let store = &world.backend.store;
    must(store.add_tasks(key.job, World::inputs(2), false, 100, None, world.now()).await);
    must(store.apply(key.job, Command::Close, world.now()).await);
    must(store.apply(key.job, Command::Close, world.now()).await);
    for index in 0..3 {
        world.finish(key, index, success()).await;
    }
    must(store.apply(key.job, Command::Drained, world.now()).await);
    must(store.apply(key.job, Command::Delete, world.now()).await);
    let crashed = harness.crash().await;
    let after = world.on(crashed.backend());
    let entries = timeline(&after, key.job).await;
    let numbers: Vec<_> = entries.iter().map(|entry| entry.number).collect();
    assert_eq!(numbers, (1..=entries.len() as u64).collect::<Vec<_>>(), "from 1, without gaps");
    assert!(entries.iter().all(|entry| entry.run == key.run));
    let events: Vec<_> = entries.into_iter().map(|entry| entry.event).collect();
    let expected = [
        LifecycleEvent::Submitted { tasks: 1, open: true },
        LifecycleEvent::TasksAdded { tasks: 2 },
        LifecycleEvent::Closed,
        LifecycleEvent::RunCompleted { total: 3 },
        LifecycleEvent::Deleted,
    ];
    assert_eq!(events, expected.map(JobEvent::Lifecycle));
}

pub async fn a_refused_change_did_not_happen(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(false, 1).await;
    assert!(world.backend.store.apply(key.job, Command::Drained, world.now()).await.is_err());
    assert_eq!(timeline(&world, key.job).await.len(), 1);
}
