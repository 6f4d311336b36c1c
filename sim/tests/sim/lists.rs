//! Lists under faults that strike their ingest more than anything else.

use conveyor_sim::{Faults, Settings, Summary, play_many};
use std::ops::Range;

const THREADS: u64 = 6;

fn play_all(seeds: Range<u64>, faults: Faults) -> Summary {
    let (mut summary, mut failures) = (Summary::default(), Vec::new());
    play_many(seeds, THREADS, Settings { faults, ..Settings::new(300) }, |outcome| match outcome {
        Ok(played) => summary = summary.plus(played),
        Err(failure) => failures.push(failure.to_string()),
    });
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    summary
}

/// SPEC 6.11: who gives up on a list says so, and it can be redriven or stopped.
#[test]
fn a_list_that_nobody_could_read_is_left_to_an_operator() {
    let faults = Faults { outage: 0.1, ..Faults::NONE };
    let summary = play_all(3_006..3_014, faults);
    assert!(summary.given_up > 0, "{summary:?}");
}
