//! Rules of queues (SPEC 7).

use super::world::must;
use super::{Harness, World};
use crate::port::{Delivery, Depth};
use conveyor_domain::RunId;
use conveyor_domain::limits::CONTROL_MAX_RECEIVES;
use conveyor_domain::message::{QueueName, TaskRef};
use std::collections::HashSet;
use std::time::Duration;

const VISIBILITY: Duration = Duration::from_secs(30);

fn run_queue(world: &World) -> QueueName {
    QueueName::Run(RunId::new(world.now(), &world.entropy))
}

async fn send(world: &World, queue: QueueName, count: usize) {
    let bodies = (0..count).map(|i| format!("m{i}")).collect();
    must(world.backend.queue.send(queue, bodies, world.now()).await);
}

async fn receive(world: &World, queue: QueueName, max: usize) -> Vec<Delivery> {
    must(world.backend.queue.receive(queue, max, VISIBILITY, world.now()).await)
}

pub async fn messages_come_in_order_and_once(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let queue = run_queue(&world);
    assert!(receive(&world, queue, 10).await.is_empty(), "a queue that never was is empty");
    send(&world, queue, 5).await;
    let first = receive(&world, queue, 3).await;
    let second = receive(&world, queue, 3).await;
    let bodies: Vec<_> = first.iter().chain(&second).map(|d| d.body.as_str()).collect();
    assert_eq!(bodies, ["m0", "m1", "m2", "m3", "m4"]);
    assert!(first.iter().all(|d| d.receives == 1));
    let receipts = first.into_iter().chain(second).map(|d| d.receipt).collect();
    must(world.backend.queue.ack(queue, receipts).await);
    assert_eq!(must(world.backend.queue.depth(queue, world.now()).await), Depth { visible: 0, hidden: 0 });
    world.pass(60_000);
    assert!(receive(&world, queue, 10).await.is_empty(), "acknowledged means gone");
}

pub async fn a_message_comes_back_after_the_visibility_timeout(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let queue = run_queue(&world);
    send(&world, queue, 1).await;
    let may_have = || world.backend.queue.may_have(vec![queue], world.now());
    assert_eq!(must(may_have().await), [true]);
    assert_eq!(receive(&world, queue, 1).await.len(), 1);
    world.pass(29_999);
    assert!(receive(&world, queue, 1).await.is_empty());
    world.pass(1);
    assert_eq!(must(may_have().await), [true], "there is something, and a false says surely not");
    let again = receive(&world, queue, 1).await;
    assert_eq!((again[0].body.as_str(), again[0].receives), ("m0", 2));
}

pub async fn a_stale_receipt_cannot_delete(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let queue = run_queue(&world);
    send(&world, queue, 1).await;
    let stale = receive(&world, queue, 1).await.remove(0).receipt;
    world.pass(30_000);
    let latest = receive(&world, queue, 1).await.remove(0).receipt;
    must(world.backend.queue.ack(queue, vec![stale]).await);
    assert_eq!(must(world.backend.queue.depth(queue, world.now()).await).hidden, 1);
    assert!(!must(world.backend.queue.is_empty(queue, world.now()).await));
    must(world.backend.queue.ack(queue, vec![latest]).await);
    assert!(must(world.backend.queue.is_empty(queue, world.now()).await));
    assert_eq!(must(world.backend.queue.depth(queue, world.now()).await), Depth::default());
}

pub async fn a_stale_receipt_cannot_extend_or_release(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let queue = run_queue(&world);
    send(&world, queue, 1).await;
    let stale = receive(&world, queue, 1).await.remove(0).receipt;
    world.pass(30_000);
    receive(&world, queue, 1).await;
    must(world.backend.queue.release(queue, vec![(stale.clone(), Duration::ZERO)], world.now()).await);
    assert!(receive(&world, queue, 1).await.is_empty(), "released by a stale receipt");
    let extended = must(world.backend.queue.extend(queue, vec![stale], VISIBILITY * 9, world.now()).await);
    assert_eq!(extended, [None]);
    world.pass(30_000);
    assert_eq!(receive(&world, queue, 1).await.len(), 1, "extended by a stale receipt");
}

pub async fn a_receipt_stays_stale_when_the_message_is_back_in_its_old_place(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let queue = run_queue(&world);
    send(&world, queue, 1).await;
    let stale = receive(&world, queue, 1).await.remove(0).receipt;
    // Received by another, and given back, in the very millisecond in which the first receive lapsed.
    world.pass(30_000);
    let latest = receive(&world, queue, 1).await.remove(0).receipt;
    must(world.backend.queue.release(queue, vec![(latest, Duration::ZERO)], world.now()).await);
    must(world.backend.queue.ack(queue, vec![stale]).await);
    assert_eq!(receive(&world, queue, 1).await.len(), 1, "deleted by a stale receipt");
}

pub async fn an_extended_message_stays_hidden(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let queue = run_queue(&world);
    send(&world, queue, 1).await;
    let mut receipt = receive(&world, queue, 1).await.remove(0).receipt;
    for _ in 0..3 {
        world.pass(20_000);
        let renewed =
            must(world.backend.queue.extend(queue, vec![receipt.clone()], VISIBILITY, world.now()).await);
        receipt = renewed.into_iter().next().flatten().expect("the receipt is the latest");
        assert!(receive(&world, queue, 1).await.is_empty());
    }
    must(world.backend.queue.ack(queue, vec![receipt]).await);
    world.pass(60_000);
    assert!(receive(&world, queue, 1).await.is_empty());
}

pub async fn a_released_message_comes_back_after_its_delay(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let queue = run_queue(&world);
    send(&world, queue, 2).await;
    let held = receive(&world, queue, 2).await;
    let give_back =
        vec![(held[0].receipt.clone(), Duration::ZERO), (held[1].receipt.clone(), Duration::from_secs(5))];
    must(world.backend.queue.release(queue, give_back, world.now()).await);
    let now = receive(&world, queue, 2).await;
    assert_eq!((now.len(), now[0].body.as_str()), (1, "m0"));
    world.pass(5_000);
    assert_eq!(receive(&world, queue, 2).await[0].body, "m1");
}

pub async fn concurrent_receivers_share_no_message(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let queue = run_queue(&world);
    send(&world, queue, 200).await;
    let receiver = |_| {
        let (port, now) = (world.backend.queue.clone(), world.now());
        tokio::spawn(async move {
            let mut mine = Vec::new();
            loop {
                let batch = must(port.receive(queue, 7, VISIBILITY, now).await);
                if batch.is_empty() {
                    return mine;
                }
                mine.extend(batch.into_iter().map(|d| d.body));
                assert!(mine.len() <= 200, "messages are handed out again and again");
            }
        })
    };
    let receivers: Vec<_> = (0..8).map(receiver).collect();
    let mut all = Vec::new();
    for receiver in receivers {
        all.extend(must(receiver.await));
    }
    assert_eq!(all.len(), 200);
    assert_eq!(all.into_iter().collect::<HashSet<_>>().len(), 200);
}

pub async fn a_message_received_too_often_is_dead_lettered(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    send(&world, QueueName::Control, 1).await;
    for n in 1..=CONTROL_MAX_RECEIVES {
        let delivery = receive(&world, QueueName::Control, 1).await;
        assert_eq!(delivery[0].receives, n);
        world.pass(30_000);
    }
    assert!(receive(&world, QueueName::Control, 1).await.is_empty());
    assert_eq!(must(world.backend.queue.depth(QueueName::Control, world.now()).await), Depth::default());
    assert_eq!(receive(&world, QueueName::ControlDead, 1).await[0].body, "m0");
}

pub async fn messages_survive_a_crash(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let queue = run_queue(&world);
    send(&world, queue, 3).await;
    let held = receive(&world, queue, 2).await;
    must(world.backend.queue.ack(queue, vec![held[0].receipt.clone()]).await);
    let crashed = harness.crash().await;
    let after = World::new(crashed.backend());
    after.pass(60_000);
    let mut left: Vec<_> =
        receive(&after, queue, 9).await.into_iter().map(|d| (d.body, d.receives)).collect();
    left.sort();
    assert_eq!(left, [("m1".to_owned(), 2), ("m2".to_owned(), 1)]);
}

pub async fn a_removed_queue_is_empty_and_usable_again(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let queue = run_queue(&world);
    send(&world, queue, 25).await;
    receive(&world, queue, 5).await;
    let mut steps = 0;
    while !must(world.backend.queue.remove(queue, 10).await) {
        steps += 1;
        assert!(steps < 10, "removal does not end");
    }
    assert!(must(world.backend.queue.remove(queue, 10).await), "removing again is fine");
    world.pass(60_000);
    assert!(receive(&world, queue, 9).await.is_empty());
    send(&world, queue, 1).await;
    assert_eq!(receive(&world, queue, 9).await.len(), 1);
}

/// However a backend keeps them: the refs of a run's tasks are messages like any others.
pub async fn the_refs_of_tasks_are_messages_like_any_others(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(true, 7).await;
    // With a gap, as a rejected row leaves it.
    let rows = [(8, 8), (9, 9), (11, 11)].map(|(index, n)| (index, World::inputs(n + 1).remove(n as usize)));
    let unsent = must(world.backend.store.put_tasks(key, rows.to_vec(), world.now()).await);
    world.send(key, unsent).await;
    let queue = QueueName::Run(key.run);
    let depth = |world: &World| {
        let (queues, now) = (world.backend.queue.clone(), world.now());
        async move { must(queues.depth(queue, now).await) }
    };
    assert_eq!(depth(&world).await, Depth { visible: 10, hidden: 0 });
    let index = |d: &Delivery| must(d.body.parse::<TaskRef>()).task.index();
    let indexes = |received: &[Delivery]| received.iter().map(index).collect::<Vec<_>>();
    let first = receive(&world, queue, 3).await;
    assert_eq!(indexes(&first), [0, 1, 2]);
    assert!(first.iter().all(|d| d.receives == 1));
    assert!(first.iter().all(|d| must(d.body.parse::<TaskRef>()).task.belongs_to(key.run)));
    assert_eq!(depth(&world).await, Depth { visible: 7, hidden: 3 });
    let second = receive(&world, queue, 6).await;
    assert_eq!(indexes(&second), [3, 4, 5, 6, 8, 9]);
    // One is done, one is given back, the others come back by themselves, also to another process.
    must(world.backend.queue.ack(queue, vec![first[0].receipt.clone()]).await);
    let back = vec![(second[4].receipt.clone(), Duration::ZERO)];
    must(world.backend.queue.release(queue, back, world.now()).await);
    let crashed = harness.crash().await;
    let world = world.on(crashed.backend());
    world.pass(30_000);
    let mut again = receive(&world, queue, 100).await;
    again.sort_by_key(index);
    assert_eq!(indexes(&again), [1, 2, 3, 4, 5, 6, 8, 9, 11]);
    assert!(again.iter().all(|d| d.receives == if index(d) == 11 { 1 } else { 2 }));
    must(world.backend.queue.ack(queue, again.into_iter().map(|d| d.receipt).collect()).await);
    assert!(must(world.backend.queue.is_empty(queue, world.now()).await));
}
