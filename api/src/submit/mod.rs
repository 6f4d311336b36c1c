//! What a submit brings along: tasks in its body, however many, or a list that was staged before (SPEC 6.10).

mod accepted;
pub(crate) mod answer;
mod intake;
mod short_list;
mod source;

pub use accepted::{Accepted, NotAccepted};
pub(crate) use accepted::{forget, keep};
pub(crate) use intake::{StagedTasks, Submitted, Tasks, receive};
pub(crate) use short_list::{ShortList, read_short};
pub(crate) use source::source_of;
