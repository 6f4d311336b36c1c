//! Text of strangers in files that people open with a spreadsheet.

use std::borrow::Cow;

/// Text that a spreadsheet shows and does not run: what it would take for a formula gets an apostrophe.
pub fn inert(text: &str) -> Cow<'_, str> {
    match text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        true => Cow::Owned(format!("'{text}")),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_never_a_formula() {
        for formula in ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "=HYPERLINK(\"http://a\",\"b\")"] {
            assert_eq!(inert(formula), format!("'{formula}"));
        }
        for plain in ["", "plain", "a,b", "say \"x\"", "a\nb", "a=b"] {
            assert_eq!(inert(plain), plain);
        }
    }
}
