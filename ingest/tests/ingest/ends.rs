//! Runs that end while their list is read, and open jobs.

use crate::world::{World, lines, small_chunks};
use conveyor_domain::{
    Command, IngestEvent, IngestState, IngestStatus, JobStatus, ListSpec, OnInvalidRows, QueueName, Refusal,
    RunStatus, TaskInput,
};
use conveyor_ingest::End;
use conveyor_store::Error;
use conveyor_store::port::{Chunk, Reader, RunKey};
use tokio_util::sync::CancellationToken;

/// Commits the first chunk of ten rows as an ingester would, and no more.
async fn commit_first_ten(world: &World, key: RunKey) {
    let stop = CancellationToken::new();
    stop.cancel();
    let before = world.state(key).await;
    assert_eq!(world.ingester(small_chunks()).ingest(key, &stop).await.unwrap(), End::Stopped);
    assert_eq!(world.state(key).await, before, "cancelled before the first step");
    let layout = conveyor_domain::ingest::list::Layout::Lines;
    let compression = conveyor_domain::Compression::None;
    let mut state = before;
    append(world, key, &mut state, IngestEvent::SourcePinned { compression, layout }).await;
    let rows: Vec<_> =
        (0..10).map(|n| (n, TaskInput::from_url(&format!("https://example.com/{n}")).unwrap())).collect();
    let offset = lines(10).len() as u64;
    let next = conveyor_domain::ingest::list::Position { offset, line: 10, index: 10 };
    let event = IngestEvent::ChunkCommitted {
        chunk: 0,
        rows: 10,
        rejected: 0,
        next,
        report: None,
        inherited: Default::default(),
        unknown: Default::default(),
    };
    let entry = state.entry(event).unwrap();
    let chunk = Chunk { rows, replayed: Vec::new(), entry };
    world.backend.store.commit_chunk(key, chunk, world.now()).await.unwrap();
}

async fn append(world: &World, key: RunKey, state: &mut IngestState, event: IngestEvent) {
    let entry = state.entry(event.clone()).unwrap();
    state.apply(entry.number(), &event).unwrap();
    world.backend.store.append(key, entry, world.now()).await.unwrap();
}

#[tokio::test]
async fn a_stop_cuts_the_total_to_the_rows_written() {
    let world = World::new();
    let key = world.accept_lines(&lines(100)).await;
    commit_first_ten(&world, key).await;
    world.backend.store.apply(key.job, Command::Stop, world.now()).await.unwrap();
    let stopped = world.view(key).await.latest_run().clone();
    assert_eq!((stopped.run.status, stopped.run.ingest), (RunStatus::Stopped, Some(IngestStatus::Pending)));
    assert_eq!(world.ingest(key).await, End::Over);
    let cut = world.view(key).await.latest_run().clone();
    assert_eq!(
        (cut.run.status, cut.run.ingest, cut.stats.total),
        (RunStatus::Stopped, Some(IngestStatus::Done), 10)
    );
    assert_eq!(world.tasks(key).await.len(), 10);
    assert!(matches!(world.log(key).await.last(), Some(IngestEvent::Cut { total: 10 })));
}

#[tokio::test]
async fn a_stop_calls_an_ingester_even_if_the_message_is_gone() {
    let world = World::new();
    let key = world.accept_lines(&lines(100)).await;
    world.backend.queue.remove(QueueName::Control, 100).await.unwrap();
    world.backend.store.apply(key.job, Command::Stop, world.now()).await.unwrap();
    assert_eq!(
        world.backend.queue.depth(QueueName::Control, Reader::Role, world.now()).await.unwrap().visible,
        1
    );
}

#[tokio::test]
async fn nothing_is_written_to_a_deleted_job() {
    let world = World::new();
    let key = world.accept_lines(&lines(100)).await;
    commit_first_ten(&world, key).await;
    world.backend.store.apply(key.job, Command::Delete, world.now()).await.unwrap();
    assert_eq!(world.ingest(key).await, End::Gone);
    assert_eq!(world.tasks(key).await.len(), 10);
}

#[tokio::test]
async fn a_run_does_not_complete_before_its_list_is_read() {
    let world = World::new();
    let key = world.accept_lines(&lines(100)).await;
    // Nothing is counted and nothing is done: the counts alone would say that it is drained.
    let drained = world.backend.store.apply(key.job, Command::Drained, world.now()).await;
    assert_eq!(drained.unwrap_err(), Error::Refused(Refusal::NotDrained));
    let closed = world.backend.store.apply(key.job, Command::Close, world.now()).await.unwrap();
    assert_eq!(closed.latest_run().run.status, RunStatus::Running);
    assert!(!closed.latest_run().run.latched);
}

#[tokio::test]
async fn an_open_job_takes_tasks_once_its_list_is_read() {
    let world = World::new();
    let text = format!("{}bad\n", lines(10));
    let source = world.stage(text.as_bytes(), ListSpec::Lines, OnInvalidRows::Skip).await;
    let key = world.accept_source(source, true).await;
    let more = || vec![TaskInput::from_url("https://more.example").unwrap()];
    let store = &world.backend.store;
    let refused = store.add_tasks(key.job, more(), false, 1_000, None, world.now()).await;
    assert_eq!(refused.unwrap_err(), Error::Refused(Refusal::Ingesting));
    assert_eq!(world.ingest(key).await, End::Over);
    let done = world.view(key).await;
    assert_eq!((done.job.status, done.latest_run().run.latched), (JobStatus::Open, false));
    store.add_tasks(key.job, more(), true, 1_000, None, world.now()).await.unwrap();
    let indexes: Vec<_> = world.tasks(key).await.iter().map(|task| task.id.index()).collect();
    assert_eq!(indexes, (0..10).chain([11]).collect::<Vec<_>>(), "the rejected row keeps its place");
    assert_eq!(world.view(key).await.latest_run().stats.total, 11);
}
