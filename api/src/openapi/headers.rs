//! Headers of answers: each is said once, and named where it is sent.

use conveyor_domain::limits;
use serde_json::{Map, Value, json};

/// What every answer has.
pub(super) const ALWAYS: [&str; 1] = ["X-Request-ID"];
const RATES: [&str; 3] = ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"];

/// Those of an answer to a request with a known key.
pub(super) fn of_rates(has_key: bool) -> &'static [&'static str] {
    if has_key { &RATES } else { &[] }
}

pub(super) fn named(names: impl Iterator<Item = &'static str>) -> Map<String, Value> {
    names.map(|name| (name.to_owned(), json!({"$ref": format!("#/components/headers/{name}")}))).collect()
}

pub(super) fn all() -> Value {
    let header = |description: &str, schema: Value, example: Value| json!({"description": description, "required": true, "schema": schema, "example": example});
    let maybe = |description: &str, schema: Value, example: Value| json!({"description": description, "schema": schema, "example": example});
    let count = json!({"type": "integer", "minimum": 0});
    let id_max = limits::REQUEST_ID_MAX;
    let id = json!({"type": "string", "pattern": "^[A-Za-z0-9._-]+$", "minLength": 1, "maxLength": id_max});
    let text = json!({"type": "string"});
    json!({
        "X-Request-ID": header(
            "The caller's own, if it sent one that fits; otherwise a new one.", id, "01KCX5T0Q8H2V4M6N8P0R2S4T6".into(),
        ),
        "Retry-After": header("After how many seconds it is worth asking again.", count.clone(), 1.into()),
        "Location": header(
            "The path of what was made.", json!({"type": "string", "pattern": "^/v1/"}),
            "/v1/jobs/01KCX5T0Q8H2V4M6N8P0R2S4T6".into(),
        ),
        "Idempotency-Replayed": maybe(
            "`true` if this is the answer to an earlier request with the same `Idempotency-Key`: nothing was done again.",
            json!({"type": "string", "enum": ["true"]}), "true".into(),
        ),
        "RateLimit-Limit": maybe("How many requests at once, where requests are limited.", count.clone(), 1000.into()),
        "RateLimit-Remaining": maybe("How many of them are left.", count.clone(), 999.into()),
        "RateLimit-Reset": maybe("In how many seconds all of them are.", count, 1.into()),
        "ETag": header("The sha256 of the bytes, in quotes.", text.clone(), "\"9f86d081884c7d65\"".into()),
        "Content-Disposition": header("Whether it is shown or kept as a file.", text.clone(), "inline".into()),
        "X-Content-Type-Options": header("That its type is not to be guessed.", text.clone(), "nosniff".into()),
        "Content-Security-Policy": header("What a browser may do with it.", text, "sandbox".into()),
    })
}
