//! Reads the body of a request as its type, of `conveyor_wire`.
//!
//! A serde deserializer that takes an object apart one level at a time and keeps each value as its bytes until the type of
//! its field wants it. So a body costs little more memory than it has bytes, whatever is nested in it; every error names the
//! field by its path; and the fields that a type does not have become warnings. `serde_path_to_error` and `serde_ignored` on
//! top of serde_json would give paths as well, but serde_json also reads a struct from an array, and its errors are texts.

use crate::problem::{ApiError, Code, Result};
use crate::split::{Place, Rest};
use crate::warnings::{NOT_A_FIELD, Warnings};
use conveyor_domain::job::failure::cut;
use conveyor_domain::limits;
use serde::de::value::{StrDeserializer, StringDeserializer};
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, Expected, IgnoredAny, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::value::RawValue;
use std::fmt;

/// A body.
pub(crate) fn read<'a, T: Deserialize<'a>>(body: &'a [u8], warnings: &Warnings) -> Result<T> {
    from_slice(body, warnings, false, |place| place)
}

/// A body that must have at least one field.
pub(crate) fn read_some<'a, T: Deserialize<'a>>(body: &'a [u8], warnings: &Warnings) -> Result<T> {
    from_slice(body, warnings, true, |place| place)
}

/// A body whose tasks were taken out.
pub(crate) fn read_rest<'a, T: Deserialize<'a>>(rest: &'a Rest, warnings: &Warnings) -> Result<T> {
    from_slice(&rest.bytes, warnings, false, |place| rest.in_body(place))
}

/// A field of a body, which was left as JSON.
pub(crate) fn read_field<'a, T: Deserialize<'a>>(
    name: &str,
    raw: &'a RawValue,
    warnings: &Warnings,
) -> Result<T> {
    let path = Path::Name(&Path::Body, name);
    Ok(T::deserialize(Json { text: raw.get(), path: &path, needs_field: false, warnings })?)
}

fn from_slice<'a, T: Deserialize<'a>>(
    body: &'a [u8],
    warnings: &Warnings,
    needs_field: bool,
    in_body: impl Fn(Place) -> Place,
) -> Result<T> {
    // Before anything is said about a field: what is not JSON at all should be called that.
    let raw: &RawValue = serde_json::from_slice(body)
        .map_err(|e| not_json(in_body(Place { line: e.line(), column: e.column() })))?;
    Ok(T::deserialize(Json { text: raw.get(), path: &Path::Body, needs_field, warnings })?)
}

pub(crate) fn not_json(Place { line, column }: Place) -> ApiError {
    ApiError::new(Code::MalformedJson, format!("The body is not JSON: line {line}, column {column}."))
}

/// Where a value is.
enum Path<'p> {
    Body,
    Name(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Body => Ok(()),
            Path::Name(Path::Body, name) => f.write_str(cut(name, limits::ECHO_MAX_CHARS)),
            Path::Name(object, name) => write!(f, "{object}.{}", cut(name, limits::ECHO_MAX_CHARS)),
            Path::Item(list, index) => write!(f, "{list}[{index}]"),
        }
    }
}

/// What is wrong with a value: the end of a sentence that begins with its path.
#[derive(Debug)]
struct Fault {
    /// Empty: the body. `None`: the value that is being read.
    path: Option<String>,
    /// A field of it that is missing.
    missing: Option<&'static str>,
    what: String,
}

impl Fault {
    fn at(path: &Path<'_>, what: impl Into<String>) -> Fault {
        Fault { path: Some(path.to_string()), missing: None, what: what.into() }
    }

    fn expected(expected: &dyn Expected) -> Fault {
        let expected = expected.to_string();
        let expected = match &*expected {
            "a boolean" => "true or false",
            "u64" => "a whole number",
            other => other,
        };
        de::Error::custom(format_args!("must be {expected}"))
    }

    fn or_at(self, path: &Path<'_>) -> Fault {
        match (&self.path, self.missing) {
            (Some(_), _) => self,
            (None, Some(field)) => Fault::at(&Path::Name(path, field), self.what),
            (None, None) => Fault::at(path, self.what),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_deref() {
            None | Some("") => write!(f, "The body {}.", self.what),
            Some(path) => write!(f, "`{path}` {}.", self.what),
        }
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(what: T) -> Fault {
        Fault { path: None, missing: None, what: what.to_string() }
    }

    fn missing_field(field: &'static str) -> Fault {
        Fault { path: None, missing: Some(field), what: "is missing".to_owned() }
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Fault {
        Fault::expected(expected)
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Fault {
        Fault::expected(expected)
    }
}

impl From<Fault> for ApiError {
    fn from(fault: Fault) -> ApiError {
        ApiError::invalid(fault.to_string())
    }
}

/// JSON that is well-formed, without space around it.
#[derive(Clone, Copy)]
struct Json<'a, 'p> {
    text: &'a str,
    path: &'p Path<'p>,
    /// Whether the body must have one of its fields.
    needs_field: bool,
    warnings: &'p Warnings,
}

impl<'a, 'p> Json<'a, 'p> {
    fn inner(&self, raw: &'a RawValue, path: &'p Path<'p>) -> Json<'a, 'p> {
        Json { text: raw.get(), path, needs_field: false, warnings: self.warnings }
    }

    fn must_be(&self, what: &str) -> Fault {
        Fault::at(self.path, format!("must be {what}"))
    }

    fn must_be_object(&self) -> Fault {
        self.must_be(if matches!(self.path, Path::Body) { "a JSON object" } else { "an object" })
    }

    /// The fields of an object that are `known`, in their order, each of which may be there once. The others are warned of.
    fn fields(&self, known: &'static [&'static str]) -> std::result::Result<Fields<'a>, Fault> {
        let mut found = Found { known, values: vec![None; known.len()], ..Found::default() };
        let mut deserializer = serde_json::Deserializer::from_str(self.text);
        // A number that is too large is no data error.
        let is_object = self.text.starts_with('{');
        deserializer.deserialize_map(&mut found).map_err(|error| match error.is_data() || !is_object {
            true => self.must_be_object(),
            false => Fault::at(self.path, NOT_TEXT),
        })?;
        for name in &found.unknown {
            let path = Path::Name(self.path, name);
            let warned = self.warnings.unknown(&path.to_string());
            warned.map_err(|_| Fault::at(&path, NOT_A_FIELD))?;
        }
        self.warnings.unknown_more(found.unknown_more);
        if let Some(name) = found.repeated {
            return Err(Fault::at(&Path::Name(self.path, name), "is given twice"));
        }
        let values = known.iter().zip(found.values);
        let fields: Fields<'a> = values.filter_map(|(name, value)| Some((*name, value?))).collect();
        if self.needs_field && fields.is_empty() {
            let names: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
            return Err(Fault::at(self.path, format!("must have one of {}", names.join(", "))));
        }
        Ok(fields)
    }
}

/// Half a character, as an escape can write it.
const NOT_TEXT: &str = "has a name that is not text";

type Fields<'a> = Vec<(&'static str, &'a RawValue)>;

impl<'de> Deserializer<'de> for Json<'de, '_> {
    type Error = Fault;

    /// A value without fields of ours.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> std::result::Result<V::Value, Fault> {
        let expected = Fault::expected(&visitor as &dyn Expected);
        let takes_any = expected.what.starts_with("must be any ");
        let read = serde_json::Deserializer::from_str(self.text).deserialize_any(visitor);
        read.map_err(|error| match error.is_data() || !takes_any && !self.text.starts_with(['{', '[']) {
            true => expected.or_at(self.path),
            // Nested too deeply, or half a character, or a number that is too large.
            false => Fault::at(self.path, format!("cannot be read: {error}")),
        })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> std::result::Result<V::Value, Fault> {
        if self.text == "null" { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> std::result::Result<V::Value, Fault> {
        // A [`RawValue`] asks for its own deserializer.
        if name.starts_with("$serde_json::") {
            let mut deserializer = serde_json::Deserializer::from_str(self.text);
            return deserializer.deserialize_newtype_struct(name, visitor).map_err(de::Error::custom);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> std::result::Result<V::Value, Fault> {
        let mut read = Err(self.must_be("a list"));
        let bridge = Bridge { visitor, json: self, read: &mut read };
        // It has said what it has to say, also where it does not want the whole of a long list.
        let _ = serde_json::Deserializer::from_str(self.text).deserialize_seq(bridge);
        read.map_err(|fault| fault.or_at(self.path))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> std::result::Result<V::Value, Fault> {
        let mut read = Err(self.must_be_object());
        let bridge = Bridge { visitor, json: self, read: &mut read };
        let _ = serde_json::Deserializer::from_str(self.text).deserialize_map(bridge);
        read.map_err(|fault| fault.or_at(self.path))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> std::result::Result<V::Value, Fault> {
        let fields = self.fields(known)?.into_iter();
        let read = visitor.visit_map(FieldsAccess { json: self, fields, value: None });
        read.map_err(|fault| fault.or_at(self.path))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> std::result::Result<V::Value, Fault> {
        let word = serde_json::from_str::<String>(self.text).ok();
        let word =
            word.filter(|word| words.contains(&&**word)).ok_or_else(|| self.must_be(&choice(words)))?;
        let word: StrDeserializer<'_, Fault> = word.as_str().into_deserializer();
        word.deserialize_enum("", words, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> std::result::Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct tuple
        tuple_struct identifier
    }
}

/// `"a", "b" or "c"`
fn choice(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

/// Lets serde_json find the items of a list or the names of an object, and this module read the values.
struct Bridge<'r, 'a, 'p, V: Visitor<'a>> {
    visitor: V,
    json: Json<'a, 'p>,
    read: &'r mut std::result::Result<V::Value, Fault>,
}

impl<'a, V: Visitor<'a>> Visitor<'a> for Bridge<'_, 'a, '_, V> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_seq<A: SeqAccess<'a>>(self, items: A) -> std::result::Result<(), A::Error> {
        *self.read = self.visitor.visit_seq(Items { json: self.json, items, index: 0 });
        Ok(())
    }

    fn visit_map<A: MapAccess<'a>>(self, entries: A) -> std::result::Result<(), A::Error> {
        *self.read = self.visitor.visit_map(Entries { json: self.json, entries, name: String::new() });
        Ok(())
    }
}

struct Items<'a, 'p, A> {
    json: Json<'a, 'p>,
    items: A,
    index: usize,
}

impl<'a, A: SeqAccess<'a>> SeqAccess<'a> for Items<'a, '_, A> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'a>>(
        &mut self,
        seed: T,
    ) -> std::result::Result<Option<T::Value>, Fault> {
        let Some(raw) = self.items.next_element::<&RawValue>().map_err(de::Error::custom)? else {
            return Ok(None);
        };
        let path = Path::Item(self.json.path, self.index);
        self.index += 1;
        let read = seed.deserialize(self.json.inner(raw, &path));
        read.map(Some).map_err(|fault| fault.or_at(&path))
    }
}

/// Of an object whose names are the caller's own.
struct Entries<'a, 'p, A> {
    json: Json<'a, 'p>,
    entries: A,
    /// Of the entry that is being read.
    name: String,
}

impl<'a, A: MapAccess<'a>> MapAccess<'a> for Entries<'a, '_, A> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'a>>(
        &mut self,
        seed: K,
    ) -> std::result::Result<Option<K::Value>, Fault> {
        let name = self.entries.next_key::<String>();
        let Some(name) = name.map_err(|_| de::Error::custom(NOT_TEXT))? else {
            return Ok(None);
        };
        self.name.clone_from(&name);
        let name: StringDeserializer<Fault> = name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'a>>(&mut self, seed: T) -> std::result::Result<T::Value, Fault> {
        let raw = self.entries.next_value::<&RawValue>().map_err(de::Error::custom)?;
        let path = Path::Name(self.json.path, &self.name);
        seed.deserialize(self.json.inner(raw, &path)).map_err(|fault| fault.or_at(&path))
    }
}

/// The fields of an object, as its type knows them.
struct FieldsAccess<'a, 'p> {
    json: Json<'a, 'p>,
    fields: std::vec::IntoIter<(&'static str, &'a RawValue)>,
    value: Option<(&'static str, &'a RawValue)>,
}

impl<'a> MapAccess<'a> for FieldsAccess<'a, '_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'a>>(
        &mut self,
        seed: K,
    ) -> std::result::Result<Option<K::Value>, Fault> {
        self.value = self.fields.next();
        let Some((name, _)) = self.value else { return Ok(None) };
        let name: StrDeserializer<'_, Fault> = name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'a>>(&mut self, seed: T) -> std::result::Result<T::Value, Fault> {
        let (name, raw) = self.value.ok_or_else(|| de::Error::custom("is read out of order"))?;
        let path = Path::Name(self.json.path, name);
        seed.deserialize(self.json.inner(raw, &path)).map_err(|fault| fault.or_at(&path))
    }
}

#[derive(Default)]
struct Found<'a> {
    known: &'static [&'static str],
    values: Vec<Option<&'a RawValue>>,
    /// The first of them, and how many more there are.
    unknown: Vec<String>,
    unknown_more: u64,
    repeated: Option<&'static str>,
}

impl<'a> Visitor<'a> for &mut Found<'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if let Some(n) = self.known.iter().position(|known| **known == key) {
                if self.values[n].replace(map.next_value()?).is_some() {
                    self.repeated = Some(self.known[n]);
                }
            } else {
                map.next_value::<IgnoredAny>()?;
                match self.unknown.len() < limits::WARNINGS_MAX {
                    true => self.unknown.push(key),
                    false => self.unknown_more += 1,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
