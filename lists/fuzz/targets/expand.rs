//! Any bytes expand within the limits or end in a fault. What was compressed comes back; cut short, it never does.
//!
//! The first bytes choose: what is done, the place of a cut, the size of reads.

#![no_main]

use conveyor_domain::ListFault;
use conveyor_lists::invariants::{SMALL, expansion_is_bounded};
use flate2::write::GzEncoder;
use libfuzzer_sys::fuzz_target;
use std::io::Write;

fuzz_target!(|input: &[u8]| {
    let Some((&[choice, cut, size], bytes)) = input.split_first_chunk() else { return };
    let sizes = [usize::from(size) + 1];
    let compressed = match choice % 3 {
        0 => {
            expansion_is_bounded(bytes, &sizes, SMALL);
            return;
        }
        1 => gzip(bytes),
        _ => zstd(bytes, choice & 0x80 == 0),
    };
    let whole = expansion_is_bounded(&compressed, &sizes, SMALL);
    assert_eq!(whole.end, Ok(()));
    assert!(whole.bytes == bytes);
    // From where the compression can be told.
    let cut = 4 + usize::from(cut) * (compressed.len() - 4) / 256;
    let short = expansion_is_bounded(&compressed[..cut], &sizes, SMALL);
    assert_eq!(short.end, Err(Some(ListFault::SourceTruncated)), "cut at {cut} of {}", compressed.len());
});

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes everything")
}

fn zstd(bytes: &[u8], checksum: bool) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("there is memory");
    encoder.include_checksum(checksum).expect("it is an option");
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes everything")
}
