//! Compressed lists: whole, cut short, broken, and out to do harm.

use super::*;
use crate::invariants::{Expansion, Pieces, expand_pieces, expansion_is_bounded, now, read_on};
use crate::{ExpandLimits, ListError, ListReader, expand};
use conveyor_domain::limits::{LIST_RATIO_FREE_BYTES, MIB};
use conveyor_domain::{Compression, ListFault};
use flate2::write::GzEncoder;
use flate2::{Compression as Level, GzBuilder};
use std::io::{self, Write};
use tokio::io::AsyncReadExt;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Level::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// With every optional part of a header.
fn gzip_named(bytes: &[u8]) -> Vec<u8> {
    let header = GzBuilder::new().filename("list.csv").comment("urls").extra(vec![1, 2, 3]);
    let mut encoder = header.write(Vec::new(), Level::none());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8], checksum: bool) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
    encoder.include_checksum(checksum).unwrap();
    // A flush ends a block: a cut at its end is the one that is hardest to notice.
    for block in bytes.chunks(bytes.len().div_ceil(3).max(1)) {
        encoder.write_all(block).unwrap();
        encoder.flush().unwrap();
    }
    encoder.finish().unwrap()
}

fn skippable(bytes: &[u8]) -> Vec<u8> {
    [&[0x50, 0x2a, 0x4d, 0x18], &(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
}

/// Rows that do not compress away.
fn plain() -> Vec<u8> {
    let row = |n: u64| format!("https://a.example/{:x}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (1..200).map(row).collect::<String>().into_bytes()
}

fn expanded(bytes: &[u8]) -> Expansion {
    expansion_is_bounded(bytes, &[1, 7, 100], ExpandLimits::default())
}

fn compressions(plain: &[u8]) -> Vec<(Compression, Vec<u8>)> {
    vec![
        (Compression::Gzip, gzip(plain)),
        (Compression::Gzip, gzip_named(plain)),
        (Compression::Zstd, zstd(plain, false)),
        (Compression::Zstd, zstd(plain, true)),
        (Compression::Zstd, [skippable(b"size"), zstd(plain, false)].concat()),
        (Compression::Zstd, zstd::bulk::compress(plain, 19).unwrap()),
    ]
}

#[test]
fn compression_is_told_by_content() {
    for (compression, bytes) in compressions(&plain()) {
        assert_eq!(expanded(&bytes), Expansion { compression, bytes: plain(), end: Ok(()) });
    }
    for none in [&plain()[..], b"", b"\x1f", b"(", b"\x28\xb5\x2f"] {
        let want = Expansion { compression: Compression::None, bytes: none.to_owned(), end: Ok(()) };
        assert_eq!(expanded(none), want);
    }
}

#[test]
fn members_and_frames_are_read_to_the_last() {
    let parts = [&plain()[..1_000], b"", &plain()[1_000..], b""];
    let gzip = parts.map(gzip).concat();
    let zstd = [parts.map(|part| zstd(part, true)).concat(), skippable(b"end")].concat();
    for (compression, bytes) in [(Compression::Gzip, gzip), (Compression::Zstd, zstd)] {
        assert_eq!(expanded(&bytes), Expansion { compression, bytes: plain(), end: Ok(()) });
    }
}

#[test]
fn a_list_that_was_cut_short_is_never_a_shorter_list() {
    for (compression, bytes) in compressions(&plain()) {
        let recognisable = if compression == Compression::Gzip { 2 } else { 4 };
        // Of two members, the first may stand alone.
        let twice = [&bytes[..], &bytes[..]].concat();
        for cut in recognisable..twice.len() {
            let found = expand_pieces(&twice[..cut], &[], ExpandLimits::default());
            assert_eq!(found.compression, compression);
            let whole_parts = [bytes.len(), skippable(b"size").len(), bytes.len() + skippable(b"size").len()];
            if found.end.is_ok() {
                assert!(whole_parts.contains(&cut), "{compression:?} cut at {cut} of {}", bytes.len());
            } else {
                assert_eq!(found.end, Err(Some(ListFault::SourceTruncated)), "{compression:?} cut at {cut}");
            }
        }
    }
}

#[test]
fn a_broken_list_is_named_broken() {
    let garbage = |bytes: Vec<u8>| [&bytes[..], b"garbage at the end"].concat();
    for bytes in [gzip(&plain()), zstd(&plain(), true)] {
        assert_eq!(expanded(&garbage(bytes.clone())).end, Err(Some(ListFault::SourceCorrupt)));
        for at in 10..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 0x10;
            let found = expand_pieces(&broken, &[], ExpandLimits::default());
            let noticed =
                matches!(found.end, Err(Some(ListFault::SourceCorrupt | ListFault::SourceTruncated)));
            // A bit may be without meaning, such as padding; but the list is not another one.
            assert!(noticed || found.bytes == plain(), "byte {at} of {}", bytes.len());
        }
    }
    let mut checksum = gzip(&plain());
    *checksum.iter_mut().nth_back(7).unwrap() ^= 1;
    assert_eq!(expanded(&checksum).end, Err(Some(ListFault::SourceCorrupt)));
}

#[test]
fn a_bomb_is_stopped_early() {
    let zeros = vec![b'\n'; 64 * MIB];
    for bomb in [gzip(&zeros), zstd(&zeros, true)] {
        let found = expand_pieces(&bomb, &[], ExpandLimits::default());
        assert_eq!(found.end, Err(Some(ListFault::ExpansionRatioExceeded)));
        assert!(found.bytes.len() as u64 <= LIST_RATIO_FREE_BYTES);
        let small =
            expand_pieces(&bomb, &[], ExpandLimits { expanded_max_bytes: 1_000_000, ..Default::default() });
        assert_eq!(small.end, Err(Some(ListFault::ExpandedTooLarge)));
        assert!(small.bytes.len() <= 1_000_000);
    }
    let honest = vec![b'\n'; LIST_RATIO_FREE_BYTES as usize];
    assert_eq!(expand_pieces(&gzip(&honest), &[], ExpandLimits::default()).end, Ok(()));
    let exact = ExpandLimits { expanded_max_bytes: plain().len() as u64, ..Default::default() };
    assert_eq!(expand_pieces(&gzip(&plain()), &[], exact).end, Ok(()));
    let plain_too_large = ExpandLimits { expanded_max_bytes: 10, ..Default::default() };
    assert_eq!(expand_pieces(&plain(), &[], plain_too_large).end, Err(Some(ListFault::ExpandedTooLarge)));
}

#[test]
fn a_window_beyond_the_limit_is_refused_with_a_reason() {
    for (window_log, fits) in [(23, true), (24, false), (27, false)] {
        let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
        encoder.window_log(window_log).unwrap();
        encoder.write_all(&plain()).unwrap();
        let bytes = encoder.finish().unwrap();
        let mut expanded = now(expand(Pieces::new(&bytes, &[]), ExpandLimits::default())).unwrap();
        let read = now(expanded.read_to_end(&mut Vec::new())).map_err(|e| ListError::from(e).to_string());
        let words =
            "needs a zstd window of more than 8 MiB: compress it without --long or --ultra (source_corrupt)";
        assert_eq!(read.is_ok(), fits, "{window_log}");
        assert!(fits || read == Err(words.to_owned()), "{read:?}");
    }
}

#[test]
fn rows_come_out_of_a_compressed_list() {
    for (_, bytes) in compressions(&plain()) {
        let expanded = now(expand(Pieces::new(&bytes, &[3, 50]), ExpandLimits::default())).unwrap();
        let reading = read_on(now(ListReader::open(expanded, &ListSpec::Lines)).unwrap());
        assert_eq!(reading, read(&plain(), &ListSpec::Lines, &[]));
        let cut = Pieces::new(&bytes[..bytes.len() - 1], &[]);
        let cut = now(expand(cut, ExpandLimits::default())).unwrap();
        // The read that opens the list may reach its end, or not.
        let end = now(ListReader::open(cut, &ListSpec::Lines)).map(|reader| read_on(reader).end);
        let words = end.unwrap_or_else(|e| Err(e.to_string())).unwrap_err();
        assert!(words.ends_with("stream ends early (source_truncated)"), "{words}");
    }
}

#[test]
fn a_source_that_fails_says_nothing_about_the_list() {
    // The kinds are those by which a decompressor names a broken list.
    for kind in [io::ErrorKind::UnexpectedEof, io::ErrorKind::InvalidData] {
        for bytes in [gzip(&plain()), zstd(&plain(), true), plain()] {
            let half = io::Cursor::new(bytes[..bytes.len() / 2].to_owned());
            let source = tokio::io::BufReader::new(half.chain(super::faults::Failing(kind)));
            let mut expanded = now(expand(source, ExpandLimits::default())).unwrap();
            let error = now(expanded.read_to_end(&mut Vec::new())).unwrap_err();
            assert!(matches!(ListError::from(error), ListError::Read(e) if e.kind() == kind));
        }
    }
}
