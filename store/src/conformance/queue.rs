//! Rules of queues (SPEC 7), for backends with a clock of their own too: nothing here is told to the millisecond, and what
//! comes back is waited for. Order is not a rule.

use super::world::must;
use super::{Harness, World};
use crate::port::{Delivery, Depth, Emptiness, Reader};
use conveyor_domain::limits::CONTROL_MAX_RECEIVES;
use conveyor_domain::{QueueName, RunId};
use std::collections::HashSet;
use std::time::Duration;

/// For messages that a rule waits for: as short as a backend that counts in seconds allows.
const VISIBILITY: Duration = Duration::from_secs(1);
/// For messages that are not to come back while a rule looks on.
pub(super) const LONG: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Less than `LONG`: what comes back only after that is not waited for.
const PATIENCE: Duration = Duration::from_secs(60);

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

/// Holds `count` messages that come back after [`VISIBILITY`]. They are held for long while they are gathered: on a slow
/// machine the first would be back before the last had come.
async fn hold((harness, world): (&dyn Harness, &World), queue: QueueName, count: usize) -> Vec<Delivery> {
    let mut held = gather((harness, world), queue, count, LONG).await;
    shorten(world, queue, &mut held).await;
    held
}

/// Has messages come back after [`VISIBILITY`] that were held for longer.
pub(super) async fn shorten(world: &World, queue: QueueName, held: &mut [Delivery]) {
    let receipts = held.iter().map(|d| d.receipt.clone()).collect();
    let renewed = must(world.backend.queue.extend(queue, receipts, VISIBILITY, world.now()).await);
    for (delivery, receipt) in held.iter_mut().zip(renewed) {
        delivery.receipt = receipt.expect("the receipt is the latest");
    }
}

/// The time as the backend has it. What was hidden at one moment for some time can never be seen earlier than that time
/// later, however slow the machine is.
fn time(harness: &dyn Harness, world: &World) -> Duration {
    let told = || Duration::from_millis(u64::try_from(world.now().0).expect("after 1970"));
    harness.clock().unwrap_or_else(told)
}

/// Waits until what [`hold`] holds would have come back.
async fn outwait(harness: &dyn Harness, world: &World) {
    world.wait(harness, VISIBILITY + LOOK_EVERY).await;
}

fn bodies(received: &[Delivery]) -> HashSet<String> {
    received.iter().map(|d| d.body.clone()).collect()
}

async fn ack(world: &World, queue: QueueName, received: impl IntoIterator<Item = Delivery>) {
    let receipts = received.into_iter().map(|d| d.receipt).collect();
    must(world.backend.queue.ack(queue, receipts).await);
}

async fn depth(world: &World, queue: QueueName) -> Depth {
    must(world.backend.queue.depth(queue, Reader::Role, world.now()).await)
}

/// A backend that counts about right wants to see it for a while, by the time that it is told.
pub(super) async fn is_empty_in_the_end(world: &World, queue: QueueName) -> bool {
    for _ in 0..20 {
        if must(world.backend.queue.emptiness(queue, world.now()).await) == Emptiness::Empty {
            return true;
        }
        world.pass(10_000);
    }
    false
}

pub async fn messages_come_once(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let queue = run_queue(&world);
    let mut changes = world.backend.changes();
    changes.mark_unchanged();
    send(&world, queue, 5).await;
    assert!(must(changes.has_changed()), "whoever waits here is told");
    let received = hold((harness, &world), queue, 5).await;
    assert_eq!(bodies(&received), names(5));
    assert!(received.iter().all(|d| d.receives == 1));
    ack(&world, queue, received).await;
    assert_eq!(depth(&world, queue).await, Depth::default());
    outwait(harness, &world).await;
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
        Depth { visible: 0, hidden: 1, at_least: false },
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
    assert_eq!(depth(&world, queue).await, Depth { visible: 132, hidden: 0, at_least: false });
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
    assert_eq!(depth(&world, queue).await, Depth { visible: 7, hidden: 0, at_least: false });
    let held = gather((harness, &world), queue, 3, LONG).await;
    assert_eq!(depth(&world, queue).await, Depth { visible: 4, hidden: 3, at_least: false });
    must(world.backend.queue.ack(queue, vec![held[0].receipt.clone()]).await);
    let later = vec![(held[1].receipt.clone(), LONG), (held[2].receipt.clone(), Duration::ZERO)];
    must(world.backend.queue.release(queue, later, world.now()).await);
    assert_eq!(depth(&world, queue).await, Depth { visible: 5, hidden: 1, at_least: false });
    assert!(!is_empty_in_the_end(&world, queue).await);
}

pub async fn a_message_comes_back_after_the_visibility_timeout(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let queue = run_queue(&world);
    send(&world, queue, 1).await;
    let may_have = || world.backend.queue.may_have(vec![queue], world.now());
    assert_eq!(must(may_have().await), [true]);
    let taken_at = time(harness, &world);
    gather((harness, &world), queue, 1, VISIBILITY).await;
    let again = gather((harness, &world), queue, 1, Duration::ZERO).await;
    assert!(time(harness, &world) >= taken_at + VISIBILITY, "it came back too early");
    assert_eq!((again[0].body.as_str(), again[0].receives), ("m0", 2));
    assert_eq!(must(may_have().await), [true], "there is something, and a false says surely not");
}

/// What it does to its own message is not promised.
pub async fn a_stale_receipt_harms_no_other_message(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let queue = run_queue(&world);
    send(&world, queue, 2).await;
    let stale = hold((harness, &world), queue, 2).await;
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
    let Depth { visible, hidden, .. } = depth(&world, queue).await;
    assert!(visible == 0 && (1..=2).contains(&hidden), "the other message is there: {visible}, {hidden}");
    must(queues.ack(queue, vec![theirs.receipt]).await);
    assert_eq!(depth(&world, queue).await, Depth { visible: 0, hidden: 1, at_least: false });
}

pub async fn an_extended_message_stays_hidden(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let (queue, queues) = (run_queue(&world), &world.backend.queue);
    send(&world, queue, 1).await;
    let mut visibility = VISIBILITY;
    let extended_at = loop {
        let taken_at = time(harness, &world);
        let receipt = gather((harness, &world), queue, 1, visibility).await.remove(0).receipt;
        let (mut kept, mut extended_at) = (Some(receipt), taken_at);
        for _ in 0..3 {
            let Some(receipt) = kept.take() else { break };
            world.wait(harness, visibility / 4).await;
            extended_at = time(harness, &world);
            kept = must(queues.extend(queue, vec![receipt], 2 * visibility, world.now()).await).remove(0);
        }
        if kept.is_some() {
            break extended_at;
        }
        // A machine that is too slow to extend in time proves nothing: the message is taken again, for longer.
        assert!(time(harness, &world) >= taken_at + visibility, "an extension in time was refused");
        visibility *= 2;
    };
    let back = gather((harness, &world), queue, 1, LONG).await.remove(0);
    assert!(time(harness, &world) >= extended_at + 2 * visibility, "it came back too early");
    let kept = must(queues.extend(queue, vec![back.receipt], LONG, world.now()).await).remove(0);
    must(queues.ack(queue, vec![kept.expect("the receipt is the latest")]).await);
    assert_eq!(depth(&world, queue).await, Depth::default());
}

pub async fn a_released_message_comes_back_after_its_delay(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let queue = run_queue(&world);
    send(&world, queue, 2).await;
    let held = gather((harness, &world), queue, 2, LONG).await;
    let (now, later) = (&held[0], &held[1]);
    let give_back = vec![(now.receipt.clone(), Duration::ZERO), (later.receipt.clone(), VISIBILITY)];
    let released_at = time(harness, &world);
    must(world.backend.queue.release(queue, give_back, world.now()).await);
    let mut back = HashSet::new();
    for _ in 0..2 {
        let delivery = gather((harness, &world), queue, 1, LONG).await.remove(0);
        let early = time(harness, &world) < released_at + VISIBILITY;
        assert!(!early || delivery.body == now.body, "before its delay");
        assert_eq!(delivery.receives, 2);
        back.insert(delivery.body);
    }
    assert_eq!(back, bodies(&held));
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
    let held = hold((harness, &world), queue, 2).await;
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
    hold((harness, &world), queue, 5).await;
    let mut steps = 0;
    while !must(world.backend.queue.remove(queue, 10).await) {
        steps += 1;
        assert!(steps < 10, "removal does not end");
    }
    assert!(must(world.backend.queue.remove(queue, 10).await), "removing again is fine");
    assert_eq!(depth(&world, queue).await, Depth::default());
    outwait(harness, &world).await;
    assert!(receive(&world, queue, 9).await.is_empty());
    assert!(is_empty_in_the_end(&world, queue).await);
}
