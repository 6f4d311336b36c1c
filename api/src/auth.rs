//! Who is asking: a caller, or an operator. The first extractor of every handler under `/v1`, so that nothing about a route
//! or an id shows before the key is known.

use crate::known_keys::Asked;
use crate::managed_keys;
use crate::problem::{ApiError, Code, Result};
use crate::request_rates::{self, Who};
use crate::shares::in_flight;
use crate::state::Shared;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use conveyor_domain::{CallerId, KeyHash};
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
        let hash = KeyHash::of(key);
        let lookup = caller_of(state, hash);
        let id = state.unknown_keys.look_up(&parts.extensions, hash, state.now(), lookup).await?;
        let id = id.ok_or_else(refuse)?;
        admit(state, parts, Who::Caller(id)).await?;
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
        let found = match given {
            Some(key) => {
                let (hash, lookup) = (KeyHash::of(key), owner_of(state, key));
                state.unknown_keys.look_up(&parts.extensions, hash, state.now(), lookup).await?
            }
            None => None,
        };
        if let Some(operator @ Who::Operator(_)) = found {
            admit(state, parts, operator).await?;
            return Ok(Operator);
        }
        if state.operators.is_empty() {
            let detail =
                format!("{NO_OPERATOR_KEY}: start it with `--operator-key`, or CONVEYOR_OPERATOR_KEY.");
            return Err(ApiError::new(Code::Forbidden, detail));
        }
        let refuse =
            || ApiError::new(Code::Unauthenticated, "`X-API-Key` is missing or not a known operator key.");
        admit(state, parts, found.ok_or_else(refuse)?).await?;
        Err(ApiError::new(Code::Forbidden, "The route needs an operator key, not a caller's."))
    }
}

/// Counts a request whose key is known, and gives it a place.
async fn admit(state: &Shared, parts: &Parts, who: Who) -> Result<()> {
    request_rates::count(state, parts, who)?;
    in_flight::admit_in_turn(state, parts, who).await
}

/// Whose key it is, if it is accepted.
async fn caller_of(state: &Shared, hash: KeyHash) -> Result<Option<CallerId>> {
    let read = || async { Ok(state.store().caller_of(hash).await?.map(Who::Caller)) };
    match state.keys.find(Asked::Caller(hash), state.now(), read).await? {
        Some(Who::Caller(caller)) => Ok(Some(caller)),
        Some(Who::Operator(_) | Who::Upload(_) | Who::Signed(_)) | None => Ok(None),
    }
}

/// Whose key it is: an operator's that this process was started with or that an operator made, or a caller's.
async fn owner_of(state: &Shared, key: &str) -> Result<Option<Who>> {
    let hash = KeyHash::of(key);
    let operator = Who::Operator(hash);
    if state.operators.has(key) {
        return Ok(Some(operator));
    }
    let read = || async { Ok(managed_keys::is_operator(state.store(), hash).await?.then_some(operator)) };
    if let Some(operator) = state.keys.find(Asked::Operator(hash), state.now(), read).await? {
        return Ok(Some(operator));
    }
    Ok(caller_of(state, hash).await?.map(Who::Caller))
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

    pub(crate) fn hashes(&self) -> impl Iterator<Item = KeyHash> {
        self.0.iter().copied()
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
