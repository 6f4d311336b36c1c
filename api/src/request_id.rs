//! The id that ties an answer, its problem and its log line together.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use conveyor_domain::{Entropy, Timestamp, limits};
use std::fmt;

pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestId(String);

impl RequestId {
    /// The caller's own if it is fit to be logged and echoed, otherwise a new one.
    pub fn of(headers: &HeaderMap, now: Timestamp, entropy: &Entropy) -> RequestId {
        let given = headers.get(X_REQUEST_ID).and_then(|value| value.to_str().ok());
        match given {
            Some(text) if is_legal(text) => RequestId(text.to_owned()),
            Some(_) | None => RequestId(entropy.ulid(now).to_string()),
        }
    }

    pub fn to_header(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.0).ok()
    }
}

fn is_legal(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    (1..=limits::REQUEST_ID_MAX).contains(&text.len()) && text.bytes().all(legal)
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_for(given: &str) -> String {
        let headers =
            HeaderMap::from_iter([(X_REQUEST_ID, HeaderValue::from_bytes(given.as_bytes()).unwrap())]);
        RequestId::of(&headers, Timestamp(0), &Entropy::from_number(1)).to_string()
    }

    #[test]
    fn a_callers_id_is_kept_only_if_it_is_harmless() {
        assert_eq!(id_for("a.B_9-c"), "a.B_9-c");
        for bad in ["", "a b", "a\"b", "{x}", "ü"] {
            assert_eq!(id_for(bad).len(), 26, "{bad:?}");
        }
        assert!(is_legal(&"x".repeat(128)));
        assert!(!is_legal(&"x".repeat(129)));
    }
}
