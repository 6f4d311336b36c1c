//! A Conveyor that is started to be measured: its roles as processes, and the AWS-compatible servers that they run on.

mod metrics;
mod place;
mod roles;

pub use metrics::{Sample, total};
pub use place::Place;
pub use roles::Roles;
