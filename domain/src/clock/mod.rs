//! Clocks that can be wrong (SPEC 6.26): how a process follows one, how it measures the backend's, and what may be removed
//! by time when the time itself is in doubt. Pure arithmetic: readings come in as arguments.

mod measured;
mod steady;
pub mod watch;

pub use measured::Measured;
pub use steady::Steady;
