//! What shapes and fields mean, and an example of each. One word means one thing wherever it stands, so it is said once, in
//! `words.txt`; where a shape has its own sense of it, under its name. A field that says so itself, in the code, needs no
//! row; a row that names a shape wins over what the code says, which is for whoever reads the code.

use serde_json::Value;

const WORDS: &str = include_str!("words.txt");

/// Adds to a shape and its fields what they do not say themselves.
pub(super) fn describe(shape: &str, schema: &mut Value) {
    describe_fields(shape, schema);
    let Some(schema) = schema.as_object_mut() else { return };
    if let Some((description, example)) = find(shape) {
        schema.insert("description".to_owned(), description.into());
        if let Ok(example) = serde_json::from_str::<Value>(example) {
            schema.insert("examples".to_owned(), vec![example].into());
        }
    }
}

fn describe_fields(shape: &str, schema: &mut Value) {
    for (name, field) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        describe_field(shape, name, field);
    }
    for choices in ["oneOf", "anyOf", "allOf"] {
        let choices = schema.get_mut(choices).and_then(Value::as_array_mut).into_iter().flatten();
        // Others are no shapes of their own: they only say what is needed together.
        choices.filter(|choice| choice["type"] == "object").for_each(|choice| describe_fields(shape, choice));
    }
}

fn describe_field(shape: &str, name: &str, field: &mut Value) {
    // A shape that has no name of its own has fields of ours.
    describe_fields(shape, field);
    let own = find(&format!("{shape}.{name}"));
    let Some((description, example)) = own.or_else(|| find(name)) else { return };
    if field.is_boolean() {
        // Anything goes: a schema that says so has no place for words.
        *field = serde_json::json!({});
    }
    let Some(field) = field.as_object_mut() else { return };
    if own.is_some() || !field.contains_key("description") {
        field.insert("description".to_owned(), description.into());
    }
    let speaks = ["enum", "const", "examples", "anyOf", "oneOf"];
    let speaks = own.is_none() && speaks.iter().any(|key| field.contains_key(*key));
    if let (false, Ok(example)) = (speaks, serde_json::from_str::<Value>(example)) {
        field.insert("examples".to_owned(), vec![example].into());
    }
}

/// What is said about a shape, a field of a shape, or a field wherever it stands.
fn find(name: &str) -> Option<(&'static str, &'static str)> {
    rows().find(|row| row.0 == name).map(|(_, meaning, example)| (meaning, example))
}

fn rows() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    WORDS.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (name, rest) = line.split_once('|')?;
        let (meaning, example) = rest.rsplit_once('|')?;
        Some((name.trim(), meaning.trim(), example.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_row_can_be_read_and_none_is_there_twice() {
        let lines = WORDS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count();
        let names: BTreeSet<&str> = rows().map(|(name, ..)| name).collect();
        assert_eq!(names.len(), lines);
        for (name, meaning, example) in rows() {
            assert!(!meaning.is_empty(), "{name}");
            assert!(
                example.is_empty() || serde_json::from_str::<Value>(example).is_ok(),
                "{name}: {example}"
            );
        }
    }
}
