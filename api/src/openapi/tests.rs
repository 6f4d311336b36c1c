//! Holds the document against the code that it describes.

use super::{document, document_text, operations, page};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../schemas/openapi.json");

#[test]
fn every_route_is_described_and_nothing_else() {
    let described: BTreeSet<&str> = operations().iter().map(|operation| operation.path).collect();
    let routed: BTreeSet<&str> = crate::routes::paths().into_iter().collect();
    let missing: Vec<_> = routed.difference(&described).collect();
    assert!(missing.is_empty(), "routes without a description in api/src/openapi: {missing:?}");
    let invented: Vec<_> = described.difference(&routed).collect();
    assert!(invented.is_empty(), "descriptions without a route: {invented:?}");
}

/// `UPDATE_SCHEMAS=1 cargo test -p conveyor-api openapi` writes it anew.
#[test]
fn the_kept_document_is_what_the_code_says() {
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        std::fs::write(KEPT, document_text()).unwrap();
    }
    let kept = std::fs::read_to_string(Path::new(KEPT)).unwrap_or_default();
    assert!(
        kept == document_text(),
        "schemas/openapi.json is out of date: UPDATE_SCHEMAS=1 cargo test -p conveyor-api openapi"
    );
}

#[test]
fn everything_is_explained() {
    let mut silent = Vec::new();
    for (name, schema) in document()["components"]["schemas"].as_object().unwrap() {
        for (field, value) in schema["properties"].as_object().into_iter().flatten() {
            if value["description"].as_str().is_none_or(str::is_empty) {
                silent.push(format!("{name}.{field}"));
            }
        }
    }
    assert!(silent.is_empty(), "fields without a row in words.rs or a comment: {silent:#?}");
    for (name, answer) in document()["components"]["responses"].as_object().unwrap() {
        let description = answer["description"].as_str().unwrap();
        assert!(!description.lines().any(|line| line.ends_with("`: ")), "{name}: a code without a word");
    }
    let mut ids = BTreeSet::new();
    for methods in document()["paths"].as_object().unwrap().values() {
        for operation in methods.as_object().unwrap().values() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(ids.insert(id), "{id} twice");
            assert_ne!(operation["tags"][0], "", "{id}");
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                assert_ne!(parameter["description"], "", "{id}: {}", parameter["name"]);
            }
        }
    }
}

#[test]
fn references_lead_somewhere() {
    fn walk(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                    found.push(reference.to_owned());
                }
                fields.values().for_each(|value| walk(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| walk(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut found = Vec::new();
    walk(document(), &mut found);
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document().pointer(pointer).is_some(), "{reference}");
    }
}

#[test]
fn examples_fit_their_shapes() {
    for (path, methods) in document()["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let answers = operation["responses"].as_object().unwrap().values();
            for body in answers.chain([&operation["requestBody"]]) {
                for media in body["content"].as_object().into_iter().flat_map(|content| content.values()) {
                    if let Some(example) = media.get("example") {
                        fits(&media["schema"], example, &format!("{method} {path}"));
                    }
                }
            }
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                fits(
                    &parameter["schema"],
                    &parameter["example"],
                    &format!("{method} {path} {}", parameter["name"]),
                );
            }
        }
    }
    for (name, answer) in document()["components"]["responses"].as_object().unwrap() {
        let media = &answer["content"]["application/problem+json"];
        for code in media["examples"].as_object().unwrap().keys() {
            fits(&media["schema"], &document()["components"]["examples"][code]["value"], name);
        }
    }
    for (name, schema) in document()["components"]["schemas"].as_object().unwrap() {
        for (field, value) in schema["properties"].as_object().into_iter().flatten() {
            for example in value["examples"].as_array().into_iter().flatten() {
                fits(value, example, &format!("{name}.{field}"));
            }
        }
    }
}

#[track_caller]
fn fits(schema: &Value, value: &Value, what: &str) {
    let rooted = json!({"allOf": [schema], "components": document()["components"]});
    let validator = jsonschema::validator_for(&rooted).unwrap();
    let faults: Vec<String> =
        validator.iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(faults.is_empty(), "{what}: {faults:#?}\n{value:#}");
}

/// A request is parsed by names, and described by a type: they have the same.
#[test]
fn bodies_have_the_fields_that_are_parsed() {
    use crate::{routes, wire};
    let parsed: [(&str, Vec<&str>); 12] = [
        ("SubmitJob", wire::submit::FIELDS.to_vec()),
        ("ScheduleBody", wire::schedule::FIELDS.to_vec()),
        ("CreateKey", wire::keys::KEY.to_vec()),
        ("ChangeQuotas", wire::keys::QUOTAS.to_vec()),
        ("QuotasBody", wire::keys::QUOTAS.to_vec()),
        ("WebhookBody", wire::webhook::FIELDS.to_vec()),
        ("PutWebhook", wire::webhook::FIELDS.to_vec()),
        ("RerunJob", wire::rerun::FIELDS.to_vec()),
        ("CreateInput", wire::input::FIELDS.to_vec()),
        ("ChangeLimits", wire::limits::CHANGES.to_vec()),
        ("ReconcileRequest", routes::RECONCILE_FIELDS.to_vec()),
        ("RedriveLetters", routes::REDRIVE_FIELDS.to_vec()),
    ];
    for (name, fields) in parsed {
        let described = document()["components"]["schemas"][name]["properties"].as_object().unwrap();
        let described: BTreeSet<&str> = described.keys().map(String::as_str).collect();
        assert_eq!(described, fields.into_iter().collect(), "{name}");
    }
}

#[test]
fn the_page_shows_every_operation_and_shape() {
    for operation in operations() {
        assert!(page().contains(&format!("id=\"{}\"", operation.id)), "{}", operation.id);
    }
    for name in document()["components"]["schemas"].as_object().unwrap().keys() {
        assert!(page().contains(&format!("id=\"{name}\"")), "{name}");
    }
    assert!(!page().contains("<script") && !page().contains("http-equiv"));
}

#[test]
fn lists_are_sent_as_what_they_are() {
    use conveyor_domain::list::ListSpec;
    let specs = [ListSpec::Csv { csv: None }, ListSpec::Jsonl, ListSpec::Lines];
    assert_eq!(specs.map(|spec| spec.content_type()).to_vec(), super::inputs::LISTS);
}
