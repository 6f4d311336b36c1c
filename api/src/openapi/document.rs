//! The document, put together from the operations.

use super::operation::{Access, Content, Operation, Success};
use super::schemas::Schemas;
use super::{example, parameters, problems};
use conveyor_domain::{Problem, limits};
use serde_json::{Map, Value, json};

pub(super) fn build(operations: Vec<Operation>) -> Value {
    let mut schemas = Schemas::new();
    schemas.answer::<Problem>();
    schemas.answer::<crate::invalid_tasks::InvalidTask>();
    let (mut paths, mut responses) = (Map::new(), Map::new());
    for operation in &operations {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = described(operation, &mut schemas, &mut responses);
    }
    let mut components = schemas.into_components();
    complete_problem(&mut components);
    add_examples(&mut paths, &components);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Conveyor",
            "version": env!("CARGO_PKG_VERSION"),
            "description": include_str!("introduction.md"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": TAGS.map(|(name, description)| json!({"name": name, "description": description})),
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": responses,
            "examples": problems::examples(operations.iter().flat_map(Operation::all_refusals)),
            "headers": headers(),
            "securitySchemes": {
                "ApiKey": {
                    "type": "apiKey", "in": "header", "name": "X-API-Key",
                    "description": "The key of a caller. Everything belongs to the caller that made it.",
                },
                "OperatorKey": {
                    "type": "apiKey", "in": "header", "name": "X-API-Key",
                    "description": "The key of an operator. It opens `/v1/admin` and nothing else.",
                },
            },
        },
    })
}

const TAGS: [(&str, &str); 9] = [
    ("Jobs", "A job is a template: parameters, limits, labels. Submitting one starts its first run."),
    ("Runs", "A run is one execution of a job."),
    ("Results", "What became of the tasks of a run."),
    ("Exports", "The results of a run in one file: zip, JSON Lines or CSV."),
    ("Schedules", "Jobs that run by themselves: once, every so often, or by a calendar in any time zone."),
    ("Lists", "Lists of up to a million URLs, uploaded before a job is made of them."),
    ("Notifications", "Who is told of the end of a run, and what came of it."),
    ("Operators", "What operators do. These routes need an operator key."),
    ("Service", "For probes, and for whoever reads about the API. No key."),
];

fn headers() -> Value {
    let header = |description: &str, schema: Value, example: Value| json!({"description": description, "required": true, "schema": schema, "example": example});
    let maybe = |description: &str, example: u32| json!({"description": description, "schema": {"type": "integer", "minimum": 0}, "example": example});
    let id_max = limits::REQUEST_ID_MAX;
    let id = json!({"type": "string", "pattern": "^[A-Za-z0-9._-]+$", "minLength": 1, "maxLength": id_max});
    let text = json!({"type": "string"});
    json!({
        "X-Request-ID": header(
            "The caller's own, if it sent one that fits; otherwise a new one.", id, "01KCX5T0Q8H2V4M6N8P0R2S4T6".into(),
        ),
        "Retry-After": header(
            "After how many seconds it is worth asking again.", json!({"type": "integer", "minimum": 0}), 1.into(),
        ),
        "Location": header(
            "The path of what was made.", json!({"type": "string", "pattern": "^/v1/"}),
            "/v1/jobs/01KCX5T0Q8H2V4M6N8P0R2S4T6".into(),
        ),
        "RateLimit-Limit": maybe("How many requests at once, where requests are limited.", 100),
        "RateLimit-Remaining": maybe("How many of them are left.", 99),
        "RateLimit-Reset": maybe("In how many seconds all of them are.", 1),
        "ETag": header("The sha256 of the bytes, in quotes.", text.clone(), "\"9f86d081884c7d65\"".into()),
        "Content-Disposition": header("Whether it is shown or kept as a file.", text, "inline".into()),
    })
}

fn described(operation: &Operation, schemas: &mut Schemas, shared: &mut Map<String, Value>) -> Value {
    let mut parameters = parameters::of_path(operation.path);
    parameters.extend(operation.parameters.iter().cloned());
    let mut responses = problems::answers(operation.all_refusals(), shared);
    for success in &operation.successes {
        responses.insert(success.status.to_string(), succeeded(success, operation.access, schemas));
    }
    if operation.fails_like_its_task {
        responses.insert("422".to_owned(), problems::of_failed_task());
    }
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [operation.tag],
        "security": operation.security(),
        "responses": responses,
    });
    if !operation.details.is_empty() {
        described["description"] = operation.details.into();
    }
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    if let Some(content) = operation.body {
        described["requestBody"] =
            json!({"required": operation.body_required, "content": of_content(content, schemas)});
    }
    described
}

fn succeeded(success: &Success, access: Access, schemas: &mut Schemas) -> Value {
    let mut headers = Map::new();
    let rates: &[&str] = match access {
        Access::Key | Access::OperatorKey => &["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"],
        Access::Signature | Access::Nothing => &[],
    };
    for name in ["X-Request-ID"].iter().chain(&success.headers).chain(rates) {
        headers.insert((*name).to_owned(), json!({"$ref": format!("#/components/headers/{name}")}));
    }
    let mut described = json!({"description": success.description, "headers": headers});
    if !matches!(success.content, Content::Nothing) {
        described["content"] = of_content(success.content, schemas);
    }
    described
}

fn of_content(content: Content, schemas: &mut Schemas) -> Value {
    let raw = |media_types: &[&str]| media_types.iter().map(|one| ((*one).to_owned(), json!({}))).collect();
    match content {
        Content::Json(shape) => json!({"application/json": {"schema": shape(schemas)}}),
        Content::JsonOr(shape, others) => {
            let mut content: Map<String, Value> = raw(others);
            content.insert("application/json".to_owned(), json!({"schema": shape(schemas)}));
            content.into()
        }
        Content::Raw(media_types) => Value::Object(raw(media_types)),
        Content::Lines(shape, others) => {
            let mut content: Map<String, Value> = raw(others);
            // A line has the shape, the body has none: OpenAPI 3.1 knows no word for that.
            let lines = json!({"x-line-schema": shape(schemas)});
            content.insert("application/x-ndjson".to_owned(), lines);
            content.into()
        }
        Content::Nothing => json!({}),
    }
}

/// What a type that is open to any member cannot say itself.
fn complete_problem(components: &mut Map<String, Value>) {
    if let Some(problem) = components.get_mut("Problem") {
        problem["properties"]["invalid_tasks"] = json!({
            "type": "array",
            "description": "Which tasks are at fault, and why. As many as fit; `detail` counts all.",
            "maxItems": limits::INVALID_TASKS_MAX,
            "items": {"$ref": "#/components/schemas/InvalidTask"},
        });
    }
}

/// Every JSON body has an example: the one that its shape says, or one made of those of its fields.
fn add_examples(paths: &mut Map<String, Value>, components: &Map<String, Value>) {
    let operations = paths.values_mut().filter_map(Value::as_object_mut).flat_map(Map::values_mut);
    for operation in operations {
        let responses = operation["responses"].as_object().map(|all| all.keys().cloned().collect::<Vec<_>>());
        let answers = responses.unwrap_or_default().into_iter().map(|status| format!("/responses/{status}"));
        for place in answers.chain(["/requestBody".to_owned()]) {
            let Some(json) = operation.pointer_mut(&format!("{place}/content/application~1json")) else {
                continue;
            };
            if json["schema"].is_object() {
                json["example"] = example::of(&json["schema"], components);
            }
        }
    }
}
