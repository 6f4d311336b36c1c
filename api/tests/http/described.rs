//! Every answer of every test, held against what the API says of itself: its status, code, headers, media type and body are
//! documented, and the body has no field that is not.

use crate::world::Answer;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

/// One operation of the document.
#[derive(Clone, Copy)]
pub struct Operation {
    pub method: &'static str,
    pub path: &'static str,
    pub described: &'static Value,
}

impl Operation {
    pub fn parameters(&self, place: &str) -> impl Iterator<Item = &'static str> {
        let all = self.described["parameters"].as_array().into_iter().flatten();
        all.filter(move |one| one["in"] == place).map(|one| one["name"].as_str().unwrap())
    }

    /// Whose key opens it: `ApiKey`, `OperatorKey`, or nobody's.
    pub fn key(&self) -> Option<&'static str> {
        self.described["security"][0].as_object()?.keys().next().map(String::as_str)
    }

    /// An example of its body.
    pub fn body(&self) -> Option<&'static Value> {
        self.described["requestBody"]["content"]["application/json"].get("example")
    }
}

/// All operations.
pub fn operations() -> Vec<Operation> {
    let paths = conveyor_api::openapi_document()["paths"].as_object().unwrap();
    let of_path = |(path, methods): (&'static String, &'static Value)| {
        let methods = methods.as_object().unwrap().iter();
        methods.map(move |(method, described)| Operation { method, path, described })
    };
    paths.iter().flat_map(of_path).collect()
}

/// Whether a path is one of a template.
fn fits(path: &str, template: &str) -> bool {
    let (mut parts, mut known) = (path.split('/'), template.split('/'));
    loop {
        match (parts.next(), known.next()) {
            (None, None) => return true,
            (Some(part), Some(known)) if known == part || (known.starts_with('{') && !part.is_empty()) => {}
            _ => return false,
        }
    }
}

#[track_caller]
pub fn check(method: &str, path: &str, answer: &Answer) {
    let asked = if method == "HEAD" { "get" } else { &method.to_ascii_lowercase() };
    let fitting = operations().into_iter().filter(|one| one.method == asked && fits(path, one.path));
    // `redrive` is a route of its own beside `{letter}`.
    let Some(operation) = fitting.min_by_key(|one| one.path.matches('{').count()) else { return };
    let what = format!("{method} {} {}", operation.path, answer.status);
    let described = &operation.described["responses"][answer.status.as_str()];
    assert!(described.is_object(), "{what} is not documented: {:?}", answer.body);
    let described = resolved(described);
    check_headers(&what, &described["headers"], answer);
    if method == "HEAD" {
        return;
    }
    let media_type = answer.header("content-type").split(';').next().unwrap();
    let Some(content) = described["content"].as_object() else {
        assert!(answer.body.is_empty(), "{what} should have no body");
        return;
    };
    let content = content.get(media_type).unwrap_or_else(|| panic!("{what}: {media_type} is not documented"));
    if content["schema"].is_object() {
        valid(&what, &content["schema"], &answer.json());
    }
    if content["x-line-schema"].is_object() {
        for line in answer.text().lines() {
            valid(&what, &content["x-line-schema"], &serde_json::from_str(line).unwrap());
        }
    }
}

/// Headers of HTTP itself, and `Cache-Control`, of which the introduction speaks: every answer has it.
const OF_HTTP: [&str; 7] =
    ["allow", "cache-control", "connection", "content-length", "content-type", "date", "transfer-encoding"];

#[track_caller]
fn check_headers(what: &str, described: &'static Value, answer: &Answer) {
    let described = described.as_object().unwrap();
    let named = |name: &str| described.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    for (name, header) in described {
        let needed = resolved(header)["required"] == true;
        assert!(!needed || answer.headers.contains_key(name), "{what} has no {name}");
    }
    for (name, value) in &answer.headers {
        if OF_HTTP.contains(&name.as_str()) {
            continue;
        }
        let (_, header) = named(name.as_str()).unwrap_or_else(|| panic!("{what}: {name} is not documented"));
        let (schema, text) = (&resolved(header)["schema"], value.to_str().unwrap());
        let value = match schema["type"].as_str() {
            Some("integer") => json!(text.parse::<u64>().unwrap()),
            _ => json!(text),
        };
        valid(&format!("{what}: {name}"), schema, &value);
    }
}

fn resolved(value: &'static Value) -> &'static Value {
    match value["$ref"].as_str() {
        Some(reference) => {
            conveyor_api::openapi_document().pointer(reference.strip_prefix('#').unwrap()).unwrap()
        }
        None => value,
    }
}

#[track_caller]
fn valid(what: &str, schema: &Value, value: &Value) {
    static KNOWN: LazyLock<Mutex<HashMap<String, Arc<jsonschema::Validator>>>> =
        LazyLock::new(Mutex::default);
    let validator =
        KNOWN.lock().unwrap().entry(schema.to_string()).or_insert_with(|| compiled(schema)).clone();
    let faults: Vec<String> =
        validator.iter_errors(value).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
    assert!(faults.is_empty(), "{what} is not as documented: {faults:#?}\n{value:#}");
}

/// With the shapes closed: readers must live with new fields, but none may be undocumented.
fn compiled(schema: &Value) -> Arc<jsonschema::Validator> {
    static CLOSED: LazyLock<Value> = LazyLock::new(|| {
        let mut shapes = conveyor_api::openapi_document()["components"]["schemas"].clone();
        for shape in shapes.as_object_mut().unwrap().values_mut() {
            if shape["properties"].is_object() && shape.get("additionalProperties").is_none() {
                // Also those that a choice brings along.
                shape["unevaluatedProperties"] = json!(false);
            }
        }
        shapes
    });
    let rooted = json!({"allOf": [schema], "components": {"schemas": *CLOSED}});
    Arc::new(jsonschema::validator_for(&rooted).unwrap())
}

/// A method that is routed but not described, or the other way round, would go unnoticed otherwise.
#[tokio::test]
async fn methods_are_those_that_are_described() {
    let world = crate::world::World::new().await;
    let mut paths: Vec<&str> = operations().iter().map(|one| one.path).collect();
    paths.dedup();
    for path in paths {
        let mut described: Vec<String> =
            operations().iter().filter(|one| one.path == path).map(|one| one.method.to_uppercase()).collect();
        if described.contains(&"GET".to_owned()) {
            described.push("HEAD".to_owned());
        }
        described.sort();
        let key = match path.starts_with("/v1/admin") {
            true => crate::world::OPERATOR_KEY,
            false => crate::world::KEY,
        };
        let answer = world.call("TRACE", path, Some(key), None).await;
        assert_eq!(answer.status, 405, "{path}");
        let mut allowed: Vec<String> = answer.header("allow").split(',').map(str::to_owned).collect();
        allowed.sort();
        assert_eq!(allowed, described, "{path}");
    }
}

#[tokio::test]
async fn the_description_needs_no_key() {
    let world = crate::world::World::new().await;
    let document = world.call("GET", "/v1/openapi.json", None, None).await;
    assert_eq!(document.json(), *conveyor_api::openapi_document());
    let page = world.call("GET", "/v1/docs", None, None).await;
    assert!(page.text().contains("submitJob") && page.header("content-security-policy").contains("'none'"));
}
