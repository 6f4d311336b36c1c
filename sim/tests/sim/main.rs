//! The simulation: seeds that hold every invariant, auditors that find every kind of damage, and a faulty backend that obeys
//! the rules in calm weather.

#![expect(clippy::unwrap_used, reason = "in a test, an unwrap that fails is the report")]

mod auditors;
mod auditors_of_repair;
mod damage;
mod flaky;
mod habits;
mod invariants;
mod leftovers;
mod lists;
mod replay;
