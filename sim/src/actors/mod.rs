//! Who acts. Each is a machine of small steps; a step is awaited to its end before anybody takes the next.

pub mod caller;
pub mod echo;
pub mod ingester;
pub mod sweeper;
pub mod worker;
