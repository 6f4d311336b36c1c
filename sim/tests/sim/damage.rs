//! Damage done to the data of a simulation, and what its auditors make of it.

use conveyor_sim::{Faults, Rule, Settings, Simulation};
use rusqlite::Connection;
use std::ops::Range;

/// As many as it takes to find one with something to damage.
const SEEDS: Range<u64> = 3..40;
const STEPS: u64 = 250;

/// A simulation in the middle of its work, with jobs in most states and nothing wrong so far.
pub async fn underway(seed: u64) -> Simulation {
    let mut simulation = Simulation::new(seed, Settings::new(0)).unwrap();
    simulation.steps(STEPS).await.unwrap_or_else(|failure| panic!("{failure}"));
    simulation.audit().await.unwrap_or_else(|failure| panic!("{failure}"));
    simulation
}

pub fn open(simulation: &Simulation) -> Connection {
    Connection::open(simulation.data_dir().join("conveyor.db")).unwrap()
}

/// A simulation that has something for this statement to damage, damaged.
pub async fn damaged(sql: &str) -> (u64, Simulation) {
    for seed in SEEDS {
        let simulation = underway(seed).await;
        if open(&simulation).execute(sql, []).unwrap() > 0 {
            return (seed, simulation);
        }
    }
    panic!("there was nothing to damage: {sql}");
}

/// Does the damage and returns which rule the next audit finds broken.
pub async fn found_after(sql: &str) -> Rule {
    let (seed, mut simulation) = damaged(sql).await;
    let failure = simulation.audit().await.expect_err("the damage was not found");
    let text = failure.to_string();
    let (where_, again) = (format!("seed {seed}, step {STEPS}:"), format!("sim replay --seed {seed} "));
    assert!(text.contains(&where_) && text.contains(&again), "{text}");
    failure.violation.rule
}

/// Plays seeds on a store with a defect until it shows.
pub async fn found_with(defect: &str) -> Rule {
    found_in(defect, SEEDS, Faults { duplicate: 0.2, ..Faults::default() }).await
}

pub async fn found_in(defect: &str, seeds: Range<u64>, faults: Faults) -> Rule {
    for seed in seeds {
        let mut simulation = Simulation::new(seed, Settings { faults, ..Settings::new(0) }).unwrap();
        open(&simulation).execute_batch(defect).unwrap();
        let played = match simulation.steps(STEPS).await {
            Ok(()) => simulation.drain().await,
            failed => failed,
        };
        if let Err(failure) = played {
            return failure.violation.rule;
        }
    }
    panic!("the defect was not found: {defect}");
}
