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

/// What examples show is what there can be: no field of one contradicts another.
#[test]
fn examples_agree_with_themselves() {
    let example = |path: &str, method: &str, status: &str| {
        let pointer = format!("/responses/{status}/content/application~1json/example");
        document()["paths"][path][method].pointer(&pointer).unwrap()
    };
    let submitted = example("/v1/jobs", "post", "201");
    assert_eq!(submitted["latest_run"]["stats"]["completed"], 0);
    assert!(submitted["latest_run"].get("ingest_status").is_none());
    let accepted = example("/v1/jobs", "post", "202");
    assert_eq!(accepted["latest_run"]["ingest_status"], "pending");
    assert!(example("/v1/jobs/{job}", "get", "200").get("schedule").is_none());
    assert_eq!(example("/v1/jobs/{job}/schedule", "put", "200")["type"], "scheduled");
    assert_eq!(example("/v1/jobs/{job}/pause", "post", "200")["pause_state"], "paused");
    let rerun = example("/v1/jobs/{job}/rerun", "post", "201");
    assert_ne!(rerun["rerun_of"], rerun["latest_run"]["run_id"]);
    assert!(rerun["rerun_of"].is_string());
    let key = example("/v1/admin/keys", "get", "200");
    assert!(key["keys"][0].get("key").is_none(), "only the answer that makes it has it");
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

/// Fields of a shape, also those of its choices and of what has no name of its own.
fn fields<'a>(name: &str, schema: &'a Value, found: &mut Vec<(String, &'a Value)>) {
    for (field, value) in schema["properties"].as_object().into_iter().flatten() {
        let name = format!("{name}.{field}");
        fields(&name, value, found);
        found.push((name, value));
    }
    for choices in ["oneOf", "anyOf", "allOf"] {
        let choices = schema[choices].as_array().into_iter().flatten();
        choices.filter(|choice| choice["type"] == "object").for_each(|choice| fields(name, choice, found));
    }
}

/// The words of a closed set that nothing is said about.
fn unexplained(schema: &Value) -> Vec<&str> {
    let said = schema["description"].as_str().unwrap_or_default();
    let choices = schema["oneOf"].as_array().into_iter().flatten().chain([schema]);
    let choices = choices.filter(|one| std::ptr::eq(*one, schema) || one["description"].is_null());
    let words = choices.flat_map(|one| one["enum"].as_array().into_iter().flatten().chain([&one["const"]]));
    words.filter_map(Value::as_str).filter(|word| !said.contains(&format!("`{word}`"))).collect()
}

#[test]
fn every_shape_and_field_is_explained() {
    let mut silent = Vec::new();
    for (name, schema) in document()["components"]["schemas"].as_object().unwrap() {
        let mut all = vec![(name.clone(), schema)];
        fields(name, schema, &mut all);
        for (name, value) in all {
            // A field of a shared shape needs no words of its own: the shape has some.
            let is_shared = [&value["$ref"], &value["anyOf"][0]["$ref"], &value["items"]["$ref"]];
            let is_shared = is_shared.into_iter().any(Value::is_string);
            if value["description"].as_str().is_none_or(str::is_empty) && !is_shared {
                silent.push(name.clone());
            }
            silent.extend(unexplained(value).iter().map(|word| format!("{name}: {word}")));
        }
    }
    assert!(silent.is_empty(), "without a doc comment: {silent:#?}");
    for (name, answer) in document()["components"]["responses"].as_object().unwrap() {
        let description = answer["description"].as_str().unwrap();
        assert!(!description.lines().any(|line| line.ends_with("`: ")), "{name}: a code without a word");
    }
}

#[test]
fn every_operation_is_explained() {
    let mut ids = BTreeSet::new();
    let paths = document()["paths"].as_object().unwrap().values();
    for methods in paths.chain(document()["webhooks"].as_object().unwrap().values()) {
        for operation in methods.as_object().unwrap().values() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(ids.insert(id), "{id} twice");
            assert_ne!(operation["tags"][0], "", "{id}");
            assert_ne!(operation["description"], "", "{id} has no description");
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                assert_ne!(parameter["description"], "", "{id}: {}", parameter["name"]);
            }
            for (status, answer) in operation["responses"].as_object().unwrap() {
                let has = |one: &Value| one["description"].is_string() || one["$ref"].is_string();
                assert!(has(answer), "{id}: {status}");
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
    let paths = document()["paths"].as_object().unwrap().iter();
    for (path, methods) in paths.chain(document()["webhooks"].as_object().unwrap()) {
        for (method, operation) in methods.as_object().unwrap() {
            let answers = operation["responses"].as_object().unwrap().values();
            for body in answers.chain([&operation["requestBody"]]) {
                for (name, media) in body["content"].as_object().into_iter().flatten() {
                    let example = media.get("example");
                    let example = example.unwrap_or_else(|| panic!("{method} {path}: {name} has no example"));
                    if media["schema"].is_object() {
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
        let mut all = vec![(name.clone(), schema)];
        fields(name, schema, &mut all);
        for (name, value) in all {
            for example in value["examples"].as_array().into_iter().flatten() {
                fits(value, example, &name);
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
    use conveyor_domain::ListSpec;
    let specs = [ListSpec::Csv { csv: None }, ListSpec::Jsonl, ListSpec::Lines];
    let described: Vec<&str> = super::inputs::LISTS.iter().map(|(media_type, _)| *media_type).collect();
    assert_eq!(specs.map(|spec| spec.content_type()).to_vec(), described);
}
