//! Rules of permits (SPEC 3.7, 6.7).

use super::world::must;
use super::{Harness, World};
use conveyor_domain::{JobId, WorkerId};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(30);

pub async fn permits_never_pass_the_cap(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let job = JobId::new(world.now(), &world.entropy);
    let ask = |_| {
        let (coordinator, worker, now) =
            (world.backend.coordinator.clone(), WorkerId::new(world.now(), &world.entropy), world.now());
        tokio::spawn(async move { must(coordinator.grant(job, worker, 7, 20, TTL, now).await).permits })
    };
    let asks: Vec<_> = (0..10).map(ask).collect();
    let mut granted = 0;
    for ask in asks {
        granted += must(ask.await);
    }
    assert_eq!(granted, 20, "all of the cap is given out, and no more");
    let held: u32 =
        must(world.backend.coordinator.holders(job, world.now()).await).iter().map(|(_, h)| h.permits).sum();
    assert_eq!(held, 20);
}

pub async fn a_repeated_request_changes_nothing(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let (job, coordinator) = (JobId::new(world.now(), &world.entropy), &world.backend.coordinator);
    let grant = || coordinator.grant(job, world.worker, 5, 8, TTL, world.now());
    assert_eq!(must(grant().await), must(grant().await));
    must(coordinator.release(job, world.worker).await);
    must(coordinator.release(job, world.worker).await);
    assert!(must(coordinator.holders(job, world.now()).await).is_empty());
}

pub async fn a_lapsed_share_is_given_to_others(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let (job, coordinator) = (JobId::new(world.now(), &world.entropy), &world.backend.coordinator);
    let (dead, alive) =
        (WorkerId::new(world.now(), &world.entropy), WorkerId::new(world.now(), &world.entropy));
    assert_eq!(must(coordinator.grant(job, dead, 8, 10, TTL, world.now()).await).permits, 8);
    assert_eq!(must(coordinator.grant(job, alive, 10, 10, TTL, world.now()).await).permits, 2);
    world.pass(30_001);
    assert_eq!(must(coordinator.grant(job, alive, 10, 10, TTL, world.now()).await).permits, 10);
}
