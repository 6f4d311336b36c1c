//! The builder on a real store: whatever breaks off or competes, an export is the whole file or says why it is none.
//! Files are read by crates that share nothing with what wrote them.

#![expect(clippy::unwrap_used, reason = "in a test, an unwrap that fails is the report")]

mod blobs;
mod crashes;
mod ends;
mod large;
mod memory;
mod rows;
mod turns;
mod world;
mod zips;
