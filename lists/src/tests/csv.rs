//! CSV as it comes, without a specification.

use super::*;
use crate::SNIFF_BYTES;
use crate::invariants::any_split_reads_the_same;
use conveyor_domain::ingest::list::Layout;

#[test]
fn columns_go_by_name() {
    let list = "\u{feff}name, External_ID ,URL\r\n\r\nx,e-1,https://a.example\r\n\"a \"\"b\"\"\",, https://b.example \r\n";
    let want = [url_with_id(3, 29, "https://a.example", "e-1"), url(4, 54, "https://b.example")];
    assert_eq!(decode(list, &CSV), want);
    let layout = Layout::Csv { delimiter: b',', quote: b'"', url: 2, external_id: Some(1) };
    assert_eq!(read(list.as_bytes(), &CSV, &[]).layout, Some(layout));
}

#[test]
fn without_a_header_the_url_comes_first() {
    let list = "https://a.example;1\n\"https://b.example/;x\";2\n";
    let want = [url(1, 0, "https://a.example"), url(2, 20, "https://b.example/;x")];
    assert_eq!(decode(list, &CSV), want);
    let layout = Layout::Csv { delimiter: b';', quote: b'"', url: 0, external_id: None };
    assert_eq!(read(list.as_bytes(), &CSV, &[]).layout, Some(layout));
    assert_eq!(decode("https://a.example", &CSV), [url(1, 0, "https://a.example")]);
}

#[test]
fn the_delimiter_is_told_by_the_head() {
    for delimiter in [",", ";", "\t"] {
        let list = ["id", "url\n1", "https://a.example\n2", "https://b.example"].join(delimiter);
        let offset = list.find("1\t").or(list.find("1,")).or(list.find("1;")).unwrap() as u64;
        let want = [url(2, offset, "https://a.example"), url(3, offset + 20, "https://b.example")];
        assert_eq!(decode(&list, &CSV), want, "{delimiter:?}");
    }
}

#[test]
fn the_delimiter_does_not_depend_on_how_the_head_arrives() {
    // Behind the head, where nobody looks, only the semicolon would fit every line.
    let in_sight = "https://a.example/x;1,2\n".repeat(SNIFF_BYTES / 20);
    for mark in ["", "\u{feff}"] {
        let list = format!("{mark}{in_sight}https://a.example/x;1,2,3\n");
        let reading = any_split_reads_the_same(list.as_bytes(), &CSV, &[1_000]);
        assert!(matches!(reading.layout, Some(Layout::Csv { delimiter: b',', .. })));
    }
}

#[test]
fn records_span_lines_and_bad_ones_are_named() {
    let list = "id,url\n\"1\n\n2\",https://a.example\n3\n   \n4,\n5,https://b.example";
    let want = [
        url(2, 7, "https://a.example"),
        bad(5, 32, Reason::MalformedUrl, ""),
        bad(7, 38, Reason::MalformedUrl, ""),
        url(8, 41, "https://b.example"),
    ];
    assert_eq!(decode(list, &CSV), want);
}

#[test]
fn quotes_are_taken_off_and_doubled_ones_are_one() {
    let list = "url,external_id\n\"https://a.example/\"\"x\"\"\",\" e-1 \"\r\nhttps://b.example/\"x\",\n";
    let want = [url_with_id(2, 16, "https://a.example/\"x\"", "e-1"), url(3, 51, "https://b.example/\"x\"")];
    assert_eq!(decode(list, &CSV), want);
}

#[test]
fn lone_carriage_returns_end_records() {
    let list = "url\rhttps://a.example\r\rhttps://b.example\r\nhttps://c.example\r";
    let want =
        [url(1, 4, "https://a.example"), url(1, 23, "https://b.example"), url(2, 42, "https://c.example")];
    assert_eq!(decode(list, &CSV), want, "a line ends with a line feed, whatever else ends a record");
}

#[test]
fn a_header_alone_is_a_list_without_records() {
    for list in ["url", "url\n", "\u{feff}url,external_id\r\n", "\n\n  \nurl\n\n"] {
        assert_eq!(decode(list, &CSV), [], "{list:?}");
        assert_eq!(decode(list, &specified(csv_spec(true, named("url"), None))), [], "{list:?}");
    }
}

#[test]
fn only_the_cells_of_the_task_have_to_be_text() {
    let list =
        b"url,name\nhttps://a.example,Z\xfcrich\nhttps://b.example/\xfc,x\nhttps://c.example/\0,x\n\"\"\n";
    let want = [
        url(2, 9, "https://a.example"),
        bad(3, 34, Reason::MalformedTask, "https://b.example/\u{fffd}"),
        bad(4, 56, Reason::MalformedTask, "https://c.example/\0"),
    ];
    assert_eq!(decode(list, &CSV), want);
}

#[test]
fn a_record_may_have_very_many_cells() {
    let list = format!("{}url\n{}https://a.example\n", ",".repeat(100_000), ",".repeat(100_000));
    assert_eq!(decode(list, &CSV), [url(2, 100_004, "https://a.example")]);
}
