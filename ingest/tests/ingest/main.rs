//! The ingester on a real store: whatever breaks off, repeats or competes, a list becomes exactly its tasks.

#![expect(clippy::unwrap_used, reason = "in a test, an unwrap that fails is the report")]

mod blobs;
mod crashes;
mod ends;
mod headers;
mod heartbeat;
mod lists;
mod messages;
mod reruns;
mod schedules;
mod turns;
mod world;
