use super::*;
use proptest::prelude::*;
use serde_json::json;
use std::io;

/// A row or the words of its error, so that lists can be compared.
type Seen = Result<(u64, Value), String>;

fn decode_from(reader: impl Read, format: Format, delimiter: Option<u8>) -> Vec<Seen> {
    match Rows::open(reader, format, delimiter) {
        Ok(rows) => rows.map(|row| row.map(|r| (r.line, r.value)).map_err(|e| e.to_string())).collect(),
        Err(e) => vec![Err(e.to_string())],
    }
}

fn decode(text: &str, format: Format) -> Vec<Seen> {
    decode_from(text.as_bytes(), format, None)
}

fn url(line: u64, url: &str) -> Seen {
    Ok((line, json!({ "url": url })))
}

fn bad(words: &str) -> Seen {
    Err(words.to_owned())
}

#[test]
fn lines_skip_blanks_and_comments() {
    let text = "\u{feff}https://a.example\r\n\r\n# no\n  https://b.example\t\n\n https://c.example/#x";
    let want = [url(1, "https://a.example"), url(4, "https://b.example"), url(6, "https://c.example/#x")];
    assert_eq!(decode(text, Format::Lines), want);
    assert_eq!(decode(text, Format::Auto), want);
    assert_eq!(decode("", Format::Auto), []);
}

#[test]
fn a_line_that_is_not_text_is_named_and_the_list_goes_on() {
    let seen = decode_from(&b"https://a.example/\xff\nhttps://b.example\n"[..], Format::Lines, None);
    assert_eq!(seen, [bad("line 1: not UTF-8"), url(2, "https://b.example")]);
}

#[test]
fn json_lines_are_handed_on_as_they_are() {
    let task = json!({"url": "https://a.example", "external_id": "x", "metadata": {"k": "v"},
                      "zenrows_params": {"wait": 5}, "method": "POST", "body": [1, null]});
    let text = format!("\u{feff}{task}\r\n\n  \n{}", json!({"url": "https://b.example"}));
    assert_eq!(decode(&text, Format::Auto), [Ok((1, task)), url(4, "https://b.example")]);
}

#[test]
fn a_bad_json_line_is_named_and_the_list_goes_on() {
    let text =
        "{\"url\":\"https://a.example\"}\n{\"url\": nope}\n\"https://b.example\"\n{\"url\":\n{\"url\":\"u\"}";
    let want = [
        url(1, "https://a.example"),
        bad("line 2: not JSON: expected ident (column 10)"),
        bad("line 3: not a JSON object"),
        bad("line 4: not JSON: EOF while parsing a value (column 7)"),
        url(5, "u"),
    ];
    assert_eq!(decode(text, Format::Auto), want);
}

#[test]
fn csv_columns_go_by_name() {
    let text = "\u{feff}name, External_ID ,URL\r\n\r\nx,e-1,https://a.example\r\n\"a \"\"b\"\"\",, https://b.example \r\n";
    let want =
        [Ok((3, json!({"url": "https://a.example", "external_id": "e-1"}))), url(4, "https://b.example")];
    assert_eq!(decode(text, Format::Auto), want);
}

#[test]
fn csv_without_header_starts_with_the_url() {
    let text = "https://a.example;1\n\"https://b.example/;x\";2\n";
    assert_eq!(decode(text, Format::Auto), [url(1, "https://a.example"), url(2, "https://b.example/;x")]);
    let text = "https://a.example|1\nhttps://b.example/,x|2";
    let seen = decode_from(text.as_bytes(), Format::Csv, Some(b'|'));
    assert_eq!(seen, [url(1, "https://a.example"), url(2, "https://b.example/,x")]);
}

#[test]
fn csv_records_span_lines_and_bad_ones_are_named() {
    let text = "id,url\n\"1\n\n2\",https://a.example\n3\n   \n4,\n5,https://b.example";
    let want = [
        url(2, "https://a.example"),
        bad("line 5: nothing in the url column"),
        bad("line 7: nothing in the url column"),
        url(8, "https://b.example"),
    ];
    assert_eq!(decode(text, Format::Csv), want);
}

#[test]
fn lone_carriage_returns_end_csv_records() {
    assert_eq!(decode("url\rhttps://a.example\rhttps://b.example\n", Format::Csv).len(), 2);
}

#[test]
fn a_line_may_be_as_long_as_the_limit_and_no_longer() {
    let longest = format!("https://a.example/{}", "x".repeat(MAX_LINE_BYTES - "https://a.example/".len()));
    for format in [Format::Lines, Format::Csv] {
        for end in ["", "\n", "\r\n"] {
            let fits = format!("https://b.example\n{longest}{end}");
            assert_eq!(
                decode(&fits, format),
                [url(1, "https://b.example"), url(2, &longest)],
                "{format} {end:?}"
            );
            let over = format!("https://b.example\n{longest}x{end}https://c.example\n");
            let want =
                [url(1, "https://b.example"), bad(&format!("line 2: longer than {MAX_LINE_BYTES} bytes"))];
            assert_eq!(decode(&over, format), want, "{format} {end:?}");
        }
    }
}

#[test]
fn a_quote_that_is_never_closed_cannot_swallow_the_list() {
    let text = format!(
        "url\nhttps://a.example\n\"https://b.example\n{}",
        "https://c.example\n".repeat(MAX_LINE_BYTES / 10)
    );
    let want = [url(2, "https://a.example"), bad(&format!("line 3: longer than {MAX_LINE_BYTES} bytes"))];
    assert_eq!(decode(&text, Format::Csv), want);
    let blanks = format!("url\nhttps://a.example{}https://b.example", "\r\n".repeat(MAX_LINE_BYTES));
    assert_eq!(decode(&blanks, Format::Csv)[1], url(2 + MAX_LINE_BYTES as u64, "https://b.example"));
}

/// Fails once its bytes are used up.
struct Broken<'a>(&'a [u8]);

impl Read for Broken<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.read(into)? {
            0 => Err(io::Error::other("gone")),
            n => Ok(n),
        }
    }
}

#[test]
fn a_failed_read_ends_the_list_and_is_never_its_end() {
    assert_eq!(
        decode_from(Broken(b"https://a.example\n"), Format::Lines, None),
        [bad("the list could not be read")]
    );
    let long = "https://a.example,1\n".repeat(SNIFF_BYTES / 10);
    for format in [Format::Auto, Format::Lines, Format::Csv] {
        let seen = decode_from(Broken(long.as_bytes()), format, None);
        assert_eq!(seen.last(), Some(&bad("the list could not be read")), "{format}");
        assert_eq!(seen.iter().filter(|s| s.is_err()).count(), 1, "{format}");
    }
}

#[test]
fn format_names_round_trip() {
    for name in Format::NAMES {
        assert_eq!(name.parse::<Format>().unwrap().to_string(), name);
    }
    assert_eq!("CSV".parse::<Format>(), Err(UnknownFormat));
}

/// Gives its bytes in reads of the sizes asked for, over and over, with an interruption before each.
struct Split<'a> {
    bytes: &'a [u8],
    sizes: &'a [usize],
    at: usize,
    interrupt: bool,
}

impl Read for Split<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.interrupt = !self.interrupt;
        if self.interrupt {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let size = self.sizes[self.at % self.sizes.len()].min(into.len());
        self.at += 1;
        self.bytes.by_ref().take(size as u64).read(into)
    }
}

/// Pieces that mean something to some decoder, so that random lists reach its corners.
fn list() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&[u8]> = vec![
        b"https://a.example/x",
        b"url",
        b"external_id",
        b"{\"url\":\"u\"}",
        b"{",
        b",",
        b";",
        b"\t",
        b"\"",
        b"\n",
        b"\n",
        b"\r\n",
        b"\r",
        b" ",
        b"#",
        b"\xef\xbb\xbf",
        b"\xc3",
    ];
    let short = prop::collection::vec(prop::sample::select(pieces), 0..40).prop_map(|p| p.concat());
    // Now and then past the limits of a line and of the head.
    (short, prop_oneof![9 => Just(0), 1 => Just(SNIFF_BYTES)], any::<prop::sample::Index>()).prop_map(
        |(mut list, filler, at)| {
            let at = at.index(list.len() + 1);
            list.splice(at..at, b"x\n".iter().copied().cycle().take(filler));
            list
        },
    )
}

proptest! {
    #[test]
    fn any_split_of_the_bytes_gives_the_same_rows(
        bytes in list(),
        sizes in prop::collection::vec(1_usize..50, 1..5),
        format in prop::sample::select(vec![Format::Auto, Format::Csv, Format::Jsonl, Format::Lines]),
    ) {
        let whole = decode_from(&bytes[..], format, None);
        let split = Split { bytes: &bytes, sizes: &sizes, at: 0, interrupt: false };
        prop_assert_eq!(decode_from(split, format, None), whole);
    }
}
