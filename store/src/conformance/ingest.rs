//! Rules of lists becoming tasks (SPEC 6.10, 6.11).

use super::jobs::{HOUR_MS, Seen, seen};
use super::world::must;
use super::{Harness, World};
use crate::port::{Appended, Chunk, Error, Reader, RunKey, StatusFilter, TasksQuery};
use conveyor_domain::ingest::list::{Layout, Position};
use conveyor_domain::job::run::Expected;
use conveyor_domain::{
    Command, Compression, FailureReason, IngestEvent, IngestRef, IngestState, IngestStatus, ListCount,
    ListFault, ParamPolicy, QueueName, Refusal, RowCount, RunStatus, Staged, TaskStatus, limits,
};

pub(super) async fn accepted(world: &World) -> RunKey {
    let upload = world.upload().await;
    let staged = world.staged("list", b"https://a.example\n").await;
    must(world.backend.store.put_staged(upload.id, staged.clone(), None, world.now()).await);
    world.accept(&upload, &staged).await
}

pub(super) async fn state(world: &World, key: RunKey) -> IngestState {
    let ingest = must(world.backend.store.ingest(key, Reader::Role).await).expect("the ingest is there");
    must(IngestState::fold(&ingest.log))
}

pub(super) async fn append(world: &World, key: RunKey, event: IngestEvent) -> Appended {
    let entry = must(state(world, key).await.entry(event));
    must(world.backend.store.append(key, entry, world.now()).await)
}

pub(super) fn opened() -> IngestEvent {
    IngestEvent::SourcePinned { compression: Compression::None, layout: Layout::Lines }
}

/// The next chunk of `count` rows, as somebody with this view of the log has it.
pub(super) fn chunk(view: &IngestState, count: u32) -> Chunk {
    let first = view.next.index;
    let rows = (first..first + count).zip(World::inputs(first + count).into_iter().skip(first as usize));
    let next = Position { offset: u64::from(first + count), line: 0, index: first + count };
    let event = IngestEvent::ChunkCommitted {
        chunk: view.chunks,
        rows: count,
        rejected: 0,
        next,
        report: None,
        inherited: Default::default(),
        unknown: Default::default(),
    };
    Chunk { rows: rows.collect(), replayed: Vec::new(), entry: must(view.entry(event)) }
}

pub(super) async fn commit(world: &World, key: RunKey, count: u32) -> Appended {
    let chunk = chunk(&state(world, key).await, count);
    must(world.backend.store.commit_chunk(key, chunk, world.now()).await)
}

async fn finish(world: &World, key: RunKey) {
    let total = state(world, key).await.accepted;
    assert_eq!(append(world, key, IngestEvent::TotalSet { total }).await, Appended::Done);
    assert_eq!(append(world, key, IngestEvent::Latched).await, Appended::Done);
}

async fn indexes(world: &World, key: RunKey) -> Vec<u32> {
    let query =
        TasksQuery { key, filter: StatusFilter::All, after: None, limit: 1_000, max_bytes: usize::MAX };
    must(world.backend.store.tasks(query).await).iter().map(|task| task.id.index()).collect()
}

pub async fn an_accepted_job_is_visible_and_calls_an_ingester(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = accepted(&world).await;
    let crashed = harness.crash().await;
    let after = world.on(crashed.backend());
    let view = after.view(key).await;
    assert_eq!(
        (view.latest_run().run.status, view.latest_run().run.ingest),
        (RunStatus::Running, Some(IngestStatus::Pending))
    );
    assert_eq!((view.latest_run().stats.total, view.latest_run().run.latched), (0, false));
    let queue = &after.backend.queue;
    let messages = must(queue.receive(QueueName::Control, 9, limits::VISIBILITY, after.now()).await);
    assert_eq!(messages.len(), 1);
    let message: IngestRef = must(messages[0].body.parse());
    assert_eq!((message.job, message.run), (key.job, key.run));
    assert_eq!(must(after.backend.store.ingesting_runs(None, 9).await), [(key, after.now())]);
}

pub async fn a_repeated_accept_changes_nothing(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let upload = world.upload().await;
    let staged = world.staged("list", b"https://a.example\n").await;
    must(world.backend.store.put_staged(upload.id, staged.clone(), None, world.now()).await);
    let acceptance = world.acceptance(&upload, &staged);
    let key = RunKey { job: acceptance.job.id, run: acceptance.job.latest_run };
    must(world.backend.store.submit(acceptance.clone()).await);
    assert_eq!(append(&world, key, opened()).await, Appended::Done);
    must(world.backend.store.submit(acceptance).await);
    assert_eq!(state(&world, key).await.events, 2);
    assert_eq!(
        must(world.backend.queue.depth(QueueName::Control, Reader::Role, world.now()).await).visible,
        1
    );
}

pub async fn a_job_needs_an_upload_that_is_there(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let upload = world.upload().await;
    let staged = world.staged("list", b"https://a.example\n").await;
    must(world.backend.store.put_staged(upload.id, staged.clone(), None, world.now()).await);
    must(world.backend.store.doom_upload(upload.id, Some(world.caller), world.now()).await);
    let acceptance = world.acceptance(&upload, &staged);
    let job = acceptance.job.id;
    assert_eq!(world.backend.store.submit(acceptance).await, Err(Error::NotFound));
    assert_eq!(must(world.backend.store.job(Some(world.caller), job).await), None);
}

pub async fn a_job_pins_only_what_is_staged_when_it_is_made(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let upload = world.upload().await;
    let (first, second) = (world.staged("one", b"a\n").await, world.staged("two", b"b\n").await);
    let store = &world.backend.store;
    must(store.put_staged(upload.id, first.clone(), None, world.now()).await);
    // Looked at, and replaced before the job was made: what it would pin is about to be deleted.
    let acceptance = world.acceptance(&upload, &first);
    must(store.put_staged(upload.id, second, None, world.now()).await);
    let job = acceptance.job.id;
    assert_eq!(store.submit(acceptance).await, Err(Error::Changed));
    assert_eq!(must(store.job(Some(world.caller), job).await), None);
    let free = must(store.upload(world.caller, upload.id, world.now()).await).expect("the upload");
    assert!(!free.claimed);
}

pub async fn a_chunk_is_rows_refs_total_and_event(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = accepted(&world).await;
    assert_eq!(append(&world, key, opened()).await, Appended::Done);
    assert_eq!(commit(&world, key, 7).await, Appended::Done);
    assert_eq!(commit(&world, key, 5).await, Appended::Done);
    let crashed = harness.crash().await;
    let after = world.on(crashed.backend());
    assert_eq!(indexes(&after, key).await, (0..12).collect::<Vec<_>>());
    assert_eq!(
        must(after.backend.queue.depth(QueueName::Run(key.run), Reader::Role, after.now()).await).visible,
        12
    );
    let run = after.view(key).await.latest_run().clone();
    assert_eq!((run.stats.total, run.run.next_index, run.run.latched), (12, 12, false));
    assert_eq!(state(&after, key).await.accepted, 12);
}

pub async fn of_two_ingesters_one_wins_each_step(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = accepted(&world).await;
    append(&world, key, opened()).await;
    let view = state(&world, key).await;
    let store = &world.backend.store;
    let (a, b) = tokio::join!(
        store.commit_chunk(key, chunk(&view, 7), world.now()),
        store.commit_chunk(key, chunk(&view, 7), world.now()),
    );
    let mut outcomes = [must(a), must(b)];
    outcomes.sort_by_key(|appended| *appended == Appended::Lost);
    assert_eq!(outcomes, [Appended::Done, Appended::Lost]);
    // And once more, late, after others have gone on.
    assert_eq!(commit(&world, key, 3).await, Appended::Done);
    assert_eq!(must(store.commit_chunk(key, chunk(&view, 7), world.now()).await), Appended::Lost);
    assert_eq!(indexes(&world, key).await, (0..10).collect::<Vec<_>>());
    assert_eq!(world.view(key).await.latest_run().stats.total, 10);
}

pub async fn a_chunk_never_resets_a_settled_row(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = accepted(&world).await;
    append(&world, key, opened()).await;
    // As a crash between the rows and the event would leave it, on a backend that writes them one after the other.
    let rows = (0..3).zip(World::inputs(3)).collect();
    must(world.backend.store.put_tasks(key, rows, world.now()).await);
    world.finish(key, 1, super::world::success()).await;
    assert_eq!(commit(&world, key, 5).await, Appended::Done);
    let query = TasksQuery { key, filter: StatusFilter::All, after: None, limit: 10, max_bytes: usize::MAX };
    let tasks = must(world.backend.store.tasks(query).await);
    let statuses: Vec<_> = tasks.iter().map(|task| task.status).collect();
    let pending = TaskStatus::Pending;
    assert_eq!(statuses, [pending, TaskStatus::Successful, pending, pending, pending]);
    let stats = world.view(key).await.latest_run().stats;
    assert_eq!((stats.total, stats.counts.successful), (5, 1));
}

pub async fn a_run_completes_with_its_latch_and_not_before(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = accepted(&world).await;
    append(&world, key, opened()).await;
    commit(&world, key, 1).await;
    world.finish(key, 0, super::world::success()).await;
    let early = world.backend.store.apply(key.job, Command::Drained, world.now()).await;
    assert_eq!(early.err(), Some(Error::Refused(Refusal::NotDrained)));
    finish(&world, key).await;
    let run = world.view(key).await.latest_run().run.clone();
    assert_eq!((run.status, run.latched, run.ingest), (RunStatus::Completed, true, Some(IngestStatus::Done)));
    assert!(must(world.backend.store.ingesting_runs(None, 9).await).is_empty());
}

pub async fn a_stopped_run_takes_no_more_rows_and_is_cut(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = accepted(&world).await;
    append(&world, key, opened()).await;
    commit(&world, key, 4).await;
    must(world.backend.store.apply(key.job, Command::Stop, world.now()).await);
    assert_eq!(commit(&world, key, 4).await, Appended::Ended);
    assert_eq!(state(&world, key).await.accepted, 4, "nothing was logged");
    assert_eq!(indexes(&world, key).await.len(), 4, "nothing was written");
    assert!(world.view(key).await.latest_run().run.is_ingesting());
    assert_eq!(append(&world, key, IngestEvent::Cut { total: 4 }).await, Appended::Done);
    let run = world.view(key).await.latest_run().clone();
    assert_eq!((run.run.status, run.run.is_ingesting(), run.stats.total), (RunStatus::Stopped, false, 4));
}

/// What readers are shown of a run before its tasks are there is kept with it, and a count replaces it.
pub async fn a_run_keeps_what_is_expected_of_it(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let upload = world.upload().await;
    let staged = world.staged("list", b"https://a.example\n").await;
    must(world.backend.store.put_staged(upload.id, staged.clone(), None, world.now()).await);
    // What a submit knows of the bytes is no part of which bytes they are.
    let count = ListCount::Rows(RowCount::checked(ParamPolicy::ZenRows, 9, 7));
    let mut acceptance = world.acceptance(&upload, &Staged { count: Some(Box::new(count)), ..staged });
    let least = Some(Expected { tasks: 7, exact: false });
    acceptance.run.as_mut().expect("a run").doc.expected = least;
    let key = RunKey { job: acceptance.job.id, run: acceptance.job.latest_run };
    must(world.backend.store.submit(acceptance).await);
    let expected = async |world: &World| world.view(key).await.latest_run().run.doc.expected;
    assert_eq!(expected(&world).await, least);
    append(&world, key, opened()).await;
    let late = must(state(&world, key).await.entry(IngestEvent::Counted { records: 9, rows: 8 }));
    assert_eq!(append(&world, key, IngestEvent::Counted { records: 9, rows: 8 }).await, Appended::Done);
    assert_eq!(must(world.backend.store.append(key, late, world.now()).await), Appended::Lost);
    let exact = Some(Expected { tasks: 8, exact: true });
    let crashed = harness.crash().await;
    let after = world.on(crashed.backend());
    assert_eq!(expected(&after).await, exact);
    assert_eq!(after.view(key).await.latest_run().stats.total, 0, "nothing is counted as written");
    must(after.backend.store.apply(key.job, Command::Stop, after.now()).await);
    assert_eq!(append(&after, key, IngestEvent::Cut { total: 0 }).await, Appended::Done);
    assert_eq!(after.view(key).await.latest_run().stats.total, 0);
}

pub async fn a_failed_list_fails_its_run(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = accepted(&world).await;
    let fault = ListFault::SourceCorrupt;
    let failed =
        IngestEvent::Failed { fault, detail: "bad".into(), line: Some(3), report: None, rejected: 0 };
    assert_eq!(append(&world, key, failed).await, Appended::Done);
    let run = world.view(key).await.latest_run().run.clone();
    let failure = run.failure.expect("a failed run says why");
    assert_eq!((run.status, failure.reason), (RunStatus::Failed, FailureReason::List(fault)));
    assert!(must(world.backend.store.changed_runs(None, world.now()).await).active.is_empty());
}

pub async fn nothing_is_written_to_a_deleted_job(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let key = accepted(&world).await;
    append(&world, key, opened()).await;
    let view = state(&world, key).await;
    must(world.backend.store.apply(key.job, Command::Delete, world.now()).await);
    let store = &world.backend.store;
    assert_eq!(must(store.commit_chunk(key, chunk(&view, 4), world.now()).await), Appended::Gone);
    assert!(indexes(&world, key).await.is_empty());
    assert!(must(store.ingest(key, Reader::Role).await).is_none());
}

pub async fn a_list_that_is_late_is_found_by_when_it_is_there(harness: &dyn Harness) {
    let world = World::new(harness.backend());
    let upload = world.upload().await;
    let staged = world.staged("list", b"https://a.example\n").await;
    must(world.backend.store.put_staged(upload.id, staged.clone(), None, world.now()).await);
    let (acceptance, decided) = (world.acceptance(&upload, &staged), world.now());
    let key = RunKey { job: acceptance.job.id, run: acceptance.job.latest_run };
    let store = &world.backend.store;
    let later = async || {
        world.pass(HOUR_MS);
        must(store.changed_runs(None, world.now()).await);
        world.now()
    };
    let found = async |since, total| {
        let fits = |seen: &Seen| matches!(seen, Seen::Active(active) if active.stats.total == total);
        let look = seen((harness, &world), key, since, fits).await;
        assert!(fits(&look), "{total}: {look:?}");
    };
    let since = later().await;
    must(store.submit(acceptance).await);
    found(since, 0).await;
    assert_eq!(append(&world, key, opened()).await, Appended::Done);
    let since = later().await;
    let chunk = chunk(&state(&world, key).await, 3);
    assert_eq!(must(store.commit_chunk(key, chunk, decided).await), Appended::Done);
    found(since, 3).await;
    let since = later().await;
    let total = must(state(&world, key).await.entry(IngestEvent::TotalSet { total: 3 }));
    assert_eq!(must(store.append(key, total, decided).await), Appended::Done);
    let latched = must(state(&world, key).await.entry(IngestEvent::Latched));
    assert_eq!(must(store.append(key, latched, decided).await), Appended::Done);
    found(since, 3).await;
}
