//! Rules of rows and queues together: what a store says of its tasks is in the queue of their run (SPEC 7).

use super::queue::{LONG, gather, is_empty_in_the_end, shorten};
use super::world::must;
use super::{Harness, World};
use crate::port::{Delivery, Depth, Reader};
use conveyor_domain::{QueueName, TaskRef};
use std::collections::BTreeSet;
use std::time::Duration;

fn indexes<'a>(received: impl IntoIterator<Item = &'a Delivery>) -> BTreeSet<u32> {
    received.into_iter().map(|d| must(d.body.parse::<TaskRef>()).task.index()).collect()
}

/// However a backend keeps them.
pub async fn the_refs_of_tasks_are_messages_like_any_others(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = world.submit(true, 7).await;
    // With a gap, as a rejected row leaves it.
    let rows = [8, 9, 11].map(|index| (index, World::inputs(index + 1).remove(index as usize)));
    must(world.backend.store.put_tasks(key, rows.to_vec(), world.now()).await);
    let queue = QueueName::Run(key.run);
    let depth = must(world.backend.queue.depth(queue, Reader::Role, world.now()).await);
    assert_eq!(depth, Depth { visible: 10, hidden: 0, at_least: false });
    let mut held = gather((harness, &world), queue, 9, LONG).await;
    assert!(held.iter().all(|d| d.receives == 1));
    assert!(held.iter().all(|d| must(d.body.parse::<TaskRef>()).task.belongs_to(key.run)));
    let depth = must(world.backend.queue.depth(queue, Reader::Role, world.now()).await);
    assert_eq!(depth, Depth { visible: 1, hidden: 9, at_least: false });
    shorten(&world, queue, &mut held).await;
    // One is done, one is given back, the others come back by themselves, also to another process.
    must(world.backend.queue.ack(queue, vec![held[0].receipt.clone()]).await);
    let back = vec![(held[7].receipt.clone(), Duration::ZERO)];
    must(world.backend.queue.release(queue, back, world.now()).await);
    let crashed = harness.crash().await;
    let world = world.on(crashed.backend());
    let again = gather((&*crashed, &world), queue, 9, LONG).await;
    let (mut left, held_again) = (BTreeSet::from([0, 1, 2, 3, 4, 5, 6, 8, 9, 11]), indexes(&held[1..]));
    left.retain(|index| !indexes(&held[..1]).contains(index));
    assert_eq!(indexes(&again), left);
    for delivery in &again {
        let before = u32::from(held_again.is_superset(&indexes([delivery])));
        assert_eq!(delivery.receives, before + 1);
    }
    must(world.backend.queue.ack(queue, again.into_iter().map(|d| d.receipt).collect()).await);
    assert!(is_empty_in_the_end(&world, queue).await);
}
