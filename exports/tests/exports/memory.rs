//! How much of a run is in memory at once, counted: bodies that were read and not yet let go.

use crate::blobs::Watched;
use crate::world::{World, attend, expected, unzip};
use conveyor_domain::limits::KIB;
use conveyor_domain::{Entropy, ExportFormat, limits};
use conveyor_exports::{End, ExportConfig};

const BODY: usize = 64 * KIB;
const AHEAD: usize = 512 * KIB;
/// What the store gathers before it writes.
const GATHERED: usize = 256 * KIB;

/// Bodies that do not deflate: they are the bytes that were read until they are written.
fn noise(count: u64, length: usize) -> Vec<Vec<u8>> {
    let body = |n| {
        let mut body = vec![0; length];
        Entropy::from_number(n).fill(&mut body);
        body
    };
    (0..count).map(body).collect()
}

async fn most_in_memory(bodies: &[Vec<u8>]) -> (usize, usize) {
    let world = World::new();
    let key = world.finished(bodies, false).await;
    let export = world.ask(key, ExportFormat::Zip).await;
    let (watched, backend) = Watched::over(&world.backend);
    watched.gate.close();
    let config = ExportConfig { ahead_max_bytes: AHEAD, ..ExportConfig::default() };
    assert_eq!(attend(&world.builder_with(&backend, config)).await, [End::Completed]);
    assert_eq!(unzip(&world.file(&export).await), expected(key, bodies));
    assert_eq!(watched.bytes.now(), 0, "all of it was let go");
    assert!(watched.reads.most() <= limits::EXPORT_READS_MAX);
    (watched.bytes.most(), watched.reads.most())
}

#[tokio::test]
async fn a_run_of_any_size_takes_the_same_memory() {
    // 2 MiB, and 16.
    for count in [32, 256] {
        let (bytes, reads) = most_in_memory(&noise(count, BODY)).await;
        assert!(bytes <= AHEAD + GATHERED + 2 * BODY, "{bytes} bytes for {count} bodies");
        assert!(reads > 1, "they are read ahead");
    }
}

#[tokio::test]
async fn small_bodies_are_so_many_at_once() {
    let (_, reads) = most_in_memory(&noise(1_000, 100)).await;
    assert!((2..=limits::EXPORT_READS_MAX).contains(&reads), "{reads}");
}

#[tokio::test]
async fn a_body_that_is_larger_than_all_the_room_has_it_for_itself() {
    let mut bodies = noise(8, BODY);
    bodies.extend(noise(2, 3 * AHEAD));
    bodies.extend(noise(8, BODY));
    let (bytes, _) = most_in_memory(&bodies).await;
    assert!(bytes <= 2 * 3 * AHEAD + GATHERED + BODY, "{bytes}");
}
