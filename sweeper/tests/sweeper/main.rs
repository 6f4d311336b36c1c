//! Each repair: the damage is made for real, behind the store's back. It is named, looking changes nothing, one sweep mends
//! it, and a second finds nothing.

#![expect(clippy::unwrap_used, reason = "in a test, an unwrap that fails is the report")]

mod bodies;
mod counters;
mod crashes;
mod harness;
mod ingests;
mod letters;
mod notices;
mod reconciliation;
mod refs;
mod removal;
mod schedules;
mod sharing;
