//! Seeds that hold every invariant of SPEC 3, in fair weather and foul.

use conveyor_sim::{Settings, Summary, play_many};
use std::ops::Range;

/// More than there are cores: most of the time goes into waiting for the disk.
const THREADS: u64 = 6;

/// Every violation, not only the first: they often have one cause.
fn play_all(seeds: Range<u64>, settings: Settings) -> Summary {
    let (mut summary, mut failures) = (Summary::default(), Vec::new());
    play_many(seeds, THREADS, settings, |outcome| match outcome {
        Ok(played) => summary = summary.plus(played),
        Err(failure) => failures.push(failure.to_string()),
    });
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    summary
}

#[test]
fn many_seeds_hold_every_invariant() {
    let summary = play_all(0..30, Settings::new(400));
    // A simulation in which nothing goes wrong proves nothing.
    for (what, count, least) in [
        ("crashes", summary.crashes, 10),
        ("worker deaths", summary.worker_deaths, 10),
        ("ingester deaths", summary.ingester_deaths, 10),
        ("lost answers", summary.lost_answers, 100),
        ("duplicates", summary.duplicates, 200),
        ("replays", summary.replays, 200),
        ("pauses", summary.pauses, 15),
        ("changes of limits", summary.limits_changed, 30),
        ("starts", summary.starts, 300),
        ("deleted runs", summary.runs_deleted, 15),
        ("submits of what is gone", summary.late_submits, 100),
        ("settled tasks", summary.tasks_settled, 1_000),
        ("chunks", summary.chunks, 100),
        ("lists read", summary.lists_read, 30),
        ("lists failed", summary.lists_failed, 10),
        ("lists cut", summary.lists_cut, 2),
        ("steps that another took first", summary.lost_steps, 10),
    ] {
        assert!(count >= least, "only {count} {what}: {summary:?}");
    }
}

#[test]
fn foul_weather_costs_time_and_no_data() {
    play_all(1_000..1_006, Settings::new(300).with_fault_rate(5.0));
}

#[test]
fn without_faults_nothing_is_delivered_in_vain() {
    let summary = play_all(2_000..2_002, Settings::new(300).with_fault_rate(0.0));
    assert_eq!((summary.crashes, summary.worker_deaths, summary.lost_answers), (0, 0, 0));
    assert!(summary.tasks_settled > 50 && summary.lists_read > 0, "{summary:?}");
}
