//! The document as one page of HTML that needs nothing else: no script, no font, no request.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::{Map, Value};

/// `order`: the ids of the operations, as people should read about them; a JSON object has none.
pub(super) fn render(document: &Value, order: &[&str]) -> String {
    let mut operations = operations(document);
    // What is sent comes last.
    operations.sort_by_key(|shown| order.iter().position(|id| *id == shown.id()).unwrap_or(order.len()));
    let tags = document["tags"].as_array().into_iter().flatten();
    let tags: Vec<&Value> = tags.collect();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Conveyor API" }
                style { (PreEscaped(include_str!("page.css"))) }
            }
            body {
                nav {
                    b { "Conveyor " (text(&document["info"]["version"])) }
                    @for tag in &tags {
                        h4 { a href={"#tag-" (text(&tag["name"]))} { (text(&tag["name"])) } }
                        @for operation in of_tag(&operations, tag) {
                            a.operation href={"#" (operation.id())} { (badge(operation)) " " (operation.summary()) }
                        }
                    }
                    h4 { a href="#shapes" { "Shapes" } }
                }
                main {
                    h1 { "Conveyor API" }
                    (prose(text(&document["info"]["description"])))
                    p { "As OpenAPI 3.1: " a href="/v1/openapi.json" { "/v1/openapi.json" } }
                    @for tag in &tags {
                        h2 id={"tag-" (text(&tag["name"]))} { (text(&tag["name"])) }
                        p { (inline(text(&tag["description"]))) }
                        @for operation in of_tag(&operations, tag) { (described(operation, document)) }
                    }
                    h2 #shapes { "Shapes" }
                    @for (name, schema) in fields(&document["components"]["schemas"]) { (shape(name, schema, document)) }
                }
            }
        }
    };
    page.into_string()
}

struct Shown<'a> {
    path: &'a str,
    method: &'a str,
    operation: &'a Value,
    /// Whether it is what others are sent, and not what they send.
    sent: bool,
}

impl Shown<'_> {
    fn id(&self) -> &str {
        text(&self.operation["operationId"])
    }

    fn summary(&self) -> &str {
        text(&self.operation["summary"])
    }
}

fn operations(document: &Value) -> Vec<Shown<'_>> {
    of_section(&document["paths"], false).chain(of_section(&document["webhooks"], true)).collect()
}

fn of_section(section: &Value, sent: bool) -> impl Iterator<Item = Shown<'_>> {
    fields(section).flat_map(move |(path, methods)| {
        fields(methods).map(move |(method, operation)| Shown { path, method, operation, sent })
    })
}

fn of_tag<'a>(operations: &'a [Shown<'a>], tag: &'a Value) -> impl Iterator<Item = &'a Shown<'a>> {
    operations.iter().filter(|one| one.operation["tags"][0] == tag["name"])
}

fn described(shown: &Shown<'_>, document: &Value) -> Markup {
    let operation = shown.operation;
    html! {
        section id=(shown.id()) {
            h3 { (badge(shown)) " " @if !shown.sent { code { (shown.path) } " " } small { (shown.summary()) } }
            (prose(text(&operation["description"])))
            @if !shown.sent {
                p.key { (key(operation)) }
                pre { (curl(shown)) }
            }
            @if let Some(parameters) = operation["parameters"].as_array() {
                h5 { "Parameters" }
                table { @for one in parameters {
                    tr {
                        td { code { (text(&one["name"])) } @if one["required"] == true { " *" } }
                        td { small { (text(&one["in"])) } }
                        td { (kind(&one["schema"])) }
                        td { (inline(text(&one["description"]))) }
                    }
                } }
            }
            @if operation["requestBody"].is_object() {
                h5 { "Body" }
                (content(&operation["requestBody"]["content"]))
            }
            h5 { "Answers" }
            table { @for (status, answer) in fields(&operation["responses"]) {
                @let answer = resolved(answer, document);
                tr {
                    td { code class={"s" (&status[..1])} { (status) } }
                    td {
                        (lines(text(&answer["description"])))
                        @if status.starts_with('2') { (content(&answer["content"])) }
                        (headers(&answer["headers"]))
                    }
                }
            } }
        }
    }
}

/// Those that not every answer may have: of the others the introduction speaks.
fn headers(headers: &Value) -> Markup {
    let usual = |name: &str| name == "X-Request-ID" || name.starts_with("RateLimit-");
    let own: Vec<&String> = fields(headers).map(|(name, _)| name).filter(|name| !usual(name)).collect();
    html! { @if !own.is_empty() {
        small { "With " @for (n, name) in own.iter().enumerate() { @if n > 0 { ", " } code { (name) } } }
    } }
}

fn key(operation: &Value) -> &'static str {
    match operation["security"][0].as_object().and_then(|one| one.keys().next()).map(String::as_str) {
        Some("ApiKey") => "Needs the key of a caller.",
        Some("OperatorKey") => "Needs the key of an operator.",
        Some(_) | None => "Needs no key.",
    }
}

fn curl(shown: &Shown<'_>) -> String {
    let mut path = shown.path.to_owned();
    for one in
        shown.operation["parameters"].as_array().into_iter().flatten().filter(|one| one["in"] == "path")
    {
        path = path.replace(&format!("{{{}}}", text(&one["name"])), &plain(&one["example"]));
    }
    let query = match shown.path.split('/').nth(2) {
        Some("content" | "exports") => "?caller=…&expires=…&signature=…",
        Some("uploads") => "?expires=…&signature=…",
        Some(_) | None => "",
    };
    let verb = shown.method.to_ascii_uppercase();
    let mut command = format!("curl -X {verb} \"$URL{path}{query}\"");
    if key(shown.operation) != "Needs no key." {
        command += " \\\n     -H \"X-API-Key: $KEY\"";
    }
    let json = &shown.operation["requestBody"]["content"]["application/json"]["example"];
    if json.is_object() {
        command += &format!(" \\\n     -H \"Content-Type: application/json\" \\\n     -d '{json}'");
    } else if shown.operation["requestBody"].is_object() {
        command += " \\\n     --data-binary @list";
    }
    command
}

fn content(content: &Value) -> Markup {
    html! { @for (media_type, body) in fields(content) {
        p { small { (media_type) } " "
            @if body["schema"].is_object() { (kind(&body["schema"])) }
            @if body["x-line-schema"].is_object() { "of " (kind(&body["x-line-schema"])) }
        }
        @if !body["example"].is_null() {
            details { summary { "Example" } pre { (pretty(&body["example"])) } }
        }
    } }
}

fn shape(name: &str, schema: &Value, document: &Value) -> Markup {
    let choices = ["oneOf", "anyOf"].iter().filter_map(|choices| schema[*choices].as_array()).flatten();
    // A choice of shapes is shown as all of their fields: the description says which go together.
    let choices: Vec<&Value> = choices.filter(|choice| choice["type"] == "object").collect();
    let needed: Vec<&Value> = schema["required"].as_array().into_iter().flatten().collect();
    html! {
        section id=(name) {
            h3 { code { (name) } }
            (prose(text(&schema["description"])))
            @if schema["properties"].is_object() || !choices.is_empty() {
                table { (rows(schema, &needed, document)) @for choice in choices { (rows(choice, &[], document)) } }
            } @else { p { (kind(schema)) } }
        }
    }
}

fn rows(schema: &Value, needed: &[&Value], document: &Value) -> Markup {
    html! { @for (field, value) in fields(&schema["properties"]) {
        @let about = explained(value, document);
        tr {
            td { code { (field) } @if needed.iter().any(|one| *one == field) { " *" } }
            td { (kind(value)) }
            td { (prose(text(&about["description"]))) @if let Some(one) = about["examples"].get(0) {
                small { "e.g. " code { (one) } }
            } }
        }
    } }
}

/// The field, or the shared shape that it has, if it says nothing itself.
fn explained<'a>(field: &'a Value, document: &'a Value) -> &'a Value {
    match field["description"].is_null() {
        true => resolved(if field["anyOf"].is_array() { &field["anyOf"][0] } else { field }, document),
        false => field,
    }
}

/// What an answer refers to, if it does.
fn resolved<'a>(answer: &'a Value, document: &'a Value) -> &'a Value {
    let reference = answer["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    reference.and_then(|pointer| document.pointer(pointer)).unwrap_or(answer)
}

/// What a value is, in a few words.
fn kind(schema: &Value) -> Markup {
    if let Some(name) = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next()) {
        return html! { a href={"#" (name)} { (name) } };
    }
    for choices in ["anyOf", "oneOf", "allOf"] {
        if let (Some(choices), true) = (schema[choices].as_array(), !schema["properties"].is_object()) {
            return html! { @for (n, one) in choices.iter().enumerate() { @if n > 0 { " | " } (kind(one)) } };
        }
    }
    if let Some(words) = schema["enum"].as_array() {
        return html! { @for (n, word) in words.iter().enumerate() { @if n > 0 { " | " } code { (word) } } };
    }
    if !schema["const"].is_null() {
        return html! { code { (schema["const"]) } };
    }
    let types = match &schema["type"] {
        Value::Array(types) => types.iter().map(text).collect::<Vec<_>>().join(" | "),
        one => text(one).to_owned(),
    };
    html! {
        (if types.is_empty() { "any" } else { &types })
        @if schema["items"].is_object() { " of " (kind(&schema["items"])) }
        @if schema["additionalProperties"].is_object() { " of " (kind(&schema["additionalProperties"])) }
        @for word in ["minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern", "format", "default"] {
            @if let Some(limit) = schema.get(word).filter(|limit| !is_obvious(word, limit)) { " " small { (word) " " code { (plain(limit)) } } }
        }
    }
}

/// That a count is not negative, and how wide it is inside, tells nobody anything.
fn is_obvious(word: &str, limit: &Value) -> bool {
    (word == "minimum" && limit == 0) || (word == "format" && limit != "date-time")
}

fn badge(shown: &Shown<'_>) -> Markup {
    let word = if shown.sent { "sent" } else { shown.method };
    html! { b class={"method " (word)} { (word.to_ascii_uppercase()) } }
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().map(Map::iter).into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A word, a pattern or a number, as people write it.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// JSON over several lines; text as it is.
fn pretty(value: &Value) -> String {
    value.as_str().map_or_else(|| serde_json::to_string_pretty(value).unwrap_or_default(), str::to_owned)
}

/// Text with `code` in it.
fn inline(text: &str) -> Markup {
    html! { @for (n, part) in text.split('`').enumerate() { @if n % 2 == 1 { code { (part) } } @else { (part) } } }
}

/// A list, if it is one.
fn lines(text: &str) -> Markup {
    html! { @for line in text.lines() { div { (inline(line.trim_start_matches("- "))) } } }
}

/// Paragraphs, lists, and lines that are indented as code: all that descriptions use.
fn prose(text: &str) -> Markup {
    html! { @for block in text.split("\n\n") {
        @if block.starts_with("- ") { ul { @for line in block.lines() { li { (inline(line.trim_start_matches("- "))) } } } }
        @else if block.starts_with("    ") { pre { @for line in block.lines() { (line.strip_prefix("    ").unwrap_or(line)) "\n" } } }
        @else { p { (inline(block)) } }
    } }
}
