//! Unknown fields of a request's body: ignored and named in `warnings` of the answer, or, with `?strict=true`, refused
//! (SPEC 10). Whoever parses a body has a [`Warnings`]; the answer gets what it collected in [`crate::answer`], so no route
//! can forget it.

use crate::problem::{ApiError, Result};
use crate::query::{Params, Query};
use axum::RequestExt;
use axum::extract::Request;
use conveyor_domain::job::failure::cut;
use conveyor_domain::{ParamPolicy, TaskRules, UnknownCounts, UnknownFields, limits};
use conveyor_wire::{self as wire, Warning};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The query parameter of every route that takes a JSON body.
pub(crate) const STRICT: &str = "strict";
/// Where answers have them.
pub(crate) const WARNINGS: &str = "warnings";
pub(crate) const MORE_WARNINGS: &str = "more_warnings";

/// What is said of a field where it is refused.
pub(crate) const NOT_A_FIELD: &str = "is not a field of this request";

/// What one request collects. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warnings {
    strict: bool,
    named: Arc<Mutex<wire::Warnings>>,
}

impl Warnings {
    /// Those of a request, as strict as its query says.
    pub fn of(request: &Request, query: &Params) -> Result<Warnings> {
        let strict = query.choice(STRICT, &[("true", true), ("false", false)])?.unwrap_or(false);
        let named = request.extensions().get::<Warnings>().map(|shared| shared.named.clone());
        Ok(Warnings { strict, named: named.unwrap_or_default() })
    }

    /// The same where `strict` is the only parameter.
    pub async fn alone(request: &mut Request) -> Result<Warnings> {
        let query = request.extract_parts::<Query>().await?;
        Warnings::of(request, &query.only(&[STRICT])?)
    }

    #[cfg(test)]
    pub fn strict() -> Warnings {
        Warnings { strict: true, ..Warnings::default() }
    }

    /// A field that the request does not have.
    pub fn unknown(&self, path: &str) -> Result<()> {
        let path = cut(path, limits::ECHO_MAX_CHARS);
        if self.strict {
            return Err(ApiError::invalid(format!("`{path}` {NOT_A_FIELD}.")));
        }
        let mut named = self.lock();
        let warning = Warning::unknown_field(path.to_owned());
        if named.warnings.len() >= limits::WARNINGS_MAX {
            named.more_warnings += 1;
        } else if !named.warnings.contains(&warning) {
            named.warnings.push(warning);
        }
        Ok(())
    }

    /// As many more that are not named.
    pub fn unknown_more(&self, count: u64) {
        self.lock().more_warnings += count;
    }

    /// Fields of rows of a staged list that was read on the request: the same name in many rows is one warning.
    pub fn unknown_in_rows(&self, counts: &UnknownCounts) -> Result<()> {
        counts.named.keys().try_for_each(|field| self.unknown(&format!("rows[].{field}")))?;
        self.unknown_more(counts.more.into());
        Ok(())
    }

    /// How tasks are checked. With strictness an unknown field makes a task invalid, so that all such are named at once.
    pub fn task_rules(&self, params: ParamPolicy) -> TaskRules {
        let unknown_fields = if self.strict { UnknownFields::Refuse } else { UnknownFields::Ignore };
        TaskRules { params, unknown_fields }
    }

    pub fn named(&self) -> wire::Warnings {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, wire::Warnings> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The text of a JSON object, with these as its last fields.
pub(crate) fn add_to(named: &wire::Warnings, object: &mut Vec<u8>) {
    let Some(end) = object.iter().rposition(|byte| *byte == b'}').filter(|_| !named.is_empty()) else {
        return;
    };
    let has_fields = object[..end].contains(&b':');
    object.truncate(end);
    if has_fields {
        object.push(b',');
    }
    // A plain struct: there is nothing in it that JSON could not say. It brings the braces along.
    let fields = serde_json::to_vec(named).unwrap_or_default();
    object.extend_from_slice(fields.strip_prefix(b"{").unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn shown(warnings: &Warnings) -> Value {
        serde_json::to_value(warnings.named()).unwrap()
    }

    #[test]
    fn so_many_are_named_once_each_and_the_others_counted() {
        let warnings = Warnings::default();
        for _ in 0..2 {
            warnings.unknown("nmae").unwrap();
        }
        assert_eq!(shown(&warnings), json!({"warnings": [{"code": "unknown_field", "field": "nmae"}]}));
        (1..limits::WARNINGS_MAX + 3).for_each(|n| warnings.unknown(&format!("tasks[{n}].urll")).unwrap());
        warnings.unknown_more(1_000_000);
        assert_eq!(warnings.named().warnings.len(), limits::WARNINGS_MAX);
        assert_eq!(shown(&warnings)["more_warnings"], 1_000_003);
        let long = Warnings::default();
        long.unknown(&"x".repeat(10_000)).unwrap();
        assert_eq!(long.named().warnings[0].field.len(), limits::ECHO_MAX_CHARS);
        assert!(Warnings::strict().unknown("nmae").is_err());
    }

    #[test]
    fn an_object_gets_them_as_its_last_fields() {
        let warnings = Warnings::default();
        let with = |object: &str| {
            let mut bytes = object.as_bytes().to_vec();
            add_to(&warnings.named(), &mut bytes);
            String::from_utf8(bytes).unwrap()
        };
        assert_eq!(with(r#"{"a":1}"#), r#"{"a":1}"#);
        warnings.unknown("x").unwrap();
        let named = json!([{"code": "unknown_field", "field": "x"}]);
        for object in [json!({}), json!({"a": {"b": {}}}), json!({"a": "}"})] {
            let mut expected = object.clone();
            expected["warnings"] = named.clone();
            assert_eq!(serde_json::from_str::<Value>(&with(&object.to_string())).unwrap(), expected);
        }
    }
}
