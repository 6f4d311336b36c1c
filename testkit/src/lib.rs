//! What the tests of all crates share. A dev-dependency only: no product code may use it.
//!
//! - [`ManualClock`] stands still until a test moves it; [`RunningClock`] follows real time from a fixed moment.
//! - [`until`] polls a condition until it holds, [`eventually`] until there is a value, [`until_fits`] until the value fits.
//!   A test never sleeps for a fixed time to let something happen.
//! - [`cancel_at`] drops a future at the n-th point where it waits: what a process that dies there leaves behind.
//! - [`Process`] runs a real program and ends it with the test.
//! - [`sized`] picks the size of a test: small in `cargo xtask test`, full in `cargo xtask soak`.
//!
//! It knows `domain` only, so that every other crate can use it.

mod cancel;
mod clock;
mod process;
mod wait;

pub use cancel::cancel_at;
pub use clock::{ManualClock, RunningClock, START};
pub use process::{Process, Signal, command, refused, run};
pub use wait::{DEADLINE, eventually, until, until_blocking, until_fits};

/// `normal` in `cargo xtask test`, `full` in `cargo xtask soak`, which sets `CONVEYOR_SOAK` and runs the same binaries.
pub fn sized<T>(normal: T, full: T) -> T {
    if std::env::var_os("CONVEYOR_SOAK").is_some() { full } else { normal }
}
