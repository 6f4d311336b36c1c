//! A list whose ingest fails every time: it ends as a dead letter, is redriven twice, and then its run fails and says why
//! (SPEC 6.15).

use super::roles::{Role, Roles, World};
use super::runs;
use conveyor_domain::repair::dead_letter::Redriven;
use conveyor_domain::{Command, DeadLetter, IngestEvent, IngestState, JobStatus, RunStatus, Timestamp};
use conveyor_store::port::{Reader, RunKey};
use conveyor_sweeper::Scope;
use conveyor_testkit::eventually as until;

/// A message is received five times. A try that takes longer than it is hidden is one of them without a word; and if the last
/// was, the ingest is called again, three times at most, before the log says that it was given up.
const TRIES_A_ROUND: usize = 21;

async fn letter_of(world: &World, key: RunKey) -> Option<DeadLetter> {
    let letters = world.backend.store.letters(None, 10).await.unwrap();
    letters.into_iter().find(|letter| letter.ingest().unwrap().run == key.run)
}

async fn has_ended(world: &World, key: RunKey) -> Option<()> {
    let view = world.backend.store.run(key.job, key.run).await.unwrap().unwrap();
    view.run.status.is_terminal().then_some(())
}

async fn state(world: &World, key: RunKey) -> IngestState {
    let ingest = world.backend.store.ingest(key, Reader::Role).await.unwrap().unwrap();
    IngestState::fold(&ingest.log).unwrap()
}

async fn log(world: &World, key: RunKey) -> Vec<(Timestamp, IngestEvent)> {
    let ingest = world.backend.store.ingest(key, Reader::Role).await.unwrap().unwrap();
    ingest.log.into_iter().skip(1).map(|entry| (entry.at, entry.event)).collect()
}

async fn tries(world: &World, key: RunKey) -> usize {
    let ingest = world.backend.store.ingest(key, Reader::Role).await.unwrap().unwrap();
    ingest.log.iter().filter(|entry| matches!(entry.event, IngestEvent::AttemptFailed { .. })).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poison_list_ends_says_why_and_does_not_loop() {
    let world = World::open("poison").await;
    let (key, object) = runs::accept(&world, "https://example.com/\n".repeat(20)).await;
    world.backend.blobs.delete(&object).await.unwrap();
    let roles = Roles::start(&world, &[Role::Ingester, Role::Sweeper]);

    for redriven in 0..2 {
        let letter = until("it waits for an operator", async || letter_of(&world, key).await).await;
        let given_up = async || Some(state(&world, key).await).filter(|state| state.dead_lettered);
        let seen = until("the log says so", given_up).await;
        assert_eq!(seen.redrives, redriven, "{seen:?}");
        let (tried, rounds) = (tries(&world, key).await, redriven as usize + 1);
        assert!((rounds..=TRIES_A_ROUND * rounds).contains(&tried), "{:?}", log(&world, key).await);
        assert!(seen.last_error.is_some(), "the log says why");
        // Two operators at once: one message.
        let (one, other) = tokio::join!(world.redrive(letter.id), world.redrive(letter.id));
        let sent = [one, other].into_iter().filter(|done| *done == Some(Redriven::Sent)).count();
        assert_eq!(sent, 1, "redriven once");
    }
    until("the run fails instead of waiting for ever", async || has_ended(&world, key).await).await;
    let run = world.backend.store.job(None, key.job).await.unwrap().unwrap().latest.unwrap();
    let failure = run.run.failure.clone().expect("a reason");
    assert_eq!(
        (run.run.status, failure.reason.as_str()),
        (RunStatus::Failed, "ingest_failed"),
        "{failure:?}"
    );
    assert!(failure.detail.contains(&state(&world, key).await.last_error.unwrap()), "{failure:?}");

    // Nothing is left that could go on, and the job can be deleted.
    world.reconcile_until_quiet(Scope::All).await;
    assert!(world.backend.store.letters(None, 10).await.unwrap().is_empty());
    let tried = tries(&world, key).await;
    let deleted = world.backend.store.apply(key.job, Command::Delete, world.clock.now()).await.unwrap();
    assert_eq!(deleted.job.status, JobStatus::Deleted);
    assert!(tried <= 3 * TRIES_A_ROUND, "{tried} tries");
    roles.stop().await;
}
