//! What the embedded queue does beyond the rules that every backend obeys: its time is exact to the millisecond, its messages
//! come in order, a stale receipt does nothing, and a queue that was removed can be used again.

use crate::on_disk::{NOW, OnDisk};
use conveyor_domain::export::Progress;
use conveyor_domain::job::record::Expected;
use conveyor_domain::limits::CONTROL_MAX_RECEIVES;
use conveyor_domain::{
    Entropy, Export, ExportFormat, ExportId, JobId, QueueName, Record, RecordKey, RecordKind, RecordVersion,
    RecordWrite, RunId, TaskRef, Timestamp,
};
use conveyor_store::Backend;
use conveyor_store::conformance::{Harness, World};
use conveyor_store::port::{Delivery, Depth, Emptiness, Reader, Receipt};
use rusqlite::Connection;
use std::collections::HashSet;
use std::time::Duration;

const VISIBILITY: Duration = Duration::from_secs(30);
const DAYS_60: Duration = Duration::from_secs(60 * 24 * 3600);

/// A queue of an embedded backend, and the time.
struct Queued {
    world: World,
    queue: QueueName,
    disk: OnDisk,
}

impl Queued {
    fn new() -> Queued {
        let disk = OnDisk::new();
        let world = World::new(disk.backend());
        let queue = QueueName::Run(RunId::new(world.now(), &world.entropy));
        Queued { world, queue, disk }
    }

    async fn with(count: usize) -> Queued {
        let queued = Queued::new();
        queued.send(count).await;
        queued
    }

    async fn send(&self, count: usize) {
        let bodies = (0..count).map(|i| format!("m{i}")).collect();
        self.world.backend.queue.send(self.queue, bodies, self.world.now()).await.unwrap();
    }

    async fn receive(&self, max: usize) -> Vec<Delivery> {
        let now = self.world.now();
        self.world.backend.queue.receive(self.queue, max, VISIBILITY, now).await.unwrap()
    }

    async fn receive_one(&self) -> Receipt {
        self.receive(1).await.remove(0).receipt
    }

    async fn ack(&self, receipts: Vec<Receipt>) {
        self.world.backend.queue.ack(self.queue, receipts).await.unwrap();
    }

    async fn release(&self, receipt: &Receipt, delay: Duration) {
        let back = vec![(receipt.clone(), delay)];
        self.world.backend.queue.release(self.queue, back, self.world.now()).await.unwrap();
    }

    async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Option<Receipt> {
        let (receipts, now) = (vec![receipt.clone()], self.world.now());
        let extended = self.world.backend.queue.extend(self.queue, receipts, visibility, now).await;
        extended.unwrap().remove(0)
    }

    async fn depth(&self) -> Depth {
        self.world.backend.queue.depth(self.queue, Reader::Role, self.world.now()).await.unwrap()
    }

    async fn is_empty(&self) -> bool {
        self.world.backend.queue.emptiness(self.queue, self.world.now()).await.unwrap() == Emptiness::Empty
    }
}

#[tokio::test]
async fn messages_come_in_order() {
    let queued = Queued::with(5).await;
    let (first, second) = (queued.receive(3).await, queued.receive(3).await);
    let bodies: Vec<_> = first.iter().chain(&second).map(|d| d.body.as_str()).collect();
    assert_eq!(bodies, ["m0", "m1", "m2", "m3", "m4"]);
    queued.ack(first.into_iter().chain(second).map(|d| d.receipt).collect()).await;
    assert!(queued.is_empty().await, "at once");
    assert_eq!(queued.depth().await, Depth::default());
}

#[tokio::test]
async fn a_message_is_hidden_to_the_millisecond() {
    let queued = Queued::with(1).await;
    let may_have = async || {
        let (queues, now) = (vec![queued.queue], queued.world.now());
        queued.world.backend.queue.may_have(queues, now).await.unwrap()
    };
    assert_eq!(may_have().await, [true]);
    assert_eq!(queued.receive(1).await.len(), 1);
    queued.world.pass(29_999);
    assert!(queued.receive(1).await.is_empty());
    assert_eq!(may_have().await, [false]);
    queued.world.pass(1);
    assert_eq!(may_have().await, [true]);
    let again = queued.receive(1).await;
    assert_eq!((again[0].body.as_str(), again[0].receives), ("m0", 2));
}

#[tokio::test]
async fn an_extended_message_is_hidden_to_the_millisecond() {
    let queued = Queued::with(1).await;
    let mut receipt = queued.receive_one().await;
    for _ in 0..3 {
        queued.world.pass(20_000);
        receipt = queued.extend(&receipt, VISIBILITY).await.unwrap();
        assert!(queued.receive(1).await.is_empty());
    }
    queued.world.pass(29_999);
    assert!(queued.receive(1).await.is_empty());
    queued.world.pass(1);
    assert_eq!(queued.receive(1).await[0].receives, 2);
}

#[tokio::test]
async fn a_released_message_is_hidden_to_the_millisecond() {
    let queued = Queued::with(2).await;
    let held = queued.receive(2).await;
    queued.release(&held[0].receipt, Duration::ZERO).await;
    queued.release(&held[1].receipt, Duration::from_secs(5)).await;
    let now = queued.receive(2).await;
    assert_eq!((now.len(), now[0].body.as_str()), (1, "m0"));
    queued.world.pass(4_999);
    assert!(queued.receive(2).await.is_empty());
    queued.world.pass(1);
    assert_eq!(queued.receive(2).await[0].body, "m1");
}

#[tokio::test]
async fn a_stale_receipt_cannot_delete() {
    let queued = Queued::with(1).await;
    let stale = queued.receive_one().await;
    queued.world.pass(30_000);
    let latest = queued.receive_one().await;
    queued.ack(vec![stale]).await;
    assert_eq!(queued.depth().await.hidden, 1);
    assert!(!queued.is_empty().await);
    queued.ack(vec![latest]).await;
    assert!(queued.is_empty().await);
    assert_eq!(queued.depth().await, Depth::default());
}

#[tokio::test]
async fn a_stale_receipt_cannot_extend_or_release() {
    let queued = Queued::with(1).await;
    let stale = queued.receive_one().await;
    queued.world.pass(30_000);
    queued.receive(1).await;
    queued.release(&stale, Duration::ZERO).await;
    assert!(queued.receive(1).await.is_empty(), "released by a stale receipt");
    assert_eq!(queued.extend(&stale, VISIBILITY * 9).await, None);
    queued.world.pass(30_000);
    assert_eq!(queued.receive(1).await.len(), 1, "extended by a stale receipt");
}

#[tokio::test]
async fn a_receipt_stays_stale_when_the_message_is_back_in_its_old_place() {
    let queued = Queued::with(1).await;
    let stale = queued.receive_one().await;
    // Received by another, and given back, in the very millisecond in which the first receive lapsed.
    queued.world.pass(30_000);
    let latest = queued.receive_one().await;
    queued.release(&latest, Duration::ZERO).await;
    queued.ack(vec![stale]).await;
    assert_eq!(queued.receive(1).await.len(), 1, "deleted by a stale receipt");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_receivers_miss_nothing() {
    let queued = Queued::with(200).await;
    let (queue, now) = (queued.queue, queued.world.now());
    let receiver = |_| {
        let port = queued.world.backend.queue.clone();
        tokio::spawn(async move {
            let mut mine = Vec::new();
            loop {
                let batch = port.receive(queue, 7, VISIBILITY, now).await.unwrap();
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
        all.extend(receiver.await.unwrap());
    }
    assert_eq!(all.len(), 200);
    assert_eq!(all.into_iter().collect::<HashSet<_>>().len(), 200);
}

#[tokio::test]
async fn a_message_that_nobody_gave_back_is_a_dead_letter_too() {
    let control = Queued { queue: QueueName::Control, ..Queued::new() };
    control.send(1).await;
    for n in 1..=CONTROL_MAX_RECEIVES {
        assert_eq!(control.receive(1).await[0].receives, n);
        control.world.pass(30_000);
    }
    assert!(control.receive(1).await.is_empty());
    assert_eq!(control.depth().await, Depth::default());
    let dead = Queued { queue: QueueName::ControlDead, ..control };
    assert_eq!(dead.receive(1).await[0].body, "m0");
}

#[tokio::test]
async fn a_removed_queue_is_usable_again() {
    let queued = Queued::with(25).await;
    queued.receive(5).await;
    while !queued.world.backend.queue.remove(queued.queue, 10).await.unwrap() {}
    queued.world.pass(60_000);
    assert!(queued.receive(9).await.is_empty());
    queued.send(1).await;
    assert_eq!(queued.receive(9).await.len(), 1);
}

/// A row of the queue that stands for many refs gives them out one by one, in order.
#[tokio::test]
async fn the_refs_of_tasks_come_in_order() {
    let queued = Queued::new();
    let key = queued.world.submit(true, 7).await;
    // With a gap, as a rejected row leaves it.
    let rows = [8, 9, 11].map(|index| (index, World::inputs(index + 1).remove(index as usize)));
    queued.world.backend.store.put_tasks(key, rows.to_vec(), queued.world.now()).await.unwrap();
    let queued = Queued { queue: QueueName::Run(key.run), ..queued };
    assert_eq!(queued.depth().await, Depth { visible: 10, hidden: 0, at_least: false });
    let index = |d: &Delivery| d.body.parse::<TaskRef>().unwrap().task.index();
    let indexes = |received: &[Delivery]| received.iter().map(index).collect::<Vec<_>>();
    let first = queued.receive(3).await;
    assert_eq!(indexes(&first), [0, 1, 2]);
    assert!(first.iter().all(|d| d.receives == 1));
    assert!(first.iter().all(|d| d.body.parse::<TaskRef>().unwrap().task.belongs_to(key.run)));
    assert_eq!(queued.depth().await, Depth { visible: 7, hidden: 3, at_least: false });
    let second = queued.receive(6).await;
    assert_eq!(indexes(&second), [3, 4, 5, 6, 8, 9]);
    // One is done, one is given back, the others come back by themselves, also to another process.
    queued.ack(vec![first[0].receipt.clone()]).await;
    queued.release(&second[4].receipt, Duration::ZERO).await;
    let crashed = queued.disk.crash().await;
    let queued = Queued { world: queued.world.on(crashed.backend()), ..queued };
    queued.world.pass(30_000);
    let mut again = queued.receive(100).await;
    again.sort_by_key(index);
    assert_eq!(indexes(&again), [1, 2, 3, 4, 5, 6, 8, 9, 11]);
    assert!(again.iter().all(|d| d.receives == if index(d) == 11 { 1 } else { 2 }));
    queued.ack(again.into_iter().map(|d| d.receipt).collect()).await;
    assert!(queued.is_empty().await);
}

#[tokio::test]
async fn what_was_put_off_by_a_clock_that_was_days_ahead_comes_back_when_it_is_right() {
    let (harness, now) = (OnDisk::new(), Timestamp(1_800_000_000_000));
    let (backend, queue) = (harness.backend(), QueueName::Control);
    let ahead = now.after(DAYS_60);
    backend.queue.send(queue, vec!["1:a".to_owned(), "1:b".to_owned()], ahead).await.unwrap();
    backend.store.changed_runs(None, ahead).await.unwrap();
    assert_eq!(backend.queue.receive(queue, 1, VISIBILITY, ahead).await.unwrap().len(), 1);
    assert_eq!(backend.queue.may_have(vec![queue], now).await.unwrap(), [true]);
    assert_eq!(backend.queue.receive(queue, 9, VISIBILITY, now).await.unwrap().len(), 2);
    // What is put off by a clock that is right stays so.
    assert_eq!(backend.queue.may_have(vec![queue], now).await.unwrap(), [false]);
}

#[tokio::test]
async fn what_was_put_off_comes_back_though_the_first_write_of_it_fails() {
    let (harness, queue, ahead) = (OnDisk::new(), QueueName::Control, NOW.after(DAYS_60));
    let backend = harness.backend();
    backend.queue.send(queue, vec!["1:a".to_owned()], ahead).await.unwrap();
    backend.store.changed_runs(None, ahead).await.unwrap();
    let database = Connection::open(harness.dir.path().join("conveyor.db")).unwrap();
    let trigger = "CREATE TRIGGER full BEFORE UPDATE ON messages BEGIN SELECT RAISE(ABORT, 'full'); END";
    database.execute(trigger, []).unwrap();
    assert!(backend.queue.may_have(vec![queue], NOW).await.is_err());
    database.execute("DROP TRIGGER full", []).unwrap();
    assert_eq!(backend.queue.may_have(vec![queue], NOW).await.unwrap(), [true]);
}

/// Records as a clock that is 60 days ahead leaves them; and those that are due at times that are right.
async fn put_off(backend: &Backend) {
    let entropy = Entropy::from_number(1);
    let put = |record: Record| backend.store.write_record(RecordWrite::put(record, Expected::Absent));
    for (id, due) in [("ahead", NOW.after(DAYS_60)), ("right", NOW.after(VISIBILITY))] {
        let key = RecordKey::new(RecordKind::Delivery, "job", id);
        let record = Record::new(key, RecordVersion::new(&entropy), &id).due(Some(due));
        assert!(put(record).await.unwrap());
    }
    let [one, two, three] = [1, 2, 3].map(|n| {
        let (job, run) = (JobId::from_bytes([1; 16]), RunId::from_bytes([2; 16]));
        Export::new(ExportId::from_bytes([n; 16]), job, run, ExportFormat::Zip, NOW.after(DAYS_60))
    });
    // Its record is due when it is past its time, though its lease is longer: it was made before the jump.
    let before = Export { created: NOW, ..two.renewed(Progress::default(), NOW.after(DAYS_60)) };
    for export in [one, before, three.completed("object".to_owned(), 1, 1)] {
        assert!(put(export.record(&entropy)).await.unwrap());
    }
}

async fn due(backend: &Backend, kind: RecordKind) -> usize {
    backend.store.due_records(kind, NOW, 9).await.unwrap().len()
}

#[tokio::test]
async fn notifications_and_exports_that_a_wrong_clock_put_off_are_due_when_the_directory_is_opened() {
    let harness = OnDisk::new();
    let backend = harness.backend();
    put_off(&backend).await;
    assert_eq!((due(&backend, RecordKind::Delivery).await, due(&backend, RecordKind::Export).await), (0, 0));
    let crashed = harness.crash().await;
    let opened = crashed.backend();
    assert_eq!((due(&opened, RecordKind::Delivery).await, due(&opened, RecordKind::Export).await), (1, 2));
    // And without that, once the clock is set right.
    backend.store.changed_runs(None, NOW.after(DAYS_60)).await.unwrap();
    backend.queue.may_have(vec![QueueName::Control], NOW).await.unwrap();
    assert_eq!((due(&backend, RecordKind::Delivery).await, due(&backend, RecordKind::Export).await), (1, 2));
}
