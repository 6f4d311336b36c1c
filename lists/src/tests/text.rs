//! Plain lines and JSON Lines.

use super::*;
use conveyor_domain::limits::ECHO_MAX_CHARS;
use serde_json::{Value, json};

fn object(line: u64, offset: u64, value: Value) -> Seen {
    (line, offset, Ok(Row::Json(value)))
}

#[test]
fn lines_skip_blanks_and_comments() {
    let list =
        "\u{feff}https://a.example\r\n\r\n# no\n  https://b.example\t\n\u{a0}\n\n https://c.example/#x";
    let want =
        [url(1, 3, "https://a.example"), url(4, 29, "https://b.example"), url(7, 54, "https://c.example/#x")];
    assert_eq!(decode(list, &ListSpec::Lines), want);
}

#[test]
fn an_empty_list_has_no_records() {
    for list in ["", "\u{feff}", "\n", "\r\n\r\n", " \n\t\n", "\n\n "] {
        for spec in [CSV, ListSpec::Jsonl, ListSpec::Lines] {
            assert_eq!(decode(list, &spec), [], "{list:?} {spec:?}");
        }
    }
}

#[test]
fn a_byte_order_mark_counts_only_at_the_beginning() {
    let half = b"\xef\xbbhttps://a.example\n";
    assert!(decode(half, &ListSpec::Lines)[0].2.is_err());
    let second = "\u{feff}https://a.example\n\u{feff}https://b.example\n";
    let want = [url(1, 3, "https://a.example"), url(2, 21, "\u{feff}https://b.example")];
    assert_eq!(decode(second, &ListSpec::Lines), want);
}

#[test]
fn a_lone_carriage_return_is_part_of_its_line() {
    let list = "https://a.example\rhttps://b.example\r\nhttps://c.example\r";
    let want = [url(1, 0, "https://a.example\rhttps://b.example"), url(2, 37, "https://c.example")];
    assert_eq!(decode(list, &ListSpec::Lines), want);
}

#[test]
fn a_line_that_is_no_text_is_bad_and_the_list_goes_on() {
    let list = b"https://u:secret@a.example/\xff?token=x\nhttps://b.example/\0\n# \xff\nhttps://c.example\n";
    let want = [
        bad(1, 0, Reason::MalformedTask, "…@a.example/\u{fffd}?…"),
        bad(2, 37, Reason::MalformedTask, "https://b.example/\0"),
        url(4, 61, "https://c.example"),
    ];
    assert_eq!(decode(list, &ListSpec::Lines), want);
    let long = [vec![0xff; 1_000], b"\nhttps://c.example".to_vec()].concat();
    assert_eq!(
        decode(&long, &ListSpec::Lines)[0],
        bad(1, 0, Reason::MalformedTask, &"\u{fffd}".repeat(ECHO_MAX_CHARS))
    );
}

#[test]
fn json_lines_are_handed_on_as_they_are() {
    let task = json!({"url": "https://a.example", "external_id": "x", "metadata": {"k": "v"},
                      "zenrows_params": {"wait": 5}, "method": "POST", "body": [1, null]});
    let list = format!("\u{feff}{task}\r\n\n  \n{}", json!({"url": "https://b.example"}));
    let second = list.rfind('{').unwrap() as u64;
    let want = [object(1, 3, task), object(4, second, json!({"url": "https://b.example"}))];
    assert_eq!(decode(list, &ListSpec::Jsonl), want);
}

#[test]
fn a_bad_json_line_is_described_but_not_repeated() {
    let list = b"{\"url\": nope}\n\"https://b.example\"\n{\"url\":\n{\"url\":\"\xff\"}\n{\"url\":\"\0\"}\n{\"url\":\"u\"}";
    let want = [
        bad(1, 0, Reason::MalformedTask, "not JSON: expected ident at column 10"),
        bad(2, 14, Reason::MalformedTask, "\"https://b.example\""),
        bad(3, 34, Reason::MalformedTask, "not JSON: EOF while parsing a value at column 7"),
        bad(4, 42, Reason::MalformedTask, "not UTF-8 at column 9"),
        bad(
            5,
            54,
            Reason::MalformedTask,
            "not JSON: control character (\\u0000-\\u001F) found while parsing a string at column 9",
        ),
        object(6, 66, json!({"url": "u"})),
    ];
    assert_eq!(decode(list, &ListSpec::Jsonl), want);
    let deep = format!("{{\"url\":\"u\",\"body\":{}", "[".repeat(10_000));
    assert!(matches!(&decode(deep, &ListSpec::Jsonl)[..], [(1, 0, Err((Reason::MalformedTask, _)))]));
}
