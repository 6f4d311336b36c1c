use super::*;
use std::time::Duration;

const START: Timestamp = Timestamp(1_000_000);

fn new() -> Export {
    let (id, job) = (ExportId::from_bytes([1; 16]), JobId::from_bytes([2; 16]));
    Export::new(id, job, RunId::from_bytes([3; 16]), ExportFormat::Zip, START)
}

fn built(export: &Export, now: Timestamp) -> Export {
    match export.next(now) {
        Next::Build(taken) => taken,
        other => panic!("{other:?}"),
    }
}

fn later(seconds: u64) -> Timestamp {
    START.after(Duration::from_secs(seconds))
}

#[test]
fn a_new_one_is_due_at_once_and_taken_by_one() {
    let export = new();
    assert_eq!(export.due(), START);
    assert!(matches!(export.state, State::Pending { .. }));
    let taken = built(&export, START);
    assert_eq!((taken.tries, taken.due()), (1, START.after(limits::EXPORT_LEASE)));
    assert_eq!(taken.next(START), Next::Wait, "somebody has it");
}

#[test]
fn a_lease_that_only_a_wrong_clock_can_have_given_is_none() {
    const DAYS_60: u64 = 60 * 24 * 3600;
    let (running, waiting) = (
        new().renewed(Progress::default(), later(DAYS_60)),
        built(&new(), START).put_off("x", later(DAYS_60)),
    );
    for export in [running, waiting] {
        assert_eq!(built(&export, later(1)).due(), later(1).after(limits::EXPORT_LEASE));
        assert_eq!(
            Export { created: later(DAYS_60), ..export }.next(later(DAYS_60)),
            Next::Wait,
            "it is right"
        );
    }
}

#[test]
fn a_lease_that_is_renewed_does_not_lapse() {
    let taken = built(&new(), START);
    let progress = Progress { tasks_done: 1, tasks_total: 2, bytes: 3 };
    let renewed = taken.renewed(progress, later(20));
    assert_eq!(renewed.next(later(31)), Next::Wait);
    assert_eq!(built(&renewed, later(50)).progress, Progress::default(), "another begins anew");
}

#[test]
fn who_dies_three_times_has_it_fail() {
    let (mut export, mut now) = (new(), START);
    for tries in 1..=limits::EXPORT_TRIES_MAX {
        export = built(&export, now);
        assert_eq!(export.tries, tries);
        now = now.after(limits::EXPORT_LEASE);
    }
    let Next::GiveUp(failed) = export.next(now) else { panic!("{export:?}") };
    let error = "given up after 3 tries: nobody who began it lived to finish it";
    assert_eq!(failed.state, State::Failed { error: error.to_owned() });
    assert_eq!(failed.due(), new().expires());
}

#[test]
fn trouble_is_told_once_there_is_no_other_try() {
    let (mut export, mut now) = (new(), START);
    for _ in 1..limits::EXPORT_TRIES_MAX {
        export = built(&export, now).put_off("the disk is full", now);
        assert_eq!(export.next(now), Next::Wait, "a while later");
        now = export.due();
    }
    let last = built(&export, now).put_off("the disk is full", now);
    let error = "given up after 3 tries: the disk is full".to_owned();
    assert_eq!(last.state, State::Failed { error });
}

#[test]
fn a_try_that_was_given_back_does_not_count() {
    let mut export = new();
    for _ in 0..20 {
        export = built(&export, START).given_back(START);
    }
    assert_eq!(export, new());
}

#[test]
fn whatever_it_is_it_is_gone_after_twelve_hours() {
    let end = START.after(limits::EXPORT_TTL);
    let before = Timestamp(end.0 - 1);
    let taken = built(&new(), START);
    let late = built(&new(), before);
    let states = [new(), taken.completed("o".into(), 1, 1), taken.failed("no"), taken, late];
    for export in states {
        assert!(export.is_there(before) && !export.is_there(end), "{export:?}");
        assert!(export.due() <= end, "somebody looks then: {export:?}");
        assert_eq!(export.next(end), Next::Remove, "{export:?}");
    }
}

#[test]
fn one_that_was_removed_is_not_there_and_goes_at_once() {
    let removed = built(&new(), START).removed(later(1));
    assert!(!removed.is_there(later(1)));
    assert_eq!((removed.due(), removed.next(later(1))), (later(1), Next::Remove));
}

#[test]
fn what_is_over_waits_for_its_end() {
    let taken = built(&new(), START);
    for over in [taken.completed("o".into(), 9, 2), taken.failed("no")] {
        assert!(over.is_over());
        assert_eq!((over.due(), over.next(later(60))), (over.expires(), Next::Wait));
    }
    let done = taken.completed("o".into(), 9, 2).progress;
    assert_eq!(done, Progress { tasks_done: 2, tasks_total: 2, bytes: 9 });
}

#[test]
fn the_text_of_one_that_is_too_large_names_the_limit() {
    assert_eq!(too_large(limits::EXPORT_MAX_BYTES), "results are larger than 100 gb");
    assert_eq!(too_large(1 << 29), "results are larger than 0.500 gb");
}

#[test]
fn stored_means_frozen() {
    let doc = r#"{"id":"0W1061R40G41040820G20G41R4","job":"00000000000000000000000001","run":"00000000000000000000000002","created":5,"state":"completed","object":"jobs/x","size":7}"#;
    let doc = doc.replace("0W1061R40G41040820G20G41R4", &ExportId::from_bytes([1; 16]).to_string());
    let export: Export = serde_json::from_str(&doc).unwrap();
    assert_eq!((export.format, export.tries), (ExportFormat::Zip, 0));
    assert!(matches!(export.state, State::Completed { .. }));
    for export in [new(), built(&new(), START), new().removed(START), new().put_off("t", START)] {
        let record = export.record(&Entropy::from_number(1));
        assert_eq!(record.parse::<Export>().unwrap(), export);
        assert_eq!(record.due, Some(export.due()));
    }
}

#[test]
fn text_is_never_a_formula() {
    for formula in ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "=HYPERLINK(\"http://a\",\"b\")"] {
        assert_eq!(inert(formula), format!("'{formula}"));
    }
    for plain in ["", "plain", "a,b", "say \"x\"", "a\nb", "a=b"] {
        assert_eq!(inert(plain), plain);
    }
}
