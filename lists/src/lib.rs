//! Decoding of lists: CSV, JSON Lines, plain lines; gzip and zstd told by content.
//!
//! The bytes of a list go in, its records come out, each with its place, in one pass and in fixed memory: one record and
//! one read buffer. This crate knows neither where the bytes come from nor what becomes of a row.
//!
//! [`expand`] takes the compression off; [`ListReader`] reads what is left. Underneath, `decoder` takes slices of bytes
//! and does no I/O, so that how the bytes arrive cannot change what is read.

mod count;
mod csv;
mod decoder;
mod error;
mod expand;
mod extent;
#[doc(hidden)]
pub mod invariants;
mod lines;
mod reader;
mod record;
mod rows;
mod sniff;
mod source;

pub use count::count;
pub use error::ListError;
pub use expand::{ExpandLimits, Expanded, expand, plain};
pub use reader::ListReader;
pub use record::{Record, Row};
pub use sniff::{SNIFF_BYTES, sniff};

#[cfg(test)]
mod tests;
