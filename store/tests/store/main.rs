//! The embedded backend: every rule that a backend obeys, and what only this one does.

#![expect(clippy::unwrap_used, reason = "in a test, an unwrap that fails is the report")]

mod embedded;
mod embedded_clocks;
mod embedded_damage;
mod embedded_queue;
mod on_disk;

mod conformance {
    conveyor_store::conformance_suite!(crate::on_disk::OnDisk::new());
}
