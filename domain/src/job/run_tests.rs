use super::*;
use crate::{CallerId, JobSpec, lifecycle};
use proptest::prelude::*;

fn ingesting(expected: Option<Expected>) -> Run {
    let (job, run) = (JobId::from_bytes([1; 16]), RunId::from_bytes([2; 16]));
    let caller = CallerId::from_bytes([3; 16]);
    let mut run = lifecycle::accept(job, run, caller, JobSpec::default(), false, Timestamp(0)).run;
    run.doc.expected = expected;
    run
}

fn stats(total: u32, successful: u32) -> RunStats {
    RunStats { total, counts: Counts { successful, ..Counts::default() }, ..RunStats::default() }
}

fn shown(run: &Run, total: u32, completed: u32) -> (u32, bool) {
    let ShownTotal { total, is_final } = run.shown_total(&stats(total, completed));
    (total, is_final)
}

proptest! {
    /// Whatever was written and done by now: a total that is not final is never reached, and one that is final does not move
    /// until the list is read.
    #[test]
    fn nobody_sees_a_run_done_whose_list_is_still_read(
        all in 1_u32..1_000,
        written in 0_u32..=1_000,
        done in 0_u32..=1_000,
        known in prop::option::of((0_u32..=1_000, any::<bool>())),
    ) {
        let written = written.min(all);
        let done = done.min(written);
        let expected = known.map(|(tasks, exact)| Expected { tasks: if exact { all } else { tasks.min(all) }, exact });
        let (total, is_final) = shown(&ingesting(expected), written, done);
        prop_assert!(total >= written && total >= done);
        prop_assert_eq!(is_final, known.is_some_and(|(_, exact)| exact));
        if is_final {
            prop_assert_eq!(total, all);
        } else {
            prop_assert!(done < total);
        }
        let mut read = ingesting(expected);
        read.ingest = Some(IngestStatus::Done);
        prop_assert_eq!(shown(&read, all, done), (all, true));
    }
}

#[test]
fn a_count_that_is_wrong_ends_nothing_early() {
    let exact = |tasks| ingesting(Some(Expected { tasks, exact: true }));
    assert_eq!(shown(&exact(5), 6, 6), (7, false), "there are more than were counted");
    assert_eq!(shown(&exact(0), 0, 0), (1, false), "a list without a task fails its run");
    assert_eq!(shown(&exact(5), 5, 5), (5, true));
}

#[test]
fn a_run_that_ended_has_what_was_written() {
    let mut run = ingesting(Some(Expected { tasks: 100, exact: true }));
    run.status = RunStatus::Stopped;
    assert_eq!(shown(&run, 40, 40), (40, true));
}

#[test]
fn what_is_expected_is_left_out_where_nothing_is() {
    assert_eq!(serde_json::to_string(&RunDoc::default()).unwrap(), "{}");
    let doc = RunDoc { expected: Some(Expected { tasks: 7, exact: true }), ..RunDoc::default() };
    let stored = r#"{"expected":{"tasks":7,"exact":true}}"#;
    assert_eq!(serde_json::to_string(&doc).unwrap(), stored);
    assert_eq!(serde_json::from_str::<RunDoc>(stored).unwrap(), doc);
    assert_eq!(serde_json::from_str::<RunDoc>("{}").unwrap(), RunDoc::default());
}

proptest! {
    #[test]
    fn readers_never_see_more_done_than_there_is(
        total: u32, successful: u32, failed: [u32; 7], small in 0u32..20, few: [u8; 7],
    ) {
        let few = few.map(|n| u32::from(n % 4));
        for (total, successful, failed) in [(total, successful, failed), (small, successful % 20, few)] {
            let stats = RunStats { total, counts: Counts { successful, failed }, spend: Spend::default() };
            let shown = stats.shown();
            prop_assert!(!shown.is_inconsistent());
            prop_assert!(shown.counts.completed() <= shown.total);
            prop_assert_eq!(shown.total, total);
            prop_assert_eq!(shown == stats, !stats.is_inconsistent(), "what can be true is shown as it is");
            prop_assert!(shown.counts.successful <= successful);
            prop_assert!(shown.counts.failed.iter().zip(failed).all(|(shown, stored)| *shown <= stored));
            if stats.is_inconsistent() {
                prop_assert_eq!(shown.counts.completed(), total);
            }
        }
    }
}

#[test]
fn successes_give_way_to_failures() {
    let counts = Counts { successful: 500, failed: [0, 7, 0, 0, 0, 0, 0] };
    let shown = RunStats { total: 500, counts, spend: Spend::default() }.shown();
    assert_eq!((shown.counts.successful, shown.counts.failed_total()), (493, 7));
}

#[test]
fn callers_get_the_words_that_clients_know() {
    let of_list =
        |fault, detail: &str| RunFailure { reason: FailureReason::List(fault), detail: detail.to_owned() };
    for fault in ListFault::ALL {
        let failure = of_list(fault, "it ends in the middle");
        assert_eq!(failure.shown().as_str(), "ingest_failed");
        assert_eq!(failure.cause(), format!("{fault}: it ends in the middle"));
    }
    let long = of_list(ListFault::SourceTruncated, &"x".repeat(limits::FAILURE_DETAIL_MAX_CHARS));
    assert_eq!(long.cause().chars().count(), limits::FAILURE_DETAIL_MAX_CHARS);
    assert!(long.cause().starts_with("source_truncated: xx"));
    let account = FailureReason::Account(AccountFault::InsufficientCredits);
    let of_account = RunFailure { reason: account, detail: "None are left.".to_owned() };
    assert_eq!(
        (of_account.shown().as_str(), of_account.cause().as_ref()),
        ("insufficient_credits", "None are left.")
    );
}

/// As an earlier version wrote it; it says what it said.
#[test]
fn stored_failures_keep_their_codes() {
    let stored = r#"{"reason":"source_truncated","detail":"it ends in the middle"}"#;
    let failure: RunFailure = serde_json::from_str(stored).unwrap();
    assert_eq!(failure.reason, FailureReason::List(ListFault::SourceTruncated));
    assert_eq!(serde_json::to_string(&failure).unwrap(), stored);
}
