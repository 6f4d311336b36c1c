use super::*;
use proptest::prelude::*;

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
        assert_eq!(failure.word(), "ingest_failed");
        assert_eq!(failure.cause(), format!("{fault}: it ends in the middle"));
    }
    let long = of_list(ListFault::SourceTruncated, &"x".repeat(limits::FAILURE_DETAIL_MAX_CHARS));
    assert_eq!(long.cause().chars().count(), limits::FAILURE_DETAIL_MAX_CHARS);
    assert!(long.cause().starts_with("source_truncated: xx"));
    let account = FailureReason::Account(AccountFault::InsufficientCredits);
    let of_account = RunFailure { reason: account, detail: "None are left.".to_owned() };
    assert_eq!((of_account.word(), of_account.cause().as_ref()), ("insufficient_credits", "None are left."));
}

/// As an earlier version wrote it; it says what it said.
#[test]
fn stored_failures_keep_their_codes() {
    let stored = r#"{"reason":"source_truncated","detail":"it ends in the middle"}"#;
    let failure: RunFailure = serde_json::from_str(stored).unwrap();
    assert_eq!(failure.reason, FailureReason::List(ListFault::SourceTruncated));
    assert_eq!(serde_json::to_string(&failure).unwrap(), stored);
}
