//! Who is asking: a caller, or an operator. The first extractor of every handler under `/v1`, so that nothing about a route
//! or an id shows before the key is known.

use crate::managed_keys;
use crate::problem::{ApiError, Code, Result};
use crate::request_rates::{self, Who};
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
        if state.operators.has(key) {
            let detail = "An operator key is not a caller's: it opens `/v1/admin` and nothing else.";
            return Err(ApiError::new(Code::Unauthenticated, detail));
        }
        let id = state.store().caller_of(KeyHash::of(key)).await?.ok_or_else(refuse)?;
        request_rates::count(state, parts, Who::Caller(id))?;
        Ok(Caller { id, key: key.to_owned() })
    }
}

/// How a refusal of a server begins that has no operator: the way out is another than with a wrong key.
pub const NO_OPERATOR_KEY: &str = "This server has no operator key";

/// Somebody with an operator key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operator;

impl FromRequestParts<Shared> for Operator {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Operator> {
        let given = the_key(&parts.headers);
        if let Some(key) = given
            && is_operator(state, key).await?
        {
            request_rates::count(state, parts, Who::Operator(KeyHash::of(key)))?;
            return Ok(Operator);
        }
        if state.operators.is_empty() {
            let detail =
                format!("{NO_OPERATOR_KEY}: start it with `--operator-key`, or CONVEYOR_OPERATOR_KEY.");
            return Err(ApiError::new(Code::Forbidden, detail));
        }
        let refuse =
            || ApiError::new(Code::Unauthenticated, "`X-API-Key` is missing or not a known operator key.");
        let key = given.ok_or_else(refuse)?;
        let caller = state.store().caller_of(KeyHash::of(key)).await?.ok_or_else(refuse)?;
        request_rates::count(state, parts, Who::Caller(caller))?;
        Err(ApiError::new(Code::Forbidden, "The route needs an operator key, not a caller's."))
    }
}

/// One that this process was started with, or that an operator made.
async fn is_operator(state: &Shared, key: &str) -> Result<bool> {
    Ok(state.operators.has(key) || managed_keys::is_operator(state.store(), KeyHash::of(key)).await?)
}

/// The keys that open `/v1/admin` of this process, as hashes.
#[derive(Clone, Default)]
pub struct OperatorKeys(Vec<KeyHash>);

impl OperatorKeys {
    pub fn new<'a>(keys: impl IntoIterator<Item = &'a str>) -> OperatorKeys {
        OperatorKeys(keys.into_iter().map(KeyHash::of).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Looks at every byte of every key, whatever it finds: the time that it takes tells nothing.
    fn has(&self, key: &str) -> bool {
        let given = KeyHash::of(key);
        let differs = |known: &KeyHash| {
            known.0.iter().zip(given.0).fold(0, |all, (known, given)| all | (known ^ given))
        };
        self.0.iter().fold(false, |found, known| found | (differs(known) == 0))
    }
}

impl fmt::Debug for OperatorKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperatorKeys({})", self.0.len())
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
    fn an_operator_key_is_known_whole_or_not_at_all() {
        let keys = OperatorKeys::new(["one-operator-key-1", "one-operator-key-2"]);
        assert!(keys.has("one-operator-key-1") && keys.has("one-operator-key-2"));
        for other in ["", "one-operator-key-", "one-operator-key-3", "one-operator-key-11"] {
            assert!(!keys.has(other), "{other}");
        }
        assert!(!OperatorKeys::default().has(""));
        assert_eq!(format!("{keys:?}"), "OperatorKeys(2)");
    }

    #[test]
    fn a_caller_does_not_print_its_key() {
        let caller = Caller { id: CallerId::from_bytes([1; 16]), key: "hunter2".into() };
        assert!(!format!("{caller:?}").contains("hunter2"));
    }
}
