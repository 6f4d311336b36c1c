//! Who is asking. The first extractor of every handler under `/v1`, so that nothing about a route or an id shows before
//! the key is known.

use crate::problem::{ApiError, Code, Result};
use crate::state::Shared;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use conveyor_domain::CallerId;
use conveyor_domain::seal::KeyHash;
use std::fmt;

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The caller, and the key it used: a job may have to forward it.
pub(crate) struct Caller {
    pub id: CallerId,
    pub key: String,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Caller({})", self.id)
    }
}

impl FromRequestParts<Shared> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Caller> {
        let refuse = || ApiError::new(Code::Unauthenticated, "`X-API-Key` is missing or not a known key.");
        let key = the_key(&parts.headers).ok_or_else(refuse)?;
        let id = state.store().caller_of(KeyHash::of(key)).await?.ok_or_else(refuse)?;
        Ok(Caller { id, key: key.to_owned() })
    }
}

/// Exactly one key: with two, a proxy in front might have checked the other.
fn the_key(headers: &HeaderMap) -> Option<&str> {
    let mut keys = headers.get_all(X_API_KEY).iter();
    match (keys.next(), keys.next()) {
        (Some(key), None) => key.to_str().ok(),
        (Some(_), Some(_)) | (None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn one_key_or_none() {
        let mut headers = HeaderMap::new();
        assert_eq!(the_key(&headers), None);
        headers.append(X_API_KEY, HeaderValue::from_static("a"));
        assert_eq!(the_key(&headers), Some("a"));
        headers.append(X_API_KEY, HeaderValue::from_static("a"));
        assert_eq!(the_key(&headers), None);
    }

    #[test]
    fn a_caller_does_not_print_its_key() {
        let caller = Caller { id: CallerId::from_bytes([1; 16]), key: "hunter2".into() };
        assert!(!format!("{caller:?}").contains("hunter2"));
    }
}
