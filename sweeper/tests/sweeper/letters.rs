//! Messages that were received too often, and what operators do about them (SPEC 6.15).

use crate::harness::{DAY, Damaged, SECOND};
use conveyor_domain::ingest::list::Layout;
use conveyor_domain::repair::dead_letter::{LetterFilter, LetterView, Redriven, Verdict};
use conveyor_domain::repair::{Outcome, Subject};
use conveyor_domain::{
    Command, Compression, DeadLetter, IngestEvent, IngestRef, LetterId, QueueName, RunStatus, limits,
};
use conveyor_store::port::RunKey;
use conveyor_store::{Error, Result};

use conveyor_sweeper::{Scope, Sweep, letters};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Receives a control message until it is a dead letter, as ingesters that are killed each time do.
async fn kill_ingesters(damaged: &Damaged) {
    for _ in 0..=limits::CONTROL_MAX_RECEIVES {
        let (queue, now) = (&damaged.backend().queue, damaged.world.now());
        queue.receive(QueueName::Control, 10, Duration::from_secs(1), now).await.unwrap();
        damaged.pass(SECOND);
    }
    assert_eq!(damaged.depth(QueueName::Control).await, 0);
}

/// However often it is called again because nobody lived to say why it came to nothing.
async fn kill_every_ingester(damaged: &Damaged) {
    for _ in 0..limits::INGEST_RESENDS_MAX {
        kill_ingesters(damaged).await;
        damaged.sweep().await;
    }
    kill_ingesters(damaged).await;
}

async fn kept(damaged: &Damaged) -> Vec<DeadLetter> {
    damaged.backend().store.letters(None, 100).await.unwrap()
}

async fn redrive(damaged: &Damaged, letter: LetterId) -> Result<Option<Redriven>> {
    let stop = CancellationToken::new();
    letters::redrive(&Sweep::new(damaged.backend(), damaged.clock.as_ref(), &stop), letter).await
}

async fn purge(damaged: &Damaged, letter: LetterId) -> Result<bool> {
    let stop = CancellationToken::new();
    letters::purge(&Sweep::new(damaged.backend(), damaged.clock.as_ref(), &stop), letter).await
}

async fn shown(damaged: &Damaged, letter: LetterId) -> LetterView {
    letters::show(damaged.backend(), letter, damaged.world.now()).await.unwrap().unwrap()
}

/// A run whose message is a letter by now.
async fn given_up(damaged: &Damaged) -> (RunKey, LetterId) {
    let key = damaged.accepted().await;
    kill_every_ingester(damaged).await;
    damaged.is_mended_by_a_sweep().await;
    let letters = kept(damaged).await;
    let letter = letters.iter().find(|letter| letter.ingest().is_some_and(|message| message.run == key.run));
    (key, letter.unwrap().id)
}

async fn run_status(damaged: &Damaged, key: RunKey) -> RunStatus {
    damaged.world.view(key).await.latest_run().run.status
}

#[tokio::test]
async fn a_message_that_killed_every_ingester_is_kept_for_an_operator() {
    let damaged = Damaged::new();
    let key = damaged.accepted().await;
    kill_every_ingester(&damaged).await;
    assert_eq!(damaged.depth(QueueName::ControlDead).await, 1);
    let finding = damaged.only_damage("dead_letters").await;
    assert_eq!(finding.subject, Subject::Queue(QueueName::ControlDead));
    assert_eq!(finding.why, "1 control messages were received 5 times");
    damaged.is_mended_by_a_sweep().await;
    assert_eq!(damaged.depth(QueueName::ControlDead).await, 0);
    let view = shown(&damaged, kept(&damaged).await[0].id).await;
    assert_eq!((view.job, view.run, view.redrives), (Some(key.job), Some(key.run), 0));
    assert_eq!(view.verdict, Verdict::Keep);
    let said = view.last_error.unwrap();
    assert_eq!(said, "received 20 times, and no ingester lived to say why");
    // An audit of its run, and every reconciliation, go on naming it: nobody else can do anything about it.
    let finding = damaged.audit(key).await.findings.remove(0);
    assert_eq!((finding.repair, finding.fixable), ("dead_letters", false));
    assert!(finding.why.contains(&said), "{}", finding.why);
    let reconciled = damaged.reconcile(Scope::All, false).await;
    assert_eq!(reconciled.findings, [(finding, Outcome::NeedsOperator)]);
    damaged.pass(DAY);
    damaged.sweep().await;
    assert_eq!((kept(&damaged).await.len(), damaged.depth(QueueName::Control).await), (1, 0));
}

#[tokio::test]
async fn two_messages_for_one_run_are_one_letter() {
    let damaged = Damaged::new();
    let key = damaged.accepted().await;
    let message = IngestRef { job: key.job, run: key.run, progress: 1 }.to_string();
    damaged.backend().queue.send(QueueName::Control, vec![message], damaged.world.now()).await.unwrap();
    kill_ingesters(&damaged).await;
    // The last of them lived long enough to say so.
    let given_up = IngestEvent::AttemptFailed { error: "no disk".into(), dead_lettered: true };
    let entry = damaged.state(key).await.entry(given_up).unwrap();
    damaged.backend().store.append(key, entry, damaged.world.now()).await.unwrap();
    assert_eq!(damaged.depth(QueueName::ControlDead).await, 2);
    damaged.is_mended_by_a_sweep().await;
    assert_eq!((kept(&damaged).await.len(), damaged.depth(QueueName::ControlDead).await), (1, 0));
}

#[tokio::test]
async fn a_letter_can_be_redriven_twice_and_then_its_run_fails() {
    let damaged = Damaged::new();
    let (key, letter) = given_up(&damaged).await;
    for round in 1..=limits::REDRIVES_MAX {
        assert_eq!(redrive(&damaged, letter).await, Ok(Some(Redriven::Sent)));
        let state = damaged.state(key).await;
        assert_eq!((state.redrives, state.resends, state.failures), (round, 0, 0), "it counts anew");
        assert_eq!((kept(&damaged).await.len(), damaged.depth(QueueName::Control).await), (0, 1));
        assert_eq!(redrive(&damaged, letter).await, Ok(None), "the letter is gone");
        assert_eq!(run_status(&damaged, key).await, RunStatus::Running);
        kill_every_ingester(&damaged).await;
        damaged.is_mended_by_a_sweep().await;
    }
    let run = damaged.world.view(key).await.latest_run().run.clone();
    let failure = run.failure.unwrap();
    assert_eq!((run.status, failure.reason.as_str()), (RunStatus::Failed, "ingest_failed"));
    assert!(failure.detail.starts_with("given up after 3 rounds of tries"), "{}", failure.detail);
    assert_eq!(kept(&damaged).await, []);
}

#[tokio::test]
async fn a_third_redrive_is_refused() {
    let damaged = Damaged::new();
    let (key, letter) = given_up(&damaged).await;
    for _ in 0..limits::REDRIVES_MAX {
        redrive(&damaged, letter).await.unwrap();
        damaged.lose_messages(QueueName::Control);
        // By hand, as an ingester and half a sweep do: a whole one would go on, and fail the run for the last of them.
        let (state, now) = (damaged.state(key).await, damaged.world.now());
        let again = IngestEvent::AttemptFailed { error: "no disk".into(), dead_lettered: true };
        damaged.backend().store.append(key, state.entry(again).unwrap(), now).await.unwrap();
        let message = IngestRef { job: key.job, run: key.run, progress: state.progress };
        damaged.backend().store.keep_letter(DeadLetter::new(message.to_string(), now)).await.unwrap();
    }
    assert_eq!(redrive(&damaged, letter).await, Ok(Some(Redriven::Refused)));
    assert_eq!((damaged.calls().await, damaged.state(key).await.redrives), (vec![], limits::REDRIVES_MAX));
}

/// An operator who is cut off before the letter goes must not cost the run the tries that it was just given.
#[tokio::test]
async fn a_letter_that_was_sent_again_and_is_not_gone_yet_fails_nothing() {
    let damaged = Damaged::new();
    let (key, letter) = given_up(&damaged).await;
    for round in 1..=limits::REDRIVES_MAX {
        let row = damaged.backend().store.letter(letter).await.unwrap().unwrap();
        redrive(&damaged, letter).await.unwrap();
        damaged.backend().store.keep_letter(row).await.unwrap();
        assert_eq!(shown(&damaged, letter).await.verdict, Verdict::Acknowledge);
        assert!(matches!(
            redrive(&damaged, letter).await,
            Err(Error::Conflict(_)) | Ok(Some(Redriven::Refused))
        ));
        damaged.sweep().await;
        assert_eq!(kept(&damaged).await, [], "another message was sent in its place");
        assert_eq!(run_status(&damaged, key).await, RunStatus::Running, "round {round}");
        kill_every_ingester(&damaged).await;
        damaged.is_mended_by_a_sweep().await;
    }
    assert_eq!((run_status(&damaged, key).await, kept(&damaged).await), (RunStatus::Failed, vec![]));
}

#[tokio::test]
async fn a_purged_letter_fails_its_run() {
    let damaged = Damaged::new();
    let (key, letter) = given_up(&damaged).await;
    assert_eq!(purge(&damaged, letter).await, Ok(true));
    let run = damaged.world.view(key).await.latest_run().run.clone();
    assert_eq!((run.status, run.failure.unwrap().reason.as_str()), (RunStatus::Failed, "ingest_failed"));
    assert_eq!((kept(&damaged).await, purge(&damaged, letter).await), (vec![], Ok(false)));
    assert_eq!(damaged.damage().await, []);
}

#[tokio::test]
async fn a_letter_that_nobody_decides_about_fails_its_run_after_two_weeks() {
    let damaged = Damaged::new();
    let (key, _) = given_up(&damaged).await;
    damaged.pass(14 * DAY);
    let finding = damaged.only_damage("dead_letters").await;
    assert!(finding.remedy.starts_with("fails the run: nobody sent it again in time"), "{}", finding.remedy);
    damaged.is_mended_by_a_sweep().await;
    assert_eq!((run_status(&damaged, key).await, kept(&damaged).await), (RunStatus::Failed, vec![]));
}

#[tokio::test]
async fn a_message_that_was_not_at_fault_is_sent_again_by_itself() {
    let damaged = Damaged::new();
    let key = damaged.accepted().await;
    kill_ingesters(&damaged).await;
    let opened = IngestEvent::SourcePinned { compression: Compression::None, layout: Layout::Lines };
    let entry = damaged.state(key).await.entry(opened).unwrap();
    damaged.backend().store.append(key, entry, damaged.world.now()).await.unwrap();
    damaged.sweep().await;
    assert_eq!(kept(&damaged).await, []);
    assert_eq!(damaged.calls().await, [IngestRef { job: key.job, run: key.run, progress: 2 }]);
    assert_eq!(damaged.damage().await, []);
}

#[tokio::test]
async fn letters_of_runs_that_ended_or_are_gone_need_nobody() {
    let damaged = Damaged::new();
    let store = &damaged.backend().store;
    let (stopped, _) = given_up(&damaged).await;
    let (_, second) = given_up(&damaged).await;
    let (deleted, _) = given_up(&damaged).await;
    store.apply(stopped.job, Command::Stop, damaged.world.now()).await.unwrap();
    store.apply(deleted.job, Command::Delete, damaged.world.now()).await.unwrap();
    damaged.lose_messages(QueueName::Control);
    damaged.is_mended_by_a_sweep().await;
    assert_eq!(kept(&damaged).await.iter().map(|letter| letter.id).collect::<Vec<_>>(), [second]);
    let call = IngestRef { job: stopped.job, run: stopped.run, progress: 1 };
    assert_eq!(damaged.calls().await, [call], "it has only to be cut");
    assert_eq!(damaged.state(stopped).await.resends, limits::INGEST_RESENDS_MAX + 1);
}

#[tokio::test]
async fn a_message_that_nobody_can_read_is_kept_and_sent_as_it_is_at_most_twice() {
    let damaged = Damaged::new();
    let queue = &damaged.backend().queue;
    queue.send(QueueName::Control, vec!["9:from:the:future".to_owned()], damaged.world.now()).await.unwrap();
    kill_ingesters(&damaged).await;
    damaged.is_mended_by_a_sweep().await;
    let letter = kept(&damaged).await.remove(0);
    assert_eq!((letter.body.as_str(), letter.redrives), ("9:from:the:future", 0));
    let view = shown(&damaged, letter.id).await;
    assert_eq!((view.job, view.run, view.verdict), (None, None, Verdict::Keep));
    for round in 1..=limits::REDRIVES_MAX {
        assert_eq!(redrive(&damaged, letter.id).await, Ok(Some(Redriven::Sent)));
        assert_eq!(damaged.depth(QueueName::Control).await, 1);
        kill_ingesters(&damaged).await;
        damaged.is_mended_by_a_sweep().await;
        assert_eq!(shown(&damaged, letter.id).await.redrives, round);
    }
    assert_eq!(redrive(&damaged, letter.id).await, Ok(Some(Redriven::Refused)));
    damaged.pass(13 * DAY);
    damaged.sweep().await;
    assert_eq!(kept(&damaged).await.len(), 1, "only an operator can tell what it is");
    damaged.pass(DAY);
    damaged.is_mended_by_a_sweep().await;
    assert_eq!(kept(&damaged).await, [], "nobody did");
}

#[tokio::test]
async fn of_two_operators_one_redrives() {
    let damaged = Damaged::new();
    let (key, letter) = given_up(&damaged).await;
    let both = tokio::join!(redrive(&damaged, letter), redrive(&damaged, letter));
    let sent = [&both.0, &both.1].into_iter().filter(|outcome| **outcome == Ok(Some(Redriven::Sent))).count();
    assert_eq!(sent, 1, "{both:?}");
    assert_eq!((damaged.state(key).await.redrives, damaged.depth(QueueName::Control).await), (1, 1));
}

#[tokio::test]
async fn letters_are_listed_by_job_run_and_error() {
    let damaged = Damaged::new();
    let (first, _) = given_up(&damaged).await;
    let (second, _) = given_up(&damaged).await;
    let list = async |filter: LetterFilter, after, limit| {
        letters::list(damaged.backend(), &filter, after, limit, damaged.world.now()).await.unwrap()
    };
    let runs = |views: &[LetterView]| views.iter().filter_map(|view| view.run).collect::<Vec<_>>();
    let all = list(LetterFilter::default(), None, 10).await;
    assert_eq!((all.letters.len(), all.next), (2, None));
    let of = LetterFilter { job: Some(first.job), ..LetterFilter::default() };
    assert_eq!(runs(&list(of, None, 10).await.letters), [first.run]);
    let of = LetterFilter { run: Some(second.run), ..LetterFilter::default() };
    assert_eq!(runs(&list(of, None, 10).await.letters), [second.run]);
    for (part, found) in [("NO INGESTER", 2), ("no disk", 0)] {
        let of = LetterFilter { error: Some(part.to_owned()), ..LetterFilter::default() };
        assert_eq!(list(of, None, 10).await.letters.len(), found, "{part}");
    }
    let one = list(LetterFilter::default(), None, 1).await;
    let other = list(LetterFilter::default(), one.next, 1).await;
    assert_eq!([one.letters, other.letters].concat(), all.letters);
    assert_eq!(other.next, None);
}
