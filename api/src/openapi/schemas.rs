//! The shapes of requests and answers, from the types themselves.

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

const WHERE: &str = "/components/schemas";

/// Collects the shapes that operations refer to.
#[derive(Debug)]
pub(super) struct Schemas {
    requests: SchemaGenerator,
    answers: SchemaGenerator,
}

impl Schemas {
    pub fn new() -> Schemas {
        let settings = || SchemaSettings::draft2020_12().with(|s| s.definitions_path = WHERE.into());
        Schemas {
            requests: settings().for_deserialize().into_generator(),
            answers: settings().for_serialize().into_generator(),
        }
    }

    pub fn request<T: JsonSchema>(&mut self) -> Value {
        tidied(self.requests.subschema_for::<T>(), Kind::Request)
    }

    pub fn answer<T: JsonSchema>(&mut self) -> Value {
        tidied(self.answers.subschema_for::<T>(), Kind::Answer)
    }

    /// All that was referred to, by name.
    pub fn into_components(mut self) -> Map<String, Value> {
        let mut components = Map::new();
        let requests = self.requests.take_definitions(true).into_iter().map(|named| (named, Kind::Request));
        let answers = self.answers.take_definitions(true).into_iter().map(|named| (named, Kind::Answer));
        for ((name, mut schema), kind) in requests.chain(answers) {
            tidy(&mut schema, kind);
            let before = components.insert(name.clone(), schema);
            debug_assert!(
                before.is_none_or(|before| before == components[&name]),
                "two shapes are called {name}"
            );
        }
        components
    }
}

/// A shape that is among the components, because bodies have it.
pub(super) fn shared<T: JsonSchema>() -> Value {
    json!({"$ref": format!("#{WHERE}/{}", T::schema_name())})
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Request,
    Answer,
}

fn tidied(schema: Schema, kind: Kind) -> Value {
    let mut value = schema.to_value();
    tidy(&mut value, kind);
    value
}

fn tidy(schema: &mut Value, kind: Kind) {
    match schema {
        Value::Object(fields) => {
            match kind {
                Kind::Answer => without_null(fields),
                // A number that does not fit is refused, whatever else it is for.
                Kind::Request if fields.get("format").is_some_and(|format| format == "uint32") => {
                    fields.entry("maximum").or_insert_with(|| u32::MAX.into());
                }
                Kind::Request => {}
            }
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = unwrapped(text);
            }
            fields.values_mut().for_each(|value| tidy(value, kind));
            let choices = fields.get_mut("oneOf").and_then(Value::as_array_mut);
            choices.into_iter().flatten().for_each(describe_only_field);
        }
        Value::Array(items) => items.iter_mut().for_each(|value| tidy(value, kind)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What is said about a choice with one field is said about that field.
fn describe_only_field(choice: &mut Value) {
    let about = choice["description"].clone();
    if let Some(fields) = choice.get_mut("properties").and_then(Value::as_object_mut)
        && fields.len() == 1
        && !about.is_null()
    {
        fields.values_mut().for_each(|field| field["description"] = about.clone());
    }
}

/// Paragraphs without the line breaks that they have in the code.
fn unwrapped(text: &str) -> String {
    let unwrap = |paragraph: &str| match paragraph.starts_with("- ") {
        true => paragraph.to_owned(),
        false => paragraph.replace('\n', " "),
    };
    text.split("\n\n").map(unwrap).collect::<Vec<_>>().join("\n\n")
}

/// What is unset is left out of answers (SPEC 10): a field that may be missing is never null.
fn without_null(fields: &mut Map<String, Value>) {
    if let Some(Value::Array(words)) = fields.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    if let Some(Value::Array(types)) = fields.get_mut("type") {
        types.retain(|one| one != "null");
        if let [one] = &types[..] {
            fields["type"] = one.clone();
        }
    }
    if let Some(Value::Array(choices)) = fields.get_mut("anyOf") {
        choices.retain(|choice| *choice != json!({"type": "null"}));
        if choices.len() == 1
            && let Some(Value::Array(mut choices)) = fields.remove("anyOf")
            && let Some(Value::Object(only)) = choices.pop()
        {
            fields.extend(only);
        }
    }
}
