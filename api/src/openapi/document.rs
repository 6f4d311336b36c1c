//! The document, put together from the operations.

use super::headers;
use super::operation::{Content, Operation, Raw, Success};
use super::problems::Refused;
use super::schemas::Schemas;
use super::{example, notification, parameters, problems, timeline};
use crate::problem::Code;
use crate::warnings::{MORE_WARNINGS, WARNINGS};
use conveyor_domain::{ListFault, Problem, limits};
use conveyor_wire::Warning;
use serde_json::{Map, Value, json};

pub(super) fn build(operations: Vec<Operation>) -> Value {
    let mut schemas = Schemas::new();
    schemas.answer::<Problem>();
    schemas.answer::<conveyor_wire::InvalidTask>();
    schemas.answer::<Warning>();
    let (mut paths, mut responses) = (Map::new(), Map::new());
    for operation in &operations {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = described(operation, &mut schemas, &mut responses);
    }
    let mut webhooks = notification::section(&mut schemas);
    let refusals: Vec<Refused> = operations.iter().flat_map(Operation::all_refusals).collect();
    // Of no operation, because there is none.
    let refusals = [refusals, vec![Code::MethodNotAllowed.into()]].concat();
    let mut components = schemas.into_components();
    complete_problem(&mut components, &refusals);
    complete_event(&mut components);
    complete_list_fault(&mut components);
    complete_warned(&mut components, &operations, &paths);
    for operation in &operations {
        add_examples(operation, &mut paths[operation.path][operation.method], &components);
    }
    let sent = &mut webhooks["runEnded"]["post"]["requestBody"]["content"]["application/json"];
    sent["example"] = example::of(&sent["schema"], &components);
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
        "webhooks": webhooks,
        "components": {
            "schemas": components,
            "responses": responses,
            "examples": problems::examples(&refusals),
            "headers": headers::all(),
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

fn described(operation: &Operation, schemas: &mut Schemas, shared: &mut Map<String, Value>) -> Value {
    let mut parameters = parameters::of_path(operation.path);
    parameters.extend(operation.parameters.iter().cloned());
    let mut responses = problems::answers(operation, shared);
    for success in &operation.successes {
        responses.insert(success.status.to_string(), succeeded(success, operation, schemas));
    }
    if operation.fails_like_its_task {
        responses.insert("422".to_owned(), problems::of_failed_task(operation));
    }
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "description": operation.details,
        "tags": [operation.tag],
        "security": operation.security(),
        "responses": responses,
    });
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    if let Some(content) = operation.body {
        described["requestBody"] =
            json!({"required": operation.body_required, "content": of_content(content, schemas)});
    }
    described
}

fn succeeded(success: &Success, operation: &Operation, schemas: &mut Schemas) -> Value {
    let own = headers::ALWAYS.iter().chain(&success.headers);
    let names = own.chain(headers::of_rates(operation.has_key())).copied();
    let mut described = json!({"description": success.description, "headers": headers::named(names)});
    if !matches!(success.content, Content::Nothing) {
        described["content"] = of_content(success.content, schemas);
    }
    described
}

fn of_content(content: Content, schemas: &mut Schemas) -> Value {
    let raw = |media_types: &[Raw]| -> Map<String, Value> {
        media_types
            .iter()
            .map(|(name, example)| ((*name).to_owned(), json!({"example": of_raw(name, example)})))
            .collect()
    };
    match content {
        Content::Json(shape) => json!({"application/json": {"schema": shape(schemas)}}),
        Content::JsonOr(shape, others) => {
            let mut content = raw(others);
            content.insert("application/json".to_owned(), json!({"schema": shape(schemas)}));
            content.into()
        }
        Content::Raw(media_types) => Value::Object(raw(media_types)),
        Content::Lines(shape, others) => {
            let mut content = raw(others);
            // A line has the shape, the body has none: OpenAPI 3.1 knows no word for that.
            let lines = json!({"x-line-schema": shape(schemas)});
            content.insert("application/x-ndjson".to_owned(), lines);
            content.into()
        }
        Content::Nothing => json!({}),
    }
}

/// JSON is shown as what it is, anything else as its text.
fn of_raw(media_type: &str, example: &str) -> Value {
    match serde_json::from_str(example) {
        Ok(json) if media_type == "application/json" => json,
        Ok(_) | Err(_) => example.into(),
    }
}

/// What a type that is open to any member cannot say itself: which codes there are, and `invalid_tasks`.
fn complete_problem(components: &mut Map<String, Value>, refusals: &[Refused]) {
    if let Some(problem) = components.get_mut("Problem") {
        problem["properties"]["code"]["description"] = problems::codes(refusals).into();
        problem["properties"]["invalid_tasks"] = json!({
            "type": "array",
            "description": "Which tasks are at fault, and why. As many as fit; `detail` counts all.",
            "maxItems": limits::INVALID_TASKS_MAX,
            "items": {"$ref": "#/components/schemas/InvalidTask"},
        });
    }
}

/// Answers to requests with a body name what of it was ignored. A shape that is also answered elsewhere has it there too, so
/// that a client has one type for it.
fn complete_warned(
    components: &mut Map<String, Value>,
    operations: &[Operation],
    paths: &Map<String, Value>,
) {
    let mut warned = vec!["Problem".to_owned()];
    for operation in operations.iter().filter(|operation| operation.warns()) {
        for success in &operation.successes {
            let answer = &paths[operation.path][operation.method]["responses"][success.status.to_string()];
            let shape = answer["content"]["application/json"]["schema"]["$ref"].as_str();
            warned.extend(shape.and_then(|shape| shape.rsplit('/').next()).map(str::to_owned));
        }
    }
    for shape in warned {
        let Some(properties) = components.get_mut(&shape).map(|shape| &mut shape["properties"]) else {
            continue;
        };
        properties[WARNINGS] = json!({
            "type": "array",
            "description": "What of the body of the request was ignored; left out if nothing was. As many as fit.",
            "maxItems": limits::WARNINGS_MAX,
            "items": {"$ref": "#/components/schemas/Warning"},
        });
        properties[MORE_WARNINGS] = json!({
            "type": "integer", "minimum": 1, "description": "How many more there are, if not all fit.",
        });
    }
}

fn complete_event(components: &mut Map<String, Value>) {
    if let Some(event) = components.get_mut("Event") {
        let fields = &mut event["properties"];
        fields["type"]["enum"] = timeline::types().into();
        fields["type"]["description"] = format!("What happened.\n\n{}", timeline::meanings()).into();
        fields["data"]["description"] =
            format!("What there is to say about it, by the type:\n\n{}", timeline::data()).into();
    }
}

fn complete_list_fault(components: &mut Map<String, Value>) {
    if let Some(fault) = components.get_mut("ListFault") {
        let line = |fault: ListFault| format!("- `{}`: {}", fault.as_str(), problems::when(fault.as_str()));
        let lines = ListFault::ALL.map(line).join("\n");
        let why = "Why a list cannot be taken, for good: reading it again would end the same way.";
        fault["description"] = format!("{why}\n\n{lines}").into();
    }
}

/// Every JSON body has an example: the one that its shape says, or one made of those of its fields.
fn add_examples(operation: &Operation, described: &mut Value, components: &Map<String, Value>) {
    let answers = operation.successes.iter();
    let answers = answers.map(|one| (format!("/responses/{}", one.status), one.differs.as_ref()));
    for (place, differs) in answers.chain([("/requestBody".to_owned(), None)]) {
        if let Some(json) = described.pointer_mut(&format!("{place}/content/application~1json"))
            && json["schema"].is_object()
        {
            json["example"] = example::of(&json["schema"], components);
            differs.into_iter().for_each(|differs| example::merge(&mut json["example"], differs));
        }
        if let Some(lines) = described.pointer_mut(&format!("{place}/content/application~1x-ndjson"))
            && lines["x-line-schema"].is_object()
        {
            let line = example::of(&lines["x-line-schema"], components);
            lines["example"] = format!("{line}\n").into();
        }
    }
}
