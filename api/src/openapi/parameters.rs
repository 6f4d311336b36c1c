//! Parameters: those in paths follow from the path, the others are said by each operation.

use super::schemas::shared;
use crate::warnings::STRICT;
use conveyor_domain::{
    ApiKeyId, CallerId, EventId, ExportId, JobId, LetterId, RunId, TaskId, UploadId, limits,
};
use schemars::JsonSchema;
use serde_json::{Value, json};

/// The parameters in a path.
pub(super) fn of_path(path: &str) -> Vec<Value> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).map(in_path).collect()
}

fn in_path(name: &str) -> Value {
    const ULID: &str = "01KCX5T0Q8H2V4M6N8P0R2S4T6";
    let (schema, description, example): (Value, &str, Value) = match name {
        "job" => (shared::<JobId>(), "The job.", ULID.into()),
        "run" => (shared::<RunId>(), "The run, of that job.", ULID.into()),
        "task" => (shared::<TaskId>(), "The task, of that run.", "000000003c9e2d3a1b5f7a9c0e4d6b82".into()),
        "upload" => (shared::<UploadId>(), "The slot: its `file_input_id`.", ULID.into()),
        "caller" => (shared::<CallerId>(), "The caller.", ULID.into()),
        "event" => (shared::<EventId>(), "The notification, of that job: its `event_id`.", ULID.into()),
        "export" => (shared::<ExportId>(), "The export, of that run.", ULID.into()),
        // Not `key`: that is the secret itself, in the answer that makes one.
        "key_id" => (shared::<ApiKeyId>(), "The key.", ULID.into()),
        "letter" => (shared::<LetterId>(), "The dead letter.", ULID.into()),
        "number" => (
            json!({"type": "integer", "minimum": 1, "maximum": limits::UPLOAD_PARTS_MAX}),
            "The part.",
            1.into(),
        ),
        // A test demands a description of every parameter.
        _ => (json!({"type": "string"}), "", "".into()),
    };
    json!({
        "name": name, "in": "path", "required": true, "description": description, "schema": schema,
        "example": example,
    })
}

pub(super) fn query(name: &str, schema: Value, description: &str, example: Value) -> Value {
    json!({
        "name": name, "in": "query", "description": description, "schema": schema, "example": example,
    })
}

pub(super) fn header(name: &str, schema: Value, description: &str, example: Value) -> Value {
    json!({
        "name": name, "in": "header", "description": description, "schema": schema, "example": example,
    })
}

/// One of some words.
pub(super) fn choice(name: &str, words: &[&str], description: &str) -> Value {
    query(name, json!({"type": "string", "enum": words}), description, words[0].into())
}

pub(super) fn id<T: JsonSchema>(name: &str, description: &str) -> Value {
    query(name, shared::<T>(), description, "01KCX5T0Q8H2V4M6N8P0R2S4T6".into())
}

/// `limit`, for a list of pages.
pub(super) fn limit(default: u32, max: u32) -> Value {
    let schema = json!({"type": "integer", "minimum": 1, "maximum": max, "default": default});
    query("limit", schema, "How many a page has.", default.into())
}

pub(super) fn cursor() -> Value {
    let schema = json!({"type": "string"});
    query(
        "cursor",
        schema,
        "`next_cursor` of the page before. It is sealed, is of use for the same query of the same caller only, and expires \
         after a day.",
        "AZr9k2x7".into(),
    )
}

/// For a request that may be repeated.
pub(super) fn idempotency_key() -> Value {
    let schema =
        json!({"type": "string", "pattern": "^[\\x20-\\x7e]+$", "maxLength": limits::IDEMPOTENCY_KEY_MAX});
    header(
        "Idempotency-Key",
        schema,
        "A request that is repeated with the same key within a day is answered as at first, with `Idempotency-Replayed`, and \
         done once. Spaces at its ends are not part of it.",
        "nightly-2026-01-01".into(),
    )
}

/// Of every route that takes a JSON body.
pub(super) fn strict() -> Value {
    choice(
        STRICT,
        &["false", "true"],
        "Refuse fields of the body that are not known, instead of ignoring them and naming them in `warnings` of the answer.",
    )
}

/// What makes a URL to read something a signed one.
pub(super) fn signature_to_read() -> [Value; 3] {
    let caller = id::<CallerId>("caller", "Whose it is; URLs of earlier versions do without.");
    let [expires, signature] = signature();
    [caller, expires, signature]
}

/// What makes a URL a signed one.
pub(super) fn signature() -> [Value; 2] {
    let text = json!({"type": "string"});
    let mut expires = query("expires", text.clone(), "Until when, in seconds.", "1767232800".into());
    let mut signature = query("signature", text, "Over method, path and expiry.", "q0b3f1".into());
    expires["required"] = true.into();
    signature["required"] = true.into();
    [expires, signature]
}
