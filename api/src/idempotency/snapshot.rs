//! An answer that can be given again.

use crate::problem::{ApiError, Code, Result};
use crate::warnings::add_to;
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderName, LOCATION, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use conveyor_domain::Fingerprint;
use conveyor_domain::access::idempotency::{Answered, Kept};
use conveyor_wire::Warnings;
use serde::Serialize;

pub(crate) const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// A success, in JSON.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    status: StatusCode,
    location: Option<String>,
    body: String,
}

impl Snapshot {
    pub fn new(status: StatusCode, body: &impl Serialize) -> Snapshot {
        // What is answered are plain structs: there is nothing in them that JSON could not say.
        Snapshot { status, location: None, body: serde_json::to_string(body).unwrap_or_default() }
    }

    #[must_use]
    pub fn at(mut self, location: String) -> Snapshot {
        self.location = Some(location);
        self
    }

    /// With what is told beside it.
    #[must_use]
    pub fn with(mut self, warnings: &Warnings) -> Snapshot {
        let mut body = self.body.into_bytes();
        add_to(warnings, &mut body);
        self.body = String::from_utf8(body).unwrap_or_default();
        self
    }

    /// As it is kept.
    pub(super) fn document(self, fingerprint: Fingerprint) -> String {
        let kept = Kept::done(fingerprint, self.status.as_u16(), self.body, self.location);
        serde_json::to_string(&kept).unwrap_or_default()
    }
}

impl IntoResponse for Snapshot {
    fn into_response(self) -> Response {
        let mut response = (self.status, Body::from(self.body)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(location) = self.location.and_then(|location| HeaderValue::try_from(location).ok()) {
            headers.insert(LOCATION, location);
        }
        if self.status == StatusCode::ACCEPTED {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// The answer once more.
pub(super) fn replay(answered: Answered) -> Result<Response> {
    let Answered { status, body, location, fingerprint: _ } = answered;
    let Some(body) = body else {
        let detail = "The request was carried out; its answer was too long to be kept.";
        return Err(ApiError::new(Code::IdempotencyKeyConflict, detail));
    };
    let status = StatusCode::from_u16(status).map_err(|e| ApiError::internal(e.to_string()))?;
    let mut response = Snapshot { status, location, body }.into_response();
    response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    Ok(response)
}
