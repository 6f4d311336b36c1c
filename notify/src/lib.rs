//! The deliverer: carries notifications about runs to webhooks and state machines (SPEC 6.21).
//!
//! What is to be delivered is written by the very transaction that ended the run; here it is found, sent, and what came of it
//! is written down. It knows the ports, never a backend, and never another role. Any number of deliverers may run at once: each
//! notification is claimed before it is sent. A crash between sending and writing sends again, under the same id.

mod deliver;
mod desk;
mod notifier;
mod receivers;
mod remembered;

pub use deliver::StateMachines;
pub use desk::Sent;
pub use notifier::{Notifier, run};
pub use receivers::{OpenError, Receivers};
