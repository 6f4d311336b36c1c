//! A JSON object taken apart field by field, each kept as its bytes until somebody wants it. So a body costs little more
//! memory than it has bytes, whatever is nested in it, and every complaint can name its field.

use crate::problem::{ApiError, Code, Result};
use crate::split::{Place, Rest};
use crate::warnings::Warnings;
use conveyor_domain::job::failure::cut;
use conveyor_domain::limits;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;

/// The fields of a request, or of an object in it. Null counts as absent.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    fields: BTreeMap<&'static str, &'a RawValue>,
    /// What callers have to put before a name to find it.
    within: String,
    warnings: &'a Warnings,
}

impl<'a> Fields<'a> {
    /// Reads the fields of an object that are `known`, each of which may be there once. The others are warned of.
    pub fn parse(
        body: &'a [u8],
        known: &'static [&'static str],
        warnings: &'a Warnings,
    ) -> Result<Fields<'a>> {
        Fields::read(body, known, String::new(), warnings).map_err(|e| e.of_body(|place| place))
    }

    /// The same of a body whose tasks were taken out.
    pub fn parse_rest(
        rest: &'a Rest,
        known: &'static [&'static str],
        warnings: &'a Warnings,
    ) -> Result<Fields<'a>> {
        let fields = Fields::read(&rest.bytes, known, String::new(), warnings);
        fields.map_err(|e| e.of_body(|place| rest.in_body(place)))
    }

    /// A field that is an object itself.
    pub fn nested(&self, name: &str, known: &'static [&'static str]) -> Result<Option<Fields<'a>>> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        let path = self.path(name);
        self.inner(raw, known, &path).map(Some)
    }

    /// A field that is a list of at most `max` objects.
    pub fn objects(
        &self,
        name: &str,
        known: &'static [&'static str],
        max: usize,
    ) -> Result<Option<Vec<Fields<'a>>>> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        let path = self.path(name);
        let mut deserializer = serde_json::Deserializer::from_str(raw.get());
        let list = deserializer.deserialize_seq(ListVisitor { max });
        let list = list.map_err(|_| ApiError::invalid(format!("`{path}` must be a list.")))?;
        if list.len > max {
            return Err(ApiError::invalid(format!("`{path}` has more than {max} items.")));
        }
        let object = |(n, raw): (usize, &'a RawValue)| self.inner(raw, known, &format!("{path}[{n}]"));
        list.items.into_iter().enumerate().map(object).collect::<Result<_>>().map(Some)
    }

    fn inner(&self, raw: &'a RawValue, known: &'static [&'static str], path: &str) -> Result<Fields<'a>> {
        let fields = Fields::read(raw.get().as_bytes(), known, format!("{path}."), self.warnings);
        fields.map_err(|e| e.of_field(path))
    }

    /// A field that is an object of objects, under names of the caller's own.
    pub fn named(
        &self,
        name: &str,
        known: &'static [&'static str],
        max: usize,
    ) -> Result<Option<Vec<(String, Fields<'a>)>>> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        let path = self.path(name);
        let mut deserializer = serde_json::Deserializer::from_str(raw.get());
        let entries = deserializer.deserialize_map(NamesVisitor { max });
        let entries = entries.map_err(|_| ApiError::invalid(format!("`{path}` must be an object.")))?;
        if entries.len() > max {
            return Err(ApiError::invalid(format!("`{path}` has more than {max} names.")));
        }
        let fields = |(name, raw): (String, &'a RawValue)| {
            let path = format!("{path}.{}", cut(&name, limits::ECHO_MAX_CHARS));
            Ok((name, self.inner(raw, known, &path)?))
        };
        entries.into_iter().map(fields).collect::<Result<_>>().map(Some)
    }

    fn read(
        text: &'a [u8],
        known: &'static [&'static str],
        within: String,
        warnings: &'a Warnings,
    ) -> std::result::Result<Fields<'a>, Unreadable> {
        let mut deserializer = serde_json::Deserializer::from_slice(text);
        let seen = deserializer.deserialize_map(ObjectVisitor(known)).map_err(Unreadable::NotAnObject)?;
        deserializer.end().map_err(Unreadable::NotAnObject)?;
        for name in &seen.unknown {
            warnings.unknown(&format!("{within}{name}")).map_err(Unreadable::Named)?;
        }
        warnings.unknown_more(seen.unknown_more);
        if let Some(name) = seen.repeated {
            return Err(Unreadable::Named(ApiError::invalid(format!("`{within}{name}` is given twice."))));
        }
        Ok(Fields { fields: seen.fields, within, warnings })
    }

    /// The name of a field as a caller finds it.
    pub fn path(&self, name: &str) -> String {
        format!("{}{name}", self.within)
    }

    /// Whether the field is there, even as null: where null takes something away, it is not the same as nothing.
    pub fn is_given(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    pub fn has(&self, name: &str) -> bool {
        self.raw(name).is_some()
    }

    /// A field as a `T`; `expected` completes "must be ..." for the caller.
    pub fn get<T: DeserializeOwned>(&self, name: &str, expected: &str) -> Result<Option<T>> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        let parsed = serde_json::from_str(raw.get());
        parsed.map(Some).map_err(|_| ApiError::invalid(format!("`{}` must be {expected}.", self.path(name))))
    }

    /// The items of a list, at most `max` of them.
    pub fn list(&self, name: &str, max: usize) -> Result<Option<Vec<&'a RawValue>>> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        let mut deserializer = serde_json::Deserializer::from_str(raw.get());
        let list = deserializer.deserialize_seq(ListVisitor { max });
        let list = list.map_err(|_| ApiError::invalid(format!("`{name}` must be a list.")))?;
        if list.len > max {
            let detail = format!("`{name}` has {} items; this route takes at most {max}.", list.len);
            return Err(ApiError::new(Code::TooManyTasks, detail));
        }
        Ok(Some(list.items))
    }

    fn raw(&self, name: &str) -> Option<&'a RawValue> {
        self.fields.get(name).copied().filter(|raw| raw.get() != "null")
    }
}

/// Why a text is not the object that it should be.
enum Unreadable {
    NotAnObject(serde_json::Error),
    /// A field is at fault, and named.
    Named(ApiError),
}

impl Unreadable {
    fn of_body(self, in_body: impl Fn(Place) -> Place) -> ApiError {
        match self {
            Unreadable::Named(error) => error,
            Unreadable::NotAnObject(error) => match error.classify() {
                Category::Data => ApiError::invalid("The body must be a JSON object."),
                Category::Syntax | Category::Eof | Category::Io => {
                    not_json(in_body(Place { line: error.line(), column: error.column() }))
                }
            },
        }
    }

    fn of_field(self, path: &str) -> ApiError {
        match self {
            Unreadable::Named(error) => error,
            Unreadable::NotAnObject(_) => ApiError::invalid(format!("`{path}` must be an object.")),
        }
    }
}

pub(crate) fn not_json(Place { line, column }: Place) -> ApiError {
    ApiError::new(Code::MalformedJson, format!("The body is not JSON: line {line}, column {column}."))
}

struct Seen<'a> {
    fields: BTreeMap<&'static str, &'a RawValue>,
    /// The first of them, and how many more there are.
    unknown: Vec<String>,
    unknown_more: u64,
    repeated: Option<&'static str>,
}

struct ObjectVisitor(&'static [&'static str]);

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Seen<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Seen<'de>, A::Error> {
        let mut seen = Seen { fields: BTreeMap::new(), unknown: Vec::new(), unknown_more: 0, repeated: None };
        while let Some(key) = map.next_key::<String>()? {
            if let Some(known) = self.0.iter().find(|known| **known == key) {
                if seen.fields.insert(known, map.next_value()?).is_some() {
                    seen.repeated = Some(known);
                }
            } else {
                // Read on: what is not JSON at all should be called that.
                map.next_value::<IgnoredAny>()?;
                match seen.unknown.len() < limits::WARNINGS_MAX {
                    true => seen.unknown.push(key),
                    false => seen.unknown_more += 1,
                }
            }
        }
        Ok(seen)
    }
}

struct NamesVisitor {
    max: usize,
}

impl<'de> Visitor<'de> for NamesVisitor {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        // One past the limit shows that there are more; they are not kept.
        while entries.len() <= self.max
            && let Some(entry) = map.next_entry()?
        {
            entries.push(entry);
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(entries)
    }
}

struct List<'a> {
    items: Vec<&'a RawValue>,
    len: usize,
}

struct ListVisitor {
    max: usize,
}

impl<'de> Visitor<'de> for ListVisitor {
    type Value = List<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<List<'de>, A::Error> {
        let mut list = List { items: Vec::new(), len: 0 };
        loop {
            // Past the limit items are only counted: ten million empty ones fit into a body.
            let more = if list.len < self.max {
                seq.next_element()?.map(|item| list.items.push(item)).is_some()
            } else {
                seq.next_element::<IgnoredAny>()?.is_some()
            };
            if !more {
                return Ok(list);
            }
            list.len += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Unrendered;
    use axum::response::IntoResponse;

    const KNOWN: &[&str] = &["name", "tasks"];

    fn refused<T>(result: Result<T>) -> (String, String) {
        let response = result.err().unwrap().into_response();
        let problem = response.extensions().get::<Unrendered>().unwrap().problem.clone();
        (problem.code, problem.detail.unwrap())
    }

    #[test]
    fn complaints_name_the_field() {
        let strict = Warnings::strict();
        let parse = |body: &'static str| Fields::parse(body.as_bytes(), KNOWN, &strict);
        assert_eq!(refused(parse(r#"{"nmae":1,"name":""}"#)).1, "`nmae` is not a field of this request.");
        assert_eq!(refused(parse(r#"{"name":1,"name":2}"#)).1, "`name` is given twice.");
        let name: Result<Option<String>> = parse(r#"{"name":7}"#).unwrap().get("name", "a string");
        assert_eq!(refused(name), ("invalid_argument".into(), "`name` must be a string.".into()));
        assert_eq!(refused(parse(r#"{"tasks":{}}"#).unwrap().list("tasks", 9)).1, "`tasks` must be a list.");
    }

    #[test]
    fn what_is_not_json_is_told_from_what_is_not_an_object() {
        let strict = Warnings::strict();
        let cut_off = ["", "{", r#"{"tasks":[1,}"#, r#"{"x":[}"#];
        for bad in cut_off.into_iter().chain(["nope", r#"{"x":1,}"#, "{} {}", "{\"name\":\"\u{1}\"}"]) {
            assert_eq!(refused(Fields::parse(bad.as_bytes(), KNOWN, &strict)).0, "malformed_json", "{bad:?}");
        }
        assert_eq!(refused(Fields::parse(b"{\"name\":\"\xff\"}", KNOWN, &strict)).0, "malformed_json");
        for other in ["[]", "7", "null", r#""text""#] {
            assert_eq!(
                refused(Fields::parse(other.as_bytes(), KNOWN, &strict)).0,
                "invalid_argument",
                "{other:?}"
            );
        }
    }

    #[test]
    fn what_is_ignored_is_named_with_its_path_and_within_bounds() {
        let lenient = Warnings::default();
        let body = br#"{"nmae": 1, "tasks": [{"x": 1, "y": 2}, {"z": {"w": 3}}], "name": {"a.b": {"q": 4}}}"#;
        let fields = Fields::parse(body, KNOWN, &lenient).unwrap();
        assert_eq!(fields.objects("tasks", &["x"], 2).unwrap().unwrap().len(), 2);
        fields.named("name", &[], 1).unwrap();
        let named = serde_json::to_value(lenient.named()).unwrap();
        let paths: Vec<_> = named["warnings"].as_array().unwrap().iter().map(|one| &one["field"]).collect();
        assert_eq!(paths, ["nmae", "tasks[0].y", "tasks[1].z", "name.a.b.q"]);
        let many = |n: usize| (0..n).map(|n| format!("\"f{n}\":0")).collect::<Vec<_>>().join(",");
        let (body, lenient) = (format!("{{{}}}", many(limits::WARNINGS_MAX + 1_000)), Warnings::default());
        Fields::parse(body.as_bytes(), KNOWN, &lenient).unwrap();
        assert_eq!(serde_json::to_value(lenient.named()).unwrap()["more_warnings"], 1_000);
        assert_eq!(refused(fields.objects("tasks", &["x"], 1)).1, "`tasks` has more than 1 items.");
    }

    #[test]
    fn null_is_absent() {
        let strict = Warnings::strict();
        let fields = Fields::parse(br#"{"name": null}"#, KNOWN, &strict).unwrap();
        assert!(!fields.has("name"));
        assert_eq!(fields.get::<String>("name", "a string").unwrap(), None);
        assert!(fields.list("tasks", 1).unwrap().is_none());
    }

    #[test]
    fn null_is_given_all_the_same() {
        let strict = Warnings::strict();
        let fields = Fields::parse(br#"{"name": null}"#, KNOWN, &strict).unwrap();
        assert!(fields.is_given("name") && !fields.is_given("tasks"));
    }

    #[test]
    fn objects_under_free_names_are_read_and_named() {
        let strict = Warnings::strict();
        let named = |body: &'static str, max| {
            Fields::parse(body.as_bytes(), KNOWN, &strict).unwrap().named("tasks", &["x"], max)
        };
        let found = named(r#"{"tasks": {"a.b": {"x": 1}, "c": {}}}"#, 2).unwrap().unwrap();
        assert_eq!(found[0].1.path("x"), "tasks.a.b.x");
        assert_eq!((found[0].0.as_str(), found.len()), ("a.b", 2));
        assert!(named("{}", 2).unwrap().is_none());
        assert_eq!(refused(named(r#"{"tasks": []}"#, 2)).1, "`tasks` must be an object.");
        assert_eq!(refused(named(r#"{"tasks": {"a": null}}"#, 2)).1, "`tasks.a` must be an object.");
        let unknown = refused(named(r#"{"tasks": {"a": {"y": 1}}}"#, 2)).1;
        assert_eq!(unknown, "`tasks.a.y` is not a field of this request.");
        let many = refused(named(r#"{"tasks": {"a": {}, "b": {}, "c": 1, "d": 1}}"#, 2)).1;
        assert_eq!(many, "`tasks` has more than 2 names.");
    }

    #[test]
    fn a_list_is_counted_past_its_limit_but_not_kept() {
        let strict = Warnings::strict();
        let fields = Fields::parse(br#"{"tasks":[1,[2],{"a":3}]}"#, KNOWN, &strict).unwrap();
        assert_eq!(fields.list("tasks", 3).unwrap().unwrap().len(), 3);
        let (code, detail) = refused(fields.list("tasks", 2));
        assert_eq!(code, "too_many_tasks");
        assert_eq!(detail, "`tasks` has 3 items; this route takes at most 2.");
    }
}
