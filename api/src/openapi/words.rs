//! What fields mean, and an example of each. One word means one thing wherever it stands, so it is said once, in
//! `words.txt`; where a shape has its own sense of it, under its name. A field that says so itself, in the code, needs no
//! row.

use serde_json::Value;

const WORDS: &str = include_str!("words.txt");

/// Adds to the fields of a shape what they do not say themselves.
pub(super) fn describe(shape: &str, schema: &mut Value) {
    let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for (name, field) in fields {
        let Some((description, example)) = row(shape, name) else { continue };
        if field.is_boolean() {
            // Anything goes: a schema that says so has no place for words.
            *field = serde_json::json!({});
        }
        let Some(field) = field.as_object_mut() else { continue };
        field.entry("description").or_insert_with(|| description.into());
        let speaks = ["enum", "const", "examples", "anyOf", "oneOf"];
        let speaks = speaks.iter().any(|key| field.contains_key(*key));
        if let (false, Ok(example)) = (speaks, serde_json::from_str::<Value>(example)) {
            field.insert("examples".to_owned(), vec![example].into());
        }
    }
}

/// What is said about a field, of this very shape or wherever it stands.
fn row(shape: &str, field: &str) -> Option<(&'static str, &'static str)> {
    let find = |name: &str| rows().find(|row| row.0 == name).map(|(_, meaning, example)| (meaning, example));
    find(&format!("{shape}.{field}")).or_else(|| find(field))
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
