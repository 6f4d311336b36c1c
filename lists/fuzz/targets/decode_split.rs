//! Any list, in any format and any split: the same records, each where it says, and the same rest from any of them.
//!
//! The first bytes choose: format, specification and delimiter, where to resume, the sizes of three reads.

#![no_main]

use conveyor_domain::{CsvSpec, ListSpec};
use conveyor_domain::ingest::list::Column;
use conveyor_lists::invariants::{
    a_resumed_reader_gives_the_rest, any_split_reads_the_same, places_are_in_order, rows_can_be_checked,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&[format, delimiter, resume, a, b, c], list)) = input.split_first_chunk() else { return };
    let spec = spec_of(format, delimiter);
    let sizes = [a, b, c].map(|size| usize::from(size) + 1);
    let reading = any_split_reads_the_same(list, &spec, &sizes);
    places_are_in_order(list, &reading);
    rows_can_be_checked(&reading);
    if !reading.records.is_empty() {
        let number = usize::from(resume) * reading.records.len() / 256;
        a_resumed_reader_gives_the_rest(list, &reading, number, &sizes);
    }
});

fn spec_of(choice: u8, delimiter: u8) -> ListSpec {
    match choice % 4 {
        0 => ListSpec::Csv { csv: None },
        1 => ListSpec::Jsonl,
        2 => ListSpec::Lines,
        _ => ListSpec::Csv { csv: Some(csv_spec_of(choice / 4, delimiter)) },
    }
}

fn csv_spec_of(choice: u8, delimiter: u8) -> CsvSpec {
    let one_bit = |bit: u32| choice >> bit & 1 == 1;
    let quote = if one_bit(0) { b'"' } else { b'\'' };
    CsvSpec {
        // No list could be written with these.
        delimiter: if [quote, b'\r', b'\n'].contains(&delimiter) { b',' } else { delimiter },
        quote,
        header: one_bit(1),
        url: if one_bit(2) { Column::Name("url".to_owned()) } else { Column::Index(1) },
        external_id: one_bit(3).then_some(Column::Index(0)),
    }
}
