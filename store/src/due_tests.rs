use super::*;
use crate::Backend;
use crate::embedded::Embedded;
use conveyor_domain::job::record::Expected;
use conveyor_domain::{Entropy, RecordVersion, RecordWrite};
use tempfile::TempDir;

const KIND: RecordKind = RecordKind::Delivery;

struct World {
    backend: Backend,
    entropy: Entropy,
    now: Timestamp,
    dir: TempDir,
}

impl World {
    fn new() -> World {
        let (dir, now) = (TempDir::new().unwrap(), Timestamp(1_767_225_600_000));
        let backend = Embedded::open(dir.path(), now).unwrap().backend();
        World { backend, entropy: Entropy::from_number(3), now, dir }
    }

    async fn put(&self, caller: u8, id: usize, due: Timestamp) {
        let key = RecordKey::new(KIND, format!("owner-{caller}"), format!("{id:06}"));
        let record = Record::new(key, RecordVersion::new(&self.entropy), &caller).due(Some(due));
        assert!(self.backend.store.write_record(RecordWrite::put(record, Expected::Anything)).await.unwrap());
    }

    async fn backlog(&self, caller: u8, count: usize) {
        futures::future::join_all((0..count).map(|id| self.put(caller, id, Timestamp(1_000)))).await;
    }

    async fn look(&self, due: &mut Due<()>) {
        let sort = |record: &Record| (caller(record.parse().unwrap()), ());
        due.look(&self.backend.store, self.now, sort).await.unwrap();
    }
}

fn caller(n: u8) -> CallerId {
    CallerId::from_bytes([n; 16])
}

#[tokio::test]
async fn what_has_just_become_due_is_found_in_front_of_any_backlog() {
    let (world, mut due) = (World::new(), Due::new(KIND));
    world.backlog(1, 2_000).await;
    world.put(2, 0, world.now).await;
    world.look(&mut due).await;
    assert!(due.take(|who, ()| who == caller(2)).is_some());
}

#[tokio::test]
async fn more_than_a_page_that_became_due_with_it_does_not_hide_a_record() {
    let (world, mut due) = (World::new(), Due::new(KIND));
    world.backlog(1, 2_000).await;
    world.look(&mut due).await;
    let at = |ms| Timestamp(world.now.0 - ms);
    world.put(2, 0, at(2)).await;
    futures::future::join_all((0..1_000).map(|id| world.put(1, 10_000 + id, at(1)))).await;
    world.look(&mut due).await;
    assert!(due.take(|who, ()| who == caller(2)).is_some());
    assert!(due.known.len() <= 2 * (PAGE * (NEWEST_PAGES + PAGES)) as usize, "a look is bounded");
}

#[tokio::test]
async fn all_of_a_backlog_is_found_a_few_pages_a_look() {
    let (world, mut due) = (World::new(), Due::new(KIND));
    world.put(2, 0, Timestamp(1_001)).await;
    world.backlog(1, 3_000).await;
    world.look(&mut due).await;
    assert!(due.known.len() <= (PAGE * (NEWEST_PAGES + PAGES)) as usize, "one look is bounded");
    world.look(&mut due).await;
    assert_eq!(due.known.len(), 3_001);
    let (.., key) = due.take(|_, ()| true).unwrap();
    world.look(&mut due).await;
    assert_eq!(due.line.len(), 3_000, "what is under way is not found twice");
    due.forget(&key);
    // The pass that is under way may be past it already; the one after it begins where the index does.
    while due.pass.is_some() {
        world.look(&mut due).await;
    }
    due.next_pass = Instant::now();
    while due.pass.is_some() || due.next_pass <= Instant::now() {
        world.look(&mut due).await;
    }
    assert_eq!(due.line.len(), 3_001, "it is still due");
}

#[tokio::test]
async fn a_record_that_cannot_be_read_costs_only_itself() {
    let (world, mut due) = (World::new(), Due::new(KIND));
    for caller in 1..=4 {
        world.put(caller, 0, Timestamp(i64::from(caller))).await;
    }
    let database = rusqlite::Connection::open(world.dir.path().join("conveyor.db")).unwrap();
    // One whose key is in the index and whose row cannot be read, and one that is not even found in the index.
    let damaged = "UPDATE records SET version = 'garbage' WHERE owner = 'owner-2'";
    assert_eq!(database.execute(damaged, []).unwrap(), 1);
    let unnamed = "UPDATE records SET id = x'ff' WHERE owner = 'owner-3'";
    assert_eq!(database.execute(unnamed, []).unwrap(), 1);
    world.look(&mut due).await;
    let found: Vec<CallerId> = std::iter::from_fn(|| due.take(|_, ()| true)).map(|(who, ..)| who).collect();
    assert_eq!(found, [caller(1), caller(4)]);
    let mended = "UPDATE records SET version = 7 WHERE owner = 'owner-2'";
    assert_eq!(database.execute(mended, []).unwrap(), 1);
    due.next_pass = Instant::now();
    world.look(&mut due).await;
    world.look(&mut due).await;
    assert!(due.take(|who, ()| who == caller(2)).is_some(), "it is looked at again");
}

#[tokio::test]
async fn a_backlog_leaves_room_for_other_callers() {
    let (world, mut due) = (World::new(), Due::with_room_for(KIND, 300));
    world.backlog(1, 1_000).await;
    world.put(2, 0, Timestamp(1_000)).await;
    while due.next_pass <= Instant::now() || due.pass.is_some() {
        world.look(&mut due).await;
    }
    assert_eq!(due.line.len_of(caller(1)), 150);
    assert_eq!(due.line.len_of(caller(2)), 1, "found in the middle of the backlog");
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_does_not_answer_is_left_alone_for_longer_each_time() {
    let mut due = Due::<()>::new(KIND);
    let [key, other] = ["silent", "other"].map(|owner| RecordKey::new(KIND, owner, "1"));
    for seconds in [5, 10, 20, 40, 60, 60] {
        due.note_silence(key.owner.clone());
        assert!(due.is_new(&other) && !due.is_new(&key));
        tokio::time::advance(Duration::from_millis(seconds * 1_000 - 1)).await;
        assert!(!due.is_new(&key), "{seconds}");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(due.is_new(&key), "{seconds}");
    }
    tokio::time::advance(SILENT.cap).await;
    due.rest(PASS_EVERY);
    assert!(due.silent.is_empty(), "forgotten");
}
