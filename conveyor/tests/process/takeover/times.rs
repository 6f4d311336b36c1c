//! Moves the times in stored text: milliseconds (13 digits) and microseconds (16 digits) since 1970.

/// Times further away than this from the moment of the image are no times: tokens, versions, sizes.
const REACH_MS: i64 = 40 * 24 * 60 * 60 * 1000;

/// Adds `by_ms` to every time in a text. A time is a whole number between delimiters of JSON or of a sort key.
pub fn moved(text: &str, made_ms: i64, by_ms: i64) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let (mut copied, mut at) = (0, 0);
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let end = bytes[at..].iter().position(|b| !b.is_ascii_digit()).map_or(bytes.len(), |n| at + n);
        let apart = (at == 0 || delimits(bytes[at - 1])) && (end == bytes.len() || delimits(bytes[end]));
        if apart && let Some(other) = moved_number(&text[at..end], made_ms, by_ms) {
            out.push_str(&text[copied..at]);
            out.push_str(&other);
            copied = end;
        }
        at = end;
    }
    out.push_str(&text[copied..]);
    out
}

fn delimits(byte: u8) -> bool {
    matches!(byte, b':' | b',' | b'[' | b']' | b'{' | b'}' | b'#' | b'"' | b' ')
}

fn moved_number(digits: &str, made_ms: i64, by_ms: i64) -> Option<String> {
    let number: i64 = digits.parse().ok()?;
    // Sort keys are padded with zeros.
    let unit = match digits.trim_start_matches('0').len() {
        13 => 1,
        16 => 1000,
        _ => return None,
    };
    let near = (number / unit - made_ms).abs() < REACH_MS;
    near.then(|| format!("{:0width$}", number + by_ms * unit, width = digits.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_moved_and_nothing_else() {
        let made = 1_794_963_096_022;
        let move_it = |text: &str| moved(text, made, -1_000);
        assert_eq!(
            move_it(r#"{"at":1794963096022,"bucket":1794963096144000,"size":1794963096}"#),
            r#"{"at":1794963095022,"bucket":1794963095144000,"size":1794963096}"#
        );
        assert_eq!(move_it("#1794963096022#01M7"), "#1794963095022#01M7");
        assert_eq!(move_it("001794963096022#01M7"), "001794963095022#01M7");
        for same in ["templates/01M7/1794963096022", "a1794963096022", r#"{"version":9794963096022}"#] {
            assert_eq!(move_it(same), same);
        }
    }
}
