use super::*;
use crate::ingest::Source;
use crate::ingest::list::Layout;
use crate::{
    CallerId, Compression, IngestEvent, JobSpec, ListSpec, OnInvalidRows, RunStatus, Staged, UploadId,
    lifecycle,
};

const DAY_MS: i64 = 24 * 3_600_000;

fn run() -> Run {
    let (job, run) = (JobId::from_bytes([1; 16]), RunId::from_bytes([2; 16]));
    lifecycle::accept(job, run, CallerId::from_bytes([3; 16]), JobSpec::default(), false, Timestamp(0)).run
}

/// The state of an ingest in whose log this happened.
fn after(events: &[IngestEvent]) -> IngestState {
    let mut state = IngestState::accepted(Source {
        upload: UploadId::from_bytes([1; 16]),
        staged: Staged::new("uploads/x".into(), 9, "e".into()),
        spec: ListSpec::Lines,
        on_invalid_rows: OnInvalidRows::Skip,
        param_policy: None,
        unknown_fields: Default::default(),
    });
    for event in events {
        state.apply(state.events, event).expect("an event that can come next");
    }
    state
}

fn letter(progress: u32) -> DeadLetter {
    let Run { id, job, .. } = run();
    DeadLetter::new(IngestRef { job, run: id, progress }.to_string(), Timestamp(0))
}

fn given_up() -> IngestEvent {
    IngestEvent::AttemptFailed { error: "the list is not there".into(), dead_lettered: true }
}

fn opened() -> IngestEvent {
    IngestEvent::SourcePinned { compression: Compression::None, layout: Layout::Lines }
}

#[test]
fn two_messages_for_one_ingest_are_one_letter() {
    assert_eq!(letter(1).id, letter(7).id);
    let unreadable = |body: &str| DeadLetter::new(body.into(), Timestamp(0)).id;
    assert_eq!(unreadable("9:new"), unreadable("9:new"));
    assert_ne!(unreadable("9:new"), unreadable("9:newer"));
}

#[test]
fn what_nobody_needs_is_acknowledged() {
    let ended = after(&[IngestEvent::Cut { total: 0 }]);
    assert_eq!(judge(&letter(1), Some((&run(), &ended)), Timestamp(0)), Verdict::Acknowledge);
    assert_eq!(judge(&letter(1), None, Timestamp(0)), Verdict::Acknowledge, "its job was deleted");
    assert_eq!(may_redrive(&letter(1), Some((&run(), &ended))), Redrive::Acknowledge);
    assert_eq!(may_redrive(&letter(1), None), Redrive::Acknowledge);
}

#[test]
fn what_is_not_at_fault_is_sent_again() {
    let further = after(&[opened()]);
    assert_eq!(judge(&letter(1), Some((&run(), &further)), Timestamp(0)), Verdict::SendAgain);
    let stopped = Run { status: RunStatus::Stopped, ..run() };
    assert_eq!(judge(&letter(1), Some((&stopped, &after(&[given_up()]))), Timestamp(0)), Verdict::SendAgain);
}

#[test]
fn a_poison_list_ends_after_its_redrives_and_says_why() {
    let mut log = vec![given_up()];
    for redriven in 0..limits::REDRIVES_MAX {
        let state = after(&log);
        let letter = letter(state.progress);
        assert_eq!(judge(&letter, Some((&run(), &state)), Timestamp(0)), Verdict::Keep, "{redriven}");
        assert_eq!(may_redrive(&letter, Some((&run(), &state))), Redrive::Send, "{redriven}");
        log.extend([IngestEvent::Redriven, given_up()]);
    }
    let state = after(&log);
    let stale = judge(&letter(1), Some((&run(), &state)), Timestamp(0));
    assert_eq!(stale, Verdict::Acknowledge, "it was sent before the last redrive");
    assert_eq!(may_redrive(&letter(1), Some((&run(), &state))), Redrive::Refuse);
    let last = letter(state.progress);
    let Verdict::FailRun(why) = judge(&last, Some((&run(), &state)), Timestamp(0)) else {
        panic!("it goes on for ever");
    };
    assert!(why.contains("the list is not there"), "{why}");
}

#[test]
fn a_letter_that_was_sent_again_and_is_only_not_gone_yet_fails_nothing() {
    let state = after(&[given_up(), IngestEvent::Redriven, given_up(), IngestEvent::Redriven]);
    assert_eq!(judge(&letter(state.progress), Some((&run(), &state)), Timestamp(99 * DAY_MS)), Verdict::Keep);
    assert_eq!(judge(&letter(1), Some((&run(), &state)), Timestamp(0)), Verdict::Acknowledge);
}

#[test]
fn progress_makes_it_count_anew() {
    let state = after(&[given_up(), IngestEvent::Redriven, opened(), given_up()]);
    assert_eq!((state.redrives, state.dead_lettered), (0, true));
    assert_eq!(judge(&letter(state.progress), Some((&run(), &state)), Timestamp(0)), Verdict::Keep);
}

#[test]
fn a_letter_that_nobody_cares_about_fails_its_run_in_the_end() {
    let state = after(&[given_up()]);
    let at = |ms| judge(&letter(1), Some((&run(), &state)), Timestamp(ms));
    assert_eq!(at(14 * DAY_MS - 1), Verdict::Keep);
    assert!(matches!(at(14 * DAY_MS), Verdict::FailRun(_)));
}

#[test]
fn a_message_that_nobody_can_read_is_kept_and_sent_again_twice_at_most() {
    let mut unreadable = DeadLetter::new("9:a message of a later version".into(), Timestamp(0));
    assert_eq!(judge(&unreadable, None, Timestamp(14 * DAY_MS - 1)), Verdict::Keep);
    assert_eq!(judge(&unreadable, None, Timestamp(14 * DAY_MS)), Verdict::Acknowledge);
    for _ in 0..limits::REDRIVES_MAX {
        assert_eq!(may_redrive(&unreadable, None), Redrive::Send);
        unreadable.redrives += 1;
    }
    assert_eq!(may_redrive(&unreadable, None), Redrive::Refuse);
}

#[test]
fn only_a_dead_letter_can_be_redriven() {
    let state = after(&[]);
    assert!(state.entry(IngestEvent::Redriven).is_err());
    assert!(after(&[given_up()]).entry(IngestEvent::Redriven).is_ok());
}
