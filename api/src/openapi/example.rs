//! Examples of answers, put together from the examples of their fields.

use serde_json::{Map, Value, json};

/// Fields that most answers do not have: an example with all of them would contradict itself.
const RARE: &[&str] = &[
    "changed",
    "disabled",
    "disagreements",
    "error",
    "errors",
    "failure_detail",
    "failure_reason",
    "failure_reasons",
    "findings",
    "held_until",
    "inconsistent",
    "ingest_status",
    "key",
    "last_error",
    "line",
    "method",
    "more_warnings",
    "multipart",
    "next_attempt_at",
    "next_scheduled_run",
    "number",
    "part_min_bytes",
    "parts",
    "pause_reason",
    "pause_state",
    "reason",
    "rerun_of",
    "revoked_at",
    "schedule",
    "schedule_state",
    "source_run_id",
    "total_is_final",
    "unclassified",
    "unsure",
    "until",
    "warnings",
];

/// Changes an example as a JSON merge patch says: null takes a field away.
pub(super) fn merge(example: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *example = patch.clone();
        return;
    };
    if !example.is_object() {
        *example = json!({});
    }
    for (name, value) in patch {
        match (value, example.as_object_mut()) {
            (Value::Null, Some(fields)) => drop(fields.remove(name)),
            _ => merge(&mut example[name], value),
        }
    }
}

/// One value of a shape.
pub(super) fn of(schema: &Value, components: &Map<String, Value>) -> Value {
    if let Some(example) = schema["examples"].get(0) {
        return example.clone();
    }
    if let Some(name) = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next()) {
        return of(components.get(name).unwrap_or(&Value::Null), components);
    }
    for choices in ["allOf", "oneOf", "anyOf"] {
        if let Some(first) = schema[choices].get(0) {
            return of(first, components);
        }
    }
    if let Some(value) = schema.get("const").or_else(|| schema["enum"].get(0)) {
        return value.clone();
    }
    match schema["type"].as_str() {
        Some("object") => object(schema, components),
        Some("array") => json!([of(&schema["items"], components)]),
        Some("string") => "text".into(),
        Some("integer" | "number") => 1.into(),
        Some("boolean") => true.into(),
        Some(_) | None => Value::Null,
    }
}

fn object(schema: &Value, components: &Map<String, Value>) -> Value {
    let required =
        |name: &String| schema["required"].as_array().is_some_and(|all| all.contains(&json!(name)));
    let fields = schema["properties"].as_object().into_iter().flatten();
    let shown = fields.filter(|(name, _)| required(name) || !RARE.contains(&name.as_str()));
    let value = |(name, field): (&String, &Value)| {
        let rare = RARE.contains(&name.as_str()) && field["type"] == "array";
        (name.clone(), if rare { json!([]) } else { of(field, components) })
    };
    Value::Object(shown.map(value).collect())
}
