//! A deterministic simulation: callers, workers, ingesters and the sweeper take turns on the real embedded store, with
//! faults between and inside their steps, while auditors hold what they see against the invariants of SPEC 3.
//!
//! One seed decides everything: who acts, what fails, how time passes. Nothing here may read the clock of the machine, draw
//! randomness of its own, or let two operations overlap; then a seed that finds a violation finds it again. It knows the
//! ports, the embedded store, the sweeper and the ingester, which takes its operations one by one through a [`gate`]; it
//! must not know HTTP, a gateway or the worker's own code, whose protocol (SPEC 6 and 8) it plays step by step.

pub mod actors;
pub mod audit;
pub mod budgets;
pub mod clock;
pub mod dice;
pub mod disk;
pub mod driver;
pub mod faults;
pub mod flaky;
pub mod gate;
pub mod lists;
pub mod many;
pub mod model;
pub mod objects;
pub mod operator;
pub mod queues;
pub mod settings;
pub mod tally;
pub mod trace;
pub mod uploads;
pub mod violation;
pub mod world;

pub use driver::{Simulation, play};
pub use many::play_many;
pub use settings::{Faults, Habits, Settings};
pub use tally::Summary;
pub use violation::{Failure, Rule, Violation};
