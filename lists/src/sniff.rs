//! Telling a list's format by its first bytes, never by its name.

use crate::lines::without_terminator;
use conveyor_domain::ListSpec;
use conveyor_domain::limits::KIB;

/// How much of a list is looked at.
pub const SNIFF_BYTES: usize = 64 * KIB;

pub(crate) const BOM: &[u8] = b"\xef\xbb\xbf";

const DELIMITERS: [u8; 3] = [b',', b';', b'\t'];

/// The format of a list that begins with these bytes: its first [`SNIFF_BYTES`], or all of it. `{` opens JSON Lines; a line with a cell named `url`, or whose
/// first cell is a URL with other cells after it, is CSV; anything else is lines.
///
/// A comma and a semicolon are legal in a URL. A list without a header is therefore CSV only if every line in sight
/// has the same number of cells.
pub fn sniff(head: &[u8]) -> ListSpec {
    let text = text_of(head);
    match text.trim_ascii_start().first() {
        Some(b'{') => ListSpec::Jsonl,
        Some(_) if csv_delimiter(text).is_some() => ListSpec::Csv { csv: None },
        Some(_) | None => ListSpec::Lines,
    }
}

/// The delimiter of a CSV that begins with these bytes; a comma if they do not tell.
pub(crate) fn sniff_delimiter(head: &[u8]) -> u8 {
    csv_delimiter(text_of(head)).unwrap_or(b',')
}

fn text_of(head: &[u8]) -> &[u8] {
    let head = &head[..head.len().min(SNIFF_BYTES)];
    head.strip_prefix(BOM).unwrap_or(head)
}

fn csv_delimiter(text: &[u8]) -> Option<u8> {
    let mut lines = whole_lines(text).filter(|line| !line.trim_ascii().is_empty());
    let first = lines.next()?;
    let is_header = |&d: &u8| cells(first, d).any(|cell| cell.eq_ignore_ascii_case(b"url"));
    if let Some(delimiter) = DELIMITERS.into_iter().find(is_header) {
        return Some(delimiter);
    }
    // No URL holds a quote, so a line that opens with one opens with a cell.
    if let Some(quoted) = first.trim_ascii_start().strip_prefix(b"\"") {
        let after = quoted.iter().position(|&b| b == b'"').and_then(|close| quoted.get(close + 1));
        let delimiter = after.copied().filter(|b| DELIMITERS.contains(b)).unwrap_or(b',');
        return is_http_url(quoted).then_some(delimiter);
    }
    let count = |line: &[u8], d| line.split(|&b| b == d).count();
    let same_count = |&d: &u8| {
        // After a quote a line need not be a record any more.
        let mut records = lines.clone().take_while(|line| !line.contains(&b'"'));
        count(first, d) > 1 && records.all(|line| count(line, d) == count(first, d))
    };
    DELIMITERS.into_iter().filter(|_| is_http_url(first.trim_ascii_start())).find(same_count)
}

fn whole_lines(text: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    // A list that is shorter than what was asked for has no more to come: its last line needs no terminator.
    let cut_short = text.len() + BOM.len() >= SNIFF_BYTES;
    let whole = match text.iter().rposition(|&b| b == b'\n') {
        Some(end) if cut_short => &text[..=end],
        Some(_) | None => text,
    };
    whole.split_inclusive(|&b| b == b'\n').map(without_terminator)
}

/// The cells of a header line: names hold no delimiter, so quotes only need to be taken off.
fn cells(line: &[u8], delimiter: u8) -> impl Iterator<Item = &[u8]> {
    line.split(move |&b| b == delimiter).map(|cell| {
        let cell = cell.trim_ascii();
        let unquoted = cell.strip_prefix(b"\"").and_then(|c| c.strip_suffix(b"\""));
        unquoted.unwrap_or(cell).trim_ascii()
    })
}

fn is_http_url(text: &[u8]) -> bool {
    let starts_with =
        |scheme: &[u8]| text.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme));
    starts_with(b"http://") || starts_with(b"https://")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: ListSpec = ListSpec::Csv { csv: None };

    fn told(text: &str) -> (ListSpec, u8) {
        (sniff(text.as_bytes()), sniff_delimiter(text.as_bytes()))
    }

    #[test]
    fn an_open_brace_is_json_lines() {
        assert_eq!(sniff(b"{\"url\":\"https://a.example\"}\n"), ListSpec::Jsonl);
        assert_eq!(sniff(b"\xef\xbb\xbf\r\n  {\"url\""), ListSpec::Jsonl);
    }

    #[test]
    fn a_header_is_csv_with_its_delimiter() {
        assert_eq!(told("id,url\n1,https://a.example\n"), (CSV, b','));
        assert_eq!(told("\n\nID; \"URL\" ;name\r\n"), (CSV, b';'));
        assert_eq!(told("external_id\turl"), (CSV, b'\t'));
        assert_eq!(told("url\nhttps://a.example\n"), (CSV, b','), "one column, and no URL in the first line");
    }

    #[test]
    fn a_url_with_cells_after_it_is_csv() {
        assert_eq!(told("https://a.example,1\nHTTPS://b.example,2\n"), (CSV, b','));
        assert_eq!(told("https://a.example/?x=1,2;1\nhttps://b.example;2"), (CSV, b';'));
        assert_eq!(told("http://a.example\t1"), (CSV, b'\t'));
        assert_eq!(told("\"https://a.example/x,y\";1\n"), (CSV, b';'));
        assert_eq!(told("\"https://a.example/x,y\"\n"), (CSV, b','));
        assert_eq!(told("https://a.example,1\n\"https://b.example/x,y\",\"2\n3\"\n"), (CSV, b','));
    }

    #[test]
    fn urls_with_commas_of_their_own_are_lines() {
        assert_eq!(sniff(b"https://a.example/@1,2\nhttps://b.example/\n"), ListSpec::Lines);
        assert_eq!(
            sniff(b"https://a.example/;v=1\nhttps://a.example/x\nhttps://a.example/;v=1"),
            ListSpec::Lines
        );
    }

    #[test]
    fn anything_else_is_lines() {
        for text in
            ["", "\n \n", "https://a.example\n", "# url, list\nhttps://a.example\n", "nonsense", "[1,2]"]
        {
            assert_eq!(told(text), (ListSpec::Lines, b','), "{text:?}");
        }
    }

    #[test]
    fn a_line_that_is_cut_off_does_not_count() {
        let row = "https://a.example/xxxxxxxxxxxxxxx,1\n";
        let long = row.repeat(SNIFF_BYTES / row.len() + 1);
        assert_eq!(sniff(&long.as_bytes()[..SNIFF_BYTES]), CSV);
    }
}
