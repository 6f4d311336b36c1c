//! Workers that break the protocol: those that cost data or limits are caught, one that only costs messages is made up for.

use conveyor_sim::{Failure, Faults, Habits, Rule, Settings, play};
use std::ops::Range;

/// The first violation that seeds with these habits lead to.
fn caught(mut seeds: Range<u64>, settings: Settings) -> Box<Failure> {
    seeds.find_map(|seed| play(seed, settings).err()).expect("the habit was not caught")
}

#[test]
fn settling_before_storing_the_body_is_caught() {
    let habits = Habits { stores_last: true, ..Habits::default() };
    let faults = Faults { worker_death: 0.1, ..Faults::NONE };
    let failure = caught(0..40, Settings { habits, faults, ..Settings::new(300) });
    assert_eq!(failure.violation.rule, Rule::Durable, "{failure}");
    assert!(failure.violation.text.contains("body"), "{failure}");
}

#[test]
fn using_permits_that_were_given_back_is_caught() {
    let habits = Habits { keeps_permits: true, ..Habits::default() };
    // It asks again soon; only who looks at every step sees what it believes until then.
    let faults = Faults { lost_answer: 0.2, ..Faults::NONE };
    let failure = caught(0..10, Settings { habits, faults, audit_every: 1, ..Settings::new(300) });
    assert_eq!(failure.violation.rule, Rule::Limits, "{failure}");
}

/// SPEC 3.4: whatever happens to messages costs time, never data.
#[test]
fn acknowledging_before_settling_costs_no_data() {
    let habits = Habits { acks_first: true, ..Habits::default() };
    let faults = Faults { worker_death: 0.1, ..Faults::NONE };
    for seed in 0..3 {
        let played = play(seed, Settings { habits, faults, ..Settings::new(300) });
        played.unwrap_or_else(|failure| panic!("{failure}"));
    }
}
