//! What a request with a key asks for.

use crate::problem::{ApiError, Result};
use axum::extract::Request;
use axum::http::HeaderMap;
use conveyor_domain::access::idempotency::record_key;
use conveyor_domain::{CallerId, Fingerprint, Fingerprinting, RecordKey, limits};

const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// A key, and the request that it is for, as far as it was read.
#[derive(Debug)]
pub(crate) struct Intent {
    key: RecordKey,
    fingerprint: Fingerprinting,
}

impl Intent {
    /// `None` if the request has no key. Its body has yet to [pass](Intent::pass).
    pub fn of(request: &Request, caller: CallerId) -> Result<Option<Intent>> {
        let Some(key) = key_of(request.headers(), caller)? else { return Ok(None) };
        let (method, uri) = (request.method(), request.uri());
        let fingerprint = Fingerprinting::of(method.as_str(), uri.path(), uri.query().unwrap_or_default());
        Ok(Some(Intent { key, fingerprint }))
    }

    pub fn pass(&mut self, bytes: &[u8]) {
        self.fingerprint.pass(bytes);
    }

    /// All of the body has passed.
    pub(super) fn whole(self) -> (RecordKey, Fingerprint) {
        (self.key, self.fingerprint.taken())
    }
}

fn key_of(headers: &HeaderMap, caller: CallerId) -> Result<Option<RecordKey>> {
    let mut given = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = given.next() else { return Ok(None) };
    if given.next().is_some() {
        return Err(ApiError::invalid("`Idempotency-Key` is given twice."));
    }
    let refuse = || {
        let max = limits::IDEMPOTENCY_KEY_MAX;
        ApiError::invalid(format!("`Idempotency-Key` must be 1 to {max} printable characters of ASCII."))
    };
    record_key(caller, value.as_bytes()).map(Some).ok_or_else(refuse)
}
