//! The API, described by itself as OpenAPI 3.1 (SPEC 10). Shapes come from the types that are serialised, limits from
//! `domain/src/limits.rs`, codes from `problem.rs`; what a route is for is said here, by topic. A test holds the list of
//! operations against the router, and every other HTTP test the answers against the document.

mod admin;
mod document;
mod example;
mod exports;
mod headers;
mod health;
mod inputs;
mod jobs;
mod keys;
mod notification;
mod operation;
mod page;
mod parameters;
mod problems;
mod results;
mod runs;
mod schedules;
mod schemas;
#[cfg(test)]
mod tests;
mod timeline;
mod webhooks;

use operation::Operation;
use serde_json::Value;
use std::sync::LazyLock;

/// The document, which is the same for every process of one version.
pub fn document() -> &'static Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(|| document::build(operations()));
    &DOCUMENT
}

/// The document as people read it.
pub(crate) fn page() -> &'static str {
    static PAGE: LazyLock<String> = LazyLock::new(|| {
        let ids: Vec<&str> = operations().iter().map(|operation| operation.id).collect();
        page::render(document(), &ids)
    });
    &PAGE
}

/// The document as it is served and kept.
pub fn document_text() -> &'static str {
    // A value has string keys and finite numbers only: it always has a JSON form.
    static TEXT: LazyLock<String> =
        LazyLock::new(|| serde_json::to_string_pretty(document()).unwrap_or_default() + "\n");
    &TEXT
}

/// Every operation, in the order in which people read about them.
fn operations() -> Vec<Operation> {
    [
        jobs::operations(),
        runs::operations(),
        results::operations(),
        exports::operations(),
        schedules::operations(),
        inputs::operations(),
        webhooks::operations(),
        admin::operations(),
        keys::operations(),
        health::operations(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
