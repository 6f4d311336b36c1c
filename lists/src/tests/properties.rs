//! What holds for any list, in any split.

use super::generated::{list, long_list, sizes, spec};
use super::*;
use crate::invariants::{
    SMALL, a_resumed_reader_gives_the_rest, any_split_reads_the_same, expansion_is_bounded,
    places_are_in_order, rows_can_be_checked,
};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_split_of_the_bytes_gives_the_same_records(list in list(), spec in spec(), sizes in sizes()) {
        let reading = any_split_reads_the_same(&list, &spec, &sizes);
        places_are_in_order(&list, &reading);
        rows_can_be_checked(&reading);
    }

    #[test]
    fn every_position_gives_the_rest(list in list(), spec in spec(), sizes in sizes()) {
        let reading = read(&list, &spec, &[]);
        for number in 0..reading.records.len() {
            a_resumed_reader_gives_the_rest(&list, &reading, number, &sizes);
        }
    }

    #[test]
    fn any_bytes_expand_within_limits(list in list(), magic in prop::sample::select(MAGIC.to_vec()), sizes in sizes()) {
        expansion_is_bounded(&[magic, &list].concat(), &sizes, SMALL);
    }
}

const MAGIC: [&[u8]; 4] =
    [b"", b"\x1f\x8b\x08\0\0\0\0\0\0\x03", b"\x28\xb5\x2f\xfd\x04\x00", b"\x50\x2a\x4d\x18\x02\0\0\0"];

proptest! {
    // Each has some hundred thousand bytes.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn long_lists_are_no_exception(
        list in long_list(),
        spec in spec(),
        sizes in prop::collection::vec(1_usize..100_000, 1..5),
        at in any::<prop::sample::Index>(),
    ) {
        let reading = any_split_reads_the_same(&list, &spec, &sizes);
        if !reading.records.is_empty() {
            a_resumed_reader_gives_the_rest(&list, &reading, at.index(reading.records.len()), &sizes);
        }
    }
}
