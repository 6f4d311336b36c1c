//! The API, described by itself. The same for everybody, so it needs no key.

use crate::openapi;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::IntoResponse;

pub(super) async fn document() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], openapi::document_text())
}

pub(super) async fn page() -> impl IntoResponse {
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        // It needs nothing from anywhere, and runs nothing.
        (CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'"),
    ];
    (headers, openapi::page())
}
