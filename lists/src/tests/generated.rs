//! Lists to try properties on: random bytes, and pieces that mean something to some decoder.

use super::*;
use conveyor_domain::limits::LINE_MAX_BYTES;
use proptest::prelude::*;

const PIECES: [&[u8]; 22] = [
    b"https://a.example/x",
    b"https://b.example/?a,b;c",
    b"url",
    b"external_id",
    b"{\"url\":\"u\"}",
    b"{",
    b",",
    b",",
    b";",
    b"\t",
    b"\"",
    b"\"",
    b"'",
    b"\n",
    b"\n",
    b"\r\n",
    b"\r",
    b" ",
    b"#",
    b"\xef\xbb\xbf",
    b"\xc3",
    b"\0",
];

pub(super) fn list() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::collection::vec(prop::sample::select(&PIECES[..]), 0..60).prop_map(|p| p.concat());
    let random = prop::collection::vec(any::<u8>(), 0..200);
    prop_oneof![4 => pieces, 1 => random]
}

/// One that is longer than the head, the buffer or a line may be.
pub(super) fn long_list() -> impl Strategy<Value = Vec<u8>> {
    let filler =
        prop::sample::select(vec![&b"x"[..], b"x\n", b"\n", b"\",\"\n", b"https://a.example/x,1\r\n"]);
    let bytes = prop::sample::select(vec![70_000, 140_000, LINE_MAX_BYTES - 10, LINE_MAX_BYTES + 10]);
    (list(), filler, bytes, any::<prop::sample::Index>()).prop_map(|(mut list, filler, bytes, at)| {
        let at = at.index(list.len() + 1);
        list.splice(at..at, filler.iter().copied().cycle().take(bytes));
        list
    })
}

pub(super) fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1_usize..50, 1..5)
}

pub(super) fn spec() -> impl Strategy<Value = ListSpec> {
    let column = prop_oneof![(0_u32..4).prop_map(Column::Index), Just(named("url")), Just(named("id"))];
    let csv = (
        prop::sample::select(&b",;\t|"[..]),
        prop::sample::select(&b"\"'"[..]),
        any::<bool>(),
        column.clone(),
        prop::option::of(column),
    )
        .prop_map(|(delimiter, quote, header, url, external_id)| {
            specified(CsvSpec { delimiter, quote, header, url, external_id })
        });
    prop_oneof![2 => Just(CSV), 2 => csv, 1 => Just(ListSpec::Jsonl), 1 => Just(ListSpec::Lines)]
}
