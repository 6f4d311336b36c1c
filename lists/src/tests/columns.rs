//! CSV by specification.

use super::*;
use conveyor_domain::ingest::list::Layout;

fn not_found(list: &str, csv: CsvSpec) -> String {
    read(list.as_bytes(), &specified(csv), &[]).end.unwrap_err()
}

#[test]
fn columns_by_index() {
    let spec = csv_spec(false, Column::Index(1), Some(Column::Index(0)));
    let list = "url,https://a.example,x\n2\n,https://b.example\n";
    let want = [
        url_with_id(1, 0, "https://a.example", "url"),
        bad(2, 24, Reason::MalformedUrl, ""),
        url(3, 26, "https://b.example"),
    ];
    assert_eq!(decode(list, &specified(spec)), want, "the first record is a row, whatever it says");
    let spec = csv_spec(true, Column::Index(1), None);
    assert_eq!(decode("a,b\n1,https://a.example\n", &specified(spec)), [url(2, 4, "https://a.example")]);
}

#[test]
fn columns_by_name() {
    let spec = csv_spec(true, named("Link"), Some(named(" sku ")));
    let list = "link,LINK, Link ,\"SKU\"\n1,2,https://a.example,s-1\n";
    assert_eq!(decode(list, &specified(spec)), [url_with_id(2, 23, "https://a.example", "s-1")]);
    let spec = csv_spec(true, named("ÜBER"), None);
    assert_eq!(decode("x,über\n1,https://a.example", &specified(spec)), [url(2, 8, "https://a.example")]);
}

#[test]
fn a_delimiter_and_a_quote_of_ones_own() {
    let spec = CsvSpec { delimiter: b'|', quote: b'\'', ..csv_spec(true, named("url"), Some(named("id"))) };
    let list = "id|url\n'a|''b\n'''|'https://a.example/\"|'\n";
    assert_eq!(decode(list, &specified(spec)), [url_with_id(2, 7, "https://a.example/\"|", "a|'b\n'")]);
    let spec = CsvSpec { delimiter: b'\t', ..csv_spec(false, Column::Index(0), None) };
    assert_eq!(decode("https://a.example/,;\t1\n", &specified(spec)), [url(1, 0, "https://a.example/,;")]);
}

#[test]
fn a_column_that_is_not_there_ends_the_list() {
    let words = not_found("\na,b\n", csv_spec(true, named("url"), None));
    assert_eq!(words, "line 2: no column \"url\" in the header (column_not_found)");
    let words = not_found("url\n", csv_spec(true, named("url"), Some(named("id"))));
    assert_eq!(words, "line 1: no column \"id\" in the header (column_not_found)");
    let words = not_found("url,id\n", csv_spec(true, Column::Index(2), None));
    assert_eq!(words, "line 1: no column 2 (from 0): the header has 2 (column_not_found)");
    for list in ["url\nhttps://a.example\n", ""] {
        let words = not_found(list, csv_spec(false, named("url"), None));
        assert_eq!(words, "column \"url\" is named, but the list has no header (column_not_found)");
    }
}

#[test]
fn an_empty_list_lacks_no_column() {
    let spec = csv_spec(true, named("link"), Some(Column::Index(7)));
    let reading = read(b"\r\n \n", &specified(spec), &[]);
    assert_eq!((seen(&reading), reading.end.is_ok()), (vec![], true));
    let layout = Layout::Csv { delimiter: b',', quote: b'"', url: 0, external_id: None };
    assert_eq!(reading.layout, Some(layout));
}
