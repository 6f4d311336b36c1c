//! Rules of queues (SPEC 7), for backends with a clock of their own too: nothing here is told to the millisecond, and what
//! comes back is waited for. Order is not a rule.

use super::world::must;
use super::{Harness, World};
use crate::port::{Delivery, Depth};
use conveyor_domain::RunId;
use conveyor_domain::limits::CONTROL_MAX_RECEIVES;
use conveyor_domain::message::QueueName;
use std::collections::HashSet;
use std::time::Duration;

/// Long enough to look at something hidden before it comes back, also on a busy machine.
pub(super) const VISIBILITY: Duration = Duration::from_secs(4);
const HALF: Duration = Duration::from_secs(2);
/// For messages that are not to come back while a rule looks on.
const LONG: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(250);
const PATIENCE: Duration = Duration::from_secs(30);

fn run_queue(world: &World) -> QueueName {
    QueueName::Run(RunId::new(world.now(), &world.entropy))
}

fn names(count: usize) -> HashSet<String> {
    (0..count).map(|i| format!("m{i}")).collect()
}

async fn send(world: &World, queue: QueueName, count: usize) {
    must(world.backend.queue.send(queue, names(count).into_iter().collect(), world.now()).await);
}

async fn receive(world: &World, queue: QueueName, max: usize) -> Vec<Delivery> {
    must(world.backend.queue.receive(queue, max, VISIBILITY, world.now()).await)
}

/// Receives until there are `count`.
pub(super) async fn gather(
    (harness, world): (&dyn Harness, &World),
    queue: QueueName,
    count: usize,
    visibility: Duration,
) -> Vec<Delivery> {
    let (mut gathered, mut waited) = (Vec::with_capacity(count), Duration::ZERO);
    loop {
        let received =
            must(world.backend.queue.receive(queue, count - gathered.len(), visibility, world.now()).await);
        let dry = received.is_empty();
        gathered.extend(received);
        if gathered.len() >= count {
            assert_eq!(gathered.len(), count, "more than were asked for");
            return gathered;
        }
        if dry {
            assert!(waited < PATIENCE, "only {} of {count} messages came", gathered.len());
            world.wait(harness, LOOK_EVERY).await;
            waited += LOOK_EVERY;
        }
    }
}

fn bodies(received: &[Delivery]) -> HashSet<String> {
    received.iter().map(|d| d.body.clone()).collect()
}

async fn ack(world: &World, queue: QueueName, received: impl IntoIterator<Item = Delivery>) {
    let receipts = received.into_iter().map(|d| d.receipt).collect();
    must(world.backend.queue.ack(queue, receipts).await);
}

async fn depth(world: &World, queue: QueueName) -> Depth {
    must(world.backend.queue.depth(queue, world.now()).await)
}

/// A backend that counts about right wants to see it for a while, by the time that it is told.
pub(super) async fn is_empty_in_the_end(world: &World, queue: QueueName) -> bool {
    for _ in 0..20 {
        if must(world.backend.queue.is_empty(queue, world.now()).await) {
            return true;
        }
        world.pass(10_000);
    }
    false
}

pub async fn messages_come_once(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let queue = run_queue(&world);
    must(world.backend.queue.ready().await);
    let mut changes = world.backend.queue.changes();
    changes.mark_unchanged();
    send(&world, queue, 5).await;
    assert!(must(changes.has_changed()), "whoever waits here is told");
    let received = gather((harness, &world), queue, 5, VISIBILITY).await;
    assert_eq!(bodies(&received), names(5));
    assert!(received.iter().all(|d| d.receives == 1));
    ack(&world, queue, received).await;
    assert_eq!(depth(&world, queue).await, Depth::default());
    world.wait(harness, VISIBILITY + HALF).await;
    assert!(receive(&world, queue, 10).await.is_empty(), "acknowledged means gone");
    assert!(is_empty_in_the_end(&world, queue).await);
}

pub async fn a_queue_that_never_was_is_empty(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let (never, other) = (run_queue(&world), run_queue(&world));
    send(&world, other, 1).await;
    let receipt = gather((harness, &world), other, 1, LONG).await.remove(0).receipt;
    // Nothing to send must not bring a queue into being.
    must(world.backend.queue.send(never, Vec::new(), world.now()).await);
    let queues = &world.backend.queue;
    assert!(receive(&world, never, 10).await.is_empty());
    must(queues.ack(never, vec![receipt.clone()]).await);
    must(queues.release(never, vec![(receipt.clone(), Duration::ZERO)], world.now()).await);
    assert_eq!(must(queues.extend(never, vec![receipt], LONG, world.now()).await), [None]);
    assert_eq!(depth(&world, never).await, Depth::default());
    assert!(is_empty_in_the_end(&world, never).await);
    assert!(must(queues.remove(never, 10).await), "removing nothing is done");
    assert_eq!(
        depth(&world, other).await,
        Depth { visible: 0, hidden: 1 },
        "a queue beside it is left alone"
    );
}

/// However many fit into one call of a backend, and however many bytes.
pub async fn every_message_of_a_long_list_arrives(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let queue = run_queue(&world);
    let mut sent: Vec<String> = (0..123).map(|i| format!("m{i}")).collect();
    sent.extend((0..9).map(|i| format!("{i}{}", "x".repeat(60_000))));
    must(world.backend.queue.send(queue, sent.clone(), world.now()).await);
    assert_eq!(depth(&world, queue).await, Depth { visible: 132, hidden: 0 });
    let received = gather((harness, &world), queue, 132, LONG).await;
    assert!(bodies(&received) == sent.into_iter().collect(), "what came is not what was sent");
    let receipts = received.iter().map(|d| d.receipt.clone()).collect();
    let kept = must(world.backend.queue.extend(queue, receipts, LONG, world.now()).await);
    assert_eq!(kept.iter().flatten().count(), 132);
    must(world.backend.queue.ack(queue, kept.into_iter().flatten().collect()).await);
    assert_eq!(depth(&world, queue).await, Depth::default());
}

pub async fn the_depth_tells_visible_from_hidden(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let queue = run_queue(&world);
    send(&world, queue, 7).await;
    assert_eq!(depth(&world, queue).await, Depth { visible: 7, hidden: 0 });
    let held = gather((harness, &world), queue, 3, LONG).await;
    assert_eq!(depth(&world, queue).await, Depth { visible: 4, hidden: 3 });
    must(world.backend.queue.ack(queue, vec![held[0].receipt.clone()]).await);
    let later = vec![(held[1].receipt.clone(), LONG), (held[2].receipt.clone(), Duration::ZERO)];
    must(world.backend.queue.release(queue, later, world.now()).await);
    assert_eq!(depth(&world, queue).await, Depth { visible: 5, hidden: 1 });
    assert!(!is_empty_in_the_end(&world, queue).await);
}

pub async fn a_message_comes_back_after_the_visibility_timeout(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let queue = run_queue(&world);
    send(&world, queue, 1).await;
    let may_have = || world.backend.queue.may_have(vec![queue], world.now());
    assert_eq!(must(may_have().await), [true]);
    gather((harness, &world), queue, 1, VISIBILITY).await;
    world.wait(harness, HALF).await;
    assert!(receive(&world, queue, 1).await.is_empty());
    let again = gather((harness, &world), queue, 1, Duration::ZERO).await;
    assert_eq!((again[0].body.as_str(), again[0].receives), ("m0", 2));
    assert_eq!(must(may_have().await), [true], "there is something, and a false says surely not");
}

/// What it does to its own message is not promised.
pub async fn a_stale_receipt_harms_no_other_message(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let queue = run_queue(&world);
    send(&world, queue, 2).await;
    let stale = gather((harness, &world), queue, 2, VISIBILITY).await;
    let latest = gather((harness, &world), queue, 2, LONG).await;
    let [stale, theirs] = [stale, latest].map(|held| held.into_iter().find(|d| d.body == "m0"));
    let (stale, theirs) = (stale.expect("was received").receipt, theirs.expect("was received again"));
    assert_ne!(stale, theirs.receipt);
    let queues = &world.backend.queue;
    let extended = must(queues.extend(queue, vec![stale.clone()], LONG, world.now()).await);
    assert_eq!(extended.len(), 1);
    must(queues.release(queue, vec![(stale.clone(), LONG)], world.now()).await);
    must(queues.ack(queue, vec![stale.clone()]).await);
    must(queues.ack(queue, vec![stale]).await);
    let Depth { visible, hidden } = depth(&world, queue).await;
    assert!(visible == 0 && (1..=2).contains(&hidden), "the other message is there: {visible}, {hidden}");
    must(queues.ack(queue, vec![theirs.receipt]).await);
    assert_eq!(depth(&world, queue).await, Depth { visible: 0, hidden: 1 });
}

pub async fn an_extended_message_stays_hidden(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let queue = run_queue(&world);
    send(&world, queue, 1).await;
    let mut receipt = gather((harness, &world), queue, 1, VISIBILITY).await.remove(0).receipt;
    for _ in 0..3 {
        world.wait(harness, HALF).await;
        let renewed =
            must(world.backend.queue.extend(queue, vec![receipt.clone()], VISIBILITY, world.now()).await);
        receipt = renewed.into_iter().next().flatten().expect("the receipt is the latest");
        assert!(receive(&world, queue, 1).await.is_empty());
    }
    must(world.backend.queue.ack(queue, vec![receipt]).await);
    world.wait(harness, VISIBILITY + HALF).await;
    assert!(receive(&world, queue, 1).await.is_empty());
}

pub async fn a_released_message_comes_back_after_its_delay(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let queue = run_queue(&world);
    send(&world, queue, 2).await;
    let held = gather((harness, &world), queue, 2, LONG).await;
    let (now, later) = (&held[0], &held[1]);
    let give_back = vec![(now.receipt.clone(), Duration::ZERO), (later.receipt.clone(), VISIBILITY)];
    must(world.backend.queue.release(queue, give_back, world.now()).await);
    let back = gather((harness, &world), queue, 1, LONG).await;
    assert_eq!((&back[0].body, back[0].receives), (&now.body, 2));
    world.wait(harness, HALF).await;
    assert!(receive(&world, queue, 2).await.is_empty(), "before its delay");
    let back = gather((harness, &world), queue, 1, LONG).await;
    assert_eq!((&back[0].body, back[0].receives), (&later.body, 2));
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
                let batch = must(port.receive(queue, 7, LONG, now).await);
                if batch.is_empty() {
                    return mine;
                }
                mine.extend(batch);
                assert!(mine.len() <= 200, "messages are handed out again and again");
            }
        })
    };
    let receivers: Vec<_> = (0..8).map(receiver).collect();
    let mut all = Vec::new();
    for receiver in receivers {
        all.extend(must(receiver.await));
    }
    assert!(all.len() <= 200, "a message was handed out twice");
    let missed = 200 - all.len();
    all.extend(gather((harness, &world), queue, missed, LONG).await);
    assert_eq!(bodies(&all), names(200));
}

pub async fn a_message_received_too_often_is_dead_lettered(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    send(&world, QueueName::Control, 1).await;
    for n in 1..=CONTROL_MAX_RECEIVES {
        let delivery = gather((harness, &world), QueueName::Control, 1, LONG).await.remove(0);
        assert_eq!(delivery.receives, n);
        let back = vec![(delivery.receipt, Duration::ZERO)];
        must(world.backend.queue.release(QueueName::Control, back, world.now()).await);
    }
    assert!(receive(&world, QueueName::Control, 1).await.is_empty());
    assert_eq!(depth(&world, QueueName::Control).await, Depth::default());
    let dead = gather((harness, &world), QueueName::ControlDead, 1, LONG).await;
    assert_eq!(dead[0].body, "m0");
}

pub async fn messages_survive_a_crash(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let queue = run_queue(&world);
    send(&world, queue, 3).await;
    let held = gather((harness, &world), queue, 2, VISIBILITY).await;
    must(world.backend.queue.ack(queue, vec![held[0].receipt.clone()]).await);
    let crashed = harness.crash().await;
    let after = world.on(crashed.backend());
    let left = gather((&*crashed, &after), queue, 2, LONG).await;
    let expected: HashSet<_> = names(3).into_iter().filter(|body| *body != held[0].body).collect();
    assert_eq!(bodies(&left), expected);
    assert!(left.iter().all(|d| d.receives == if d.body == held[1].body { 2 } else { 1 }));
}

/// Whether, and when, its name can be used again is not promised.
pub async fn a_removed_queue_is_empty(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let queue = run_queue(&world);
    send(&world, queue, 25).await;
    gather((harness, &world), queue, 5, VISIBILITY).await;
    let mut steps = 0;
    while !must(world.backend.queue.remove(queue, 10).await) {
        steps += 1;
        assert!(steps < 10, "removal does not end");
    }
    assert!(must(world.backend.queue.remove(queue, 10).await), "removing again is fine");
    assert_eq!(depth(&world, queue).await, Depth::default());
    world.wait(harness, VISIBILITY + HALF).await;
    assert!(receive(&world, queue, 9).await.is_empty());
    assert!(is_empty_in_the_end(&world, queue).await);
}
