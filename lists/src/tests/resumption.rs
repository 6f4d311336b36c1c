//! Going on in the middle of a list.

use super::*;
use crate::ListReader;
use crate::invariants::{Pieces, a_resumed_reader_gives_the_rest, places_are_in_order, read_on};
use conveyor_domain::ingest::list::{Layout, Position};

#[test]
fn every_position_resumes_to_the_same_rest() {
    let csv = "\u{feff}url,external_id\r\n\r\nhttps://a.example,\"1\r\n2\"\r\n \r\nhttps://b.example\rhttps://c.example,\"\"\"\n\n\"\"\"";
    let lines = "\u{feff}# list\r\nhttps://a.example\r\n\nhttps://b.example\n \nhttps://c.example";
    let jsonl = "{\"url\":\"https://a.example\"}\r\n\nnope\n{\"url\":\"https://b.example\"}";
    for (list, spec) in [(csv, CSV), (lines, ListSpec::Lines), (jsonl, ListSpec::Jsonl)] {
        let reading = read(list.as_bytes(), &spec, &[]);
        assert_eq!(reading.records.len(), 3, "{spec:?}");
        places_are_in_order(list.as_bytes(), &reading);
        for number in 0..reading.records.len() {
            a_resumed_reader_gives_the_rest(list.as_bytes(), &reading, number, &[1]);
        }
        let end = reading.end.unwrap();
        let at_end = read_on(ListReader::resume(&b""[..], reading.layout.unwrap(), end));
        assert_eq!((at_end.records, at_end.end), (vec![], Ok(end)), "{spec:?}");
    }
}

#[test]
fn a_position_before_the_first_record_is_behind_mark_and_header() {
    let list = "\u{feff}url\nhttps://a.example\n";
    let before = read(list.as_bytes(), &CSV, &[]).records[0].0;
    assert_eq!(before, Position { offset: 7, line: 1, index: 0 });
    let list = "\u{feff}https://a.example\n";
    assert_eq!(read(list.as_bytes(), &CSV, &[]).records[0].0.offset, 3);
    assert_eq!(read(list.as_bytes(), &ListSpec::Lines, &[]).records[0].0.offset, 3);
}

#[test]
fn a_list_resumed_at_its_very_beginning_may_have_a_mark() {
    let list = Pieces::new("\u{feff}https://a.example\n".as_bytes(), &[1]);
    let reading = read_on(ListReader::resume(list, Layout::Lines, Position::default()));
    assert_eq!(seen(&reading), [url(1, 3, "https://a.example")]);
    let list = Pieces::new("\u{feff}https://a.example\n".as_bytes(), &[1]);
    let at = Position { offset: 1, ..Position::default() };
    let reading = read_on(ListReader::resume(list, CSV_LAYOUT, at));
    assert_eq!(seen(&reading), [url(1, 1, "\u{feff}https://a.example")], "a mark in the middle is none");
}

const CSV_LAYOUT: Layout = Layout::Csv { delimiter: b',', quote: b'"', url: 0, external_id: None };
