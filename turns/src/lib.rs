//! Fair turns: what the callers of one process share in the background, without one keeping the others out (SPEC 6.28).
//!
//! - [`Places`]: a bounded number of places under a dynamic threshold. A caller may take another one only while it holds
//!   fewer than are free, so a newcomer always finds room.
//! - [`Lanes`]: such places for long and for short work.
//! - [`Line`]: what waits for a place, round robin by caller, and by group within a caller.
//! - [`Gate`]: turns that are waited for.
//! - [`Working`]: tasks under way, each with the ticket that is given back when it ends, also if it panics.
//!
//! Everything here is a hint in the memory of one process: a crash loses nothing, and who may do what is still decided by a
//! conditional write. It knows `domain`, never a port, a backend or a role.

mod gate;
mod lanes;
mod line;
mod places;
mod working;

pub use gate::{Gate, Turn};
pub use lanes::{Lanes, Size};
pub use line::Line;
pub use places::Places;
pub use working::Working;
