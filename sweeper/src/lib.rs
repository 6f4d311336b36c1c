//! The sweeper: small, named, repeatable repairs, each in bounded steps (SPEC 6.17), and what operators ask of them: audit,
//! reconcile, dead letters.
//!
//! It knows the ports; never a backend, never another role. Any number of sweepers may run at once: every step is safe to
//! repeat and safe beside another's. A new repair is one file in `repairs/` and one line in its list.

mod audit;
mod bodies;
mod facts;
pub mod letters;
mod proofs;
mod reconcile;
mod repair;
mod repairs;
mod roster;
mod sweep;
mod sweeper;

pub use audit::audit;
pub use bodies::audit_bodies;
pub use reconcile::{InvalidCursor, reconcile};
pub use repair::{Fixed, Found, Look, Next, Pace, Repair, Scope};
pub use roster::owner;
pub use sweep::{Sweep, Swept, sweep};
pub use sweeper::{Sweeper, run};
