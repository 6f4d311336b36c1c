//! What a caller says about one task, checked once at the edge. The same checks and the same reasons serve an inline
//! submit, an addition and, later, the rows of a staged list.

use crate::job::failure::cut;
use crate::{Metadata, ParamPolicy, Params, limits, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

crate::words! {
    /// Why a task cannot be taken. `malformed_url`, `unsupported_scheme` (neither http nor https), `missing_host`,
    /// `url_too_long`: its URL. `metadata_too_large`, `metadata_key_invalid`, `invalid_external_id`: its labels.
    /// `unknown_param`, `invalid_param_value`, `unsupported_param`: its `zenrows_params`. `unsupported_method`
    /// (neither GET nor POST), `body_not_allowed` (with GET), `body_too_large`, `method_param_conflict` (POST with a
    /// parameter that needs GET): its request. `malformed_task`: it is not a task.
    #[derive(JsonSchema)]
    #[schemars(rename = "InvalidReason")]
    pub enum Reason as json {
        MalformedUrl = "malformed_url",
        UnsupportedScheme = "unsupported_scheme",
        MissingHost = "missing_host",
        UrlTooLong = "url_too_long",
        MetadataTooLarge = "metadata_too_large",
        MetadataKeyInvalid = "metadata_key_invalid",
        InvalidExternalId = "invalid_external_id",
        UnknownParam = "unknown_param",
        InvalidParamValue = "invalid_param_value",
        UnsupportedParam = "unsupported_param",
        UnsupportedMethod = "unsupported_method",
        BodyNotAllowed = "body_not_allowed",
        BodyTooLarge = "body_too_large",
        MethodParamConflict = "method_param_conflict",
        MalformedTask = "malformed_task",
    }
}

/// A reason and the value at fault, cut short and without credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    pub reason: Reason,
    pub value: String,
}

impl Invalid {
    pub fn new(reason: Reason, value: &str) -> Invalid {
        Invalid { reason, value: cut(value, limits::ECHO_MAX_CHARS).to_owned() }
    }

    /// A bad URL may hold a password or a token: neither the part before `@` nor the query is repeated.
    fn url(reason: Reason, url: &str) -> Invalid {
        let (path, query) = url.split_once('?').map_or((url, ""), |(path, _)| (path, "?…"));
        let shown = match (path.find("//"), path.rfind('@')) {
            (Some(slashes), Some(at)) if at > slashes => format!("{}//…{}", &path[..slashes], &path[at..]),
            _ => path.to_owned(),
        };
        Invalid::new(reason, &format!("{shown}{query}"))
    }
}

crate::words! {
    /// How the target is called: `GET` or `POST`.
    #[derive(Default, JsonSchema)]
    pub enum Method as json {
        #[default]
        Get = "GET",
        Post = "POST",
    }
}

impl Method {
    pub fn is_get(&self) -> bool {
        *self == Method::Get
    }
}

/// What becomes of the fields of a task that nobody knows. Stored with a list that was accepted: whoever reads it again must
/// find the same rows valid. Lists that an earlier version accepted say nothing, and were read as `Refuse`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownFields {
    #[default]
    Refuse,
    Ignore,
}

impl UnknownFields {
    pub fn are_refused(&self) -> bool {
        *self == UnknownFields::Refuse
    }
}

/// What a task is checked by, beside the parameters of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRules {
    pub params: ParamPolicy,
    pub unknown_fields: UnknownFields,
}

impl TaskRules {
    /// Nothing unknown is let through.
    pub fn strict(params: ParamPolicy) -> TaskRules {
        TaskRules { params, unknown_fields: UnknownFields::Refuse }
    }
}

/// The body of a POST task, in the form it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskBody {
    /// An object, array, number or boolean: its JSON, `application/json`.
    Json(String),
    /// A string: verbatim, `application/x-www-form-urlencoded`.
    Form(String),
}

/// A checked task. Stored as JSON with short names: a million rows repeat them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskInput {
    #[serde(rename = "u")]
    pub url: String,
    #[serde(rename = "x", default, skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    #[serde(rename = "m", default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    #[serde(rename = "p", default, skip_serializing_if = "Params::is_empty")]
    pub params: Params,
    #[serde(rename = "v", default, skip_serializing_if = "Method::is_get")]
    pub method: Method,
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    pub body: Option<TaskBody>,
}

impl TaskInput {
    /// A task that is only a URL.
    pub fn from_url(url: &str) -> Result<TaskInput, Invalid> {
        check_url(url)?;
        Ok(TaskInput {
            url: url.to_owned(),
            external_id: None,
            metadata: Metadata::new(),
            params: Params::new(),
            method: Method::Get,
            body: None,
        })
    }

    /// A task as it stands in a JSON list, under the job's own parameters.
    pub fn from_json(value: &Value, job: &Params, rules: TaskRules) -> Result<TaskInput, Invalid> {
        let Value::Object(fields) = value else {
            return Err(Invalid::new(Reason::MalformedTask, &value.to_string()));
        };
        if rules.unknown_fields.are_refused()
            && let Some(unknown) = unknown_fields(value).next()
        {
            return Err(Invalid::new(Reason::MalformedTask, unknown));
        }
        let mut task = TaskInput::from_url(url_of(fields)?)?;
        task.external_id = match present(fields, "external_id") {
            None => None,
            Some(v) => Some(parse_external_id(v)?),
        };
        if let Some(v) = present(fields, "metadata") {
            task.metadata = parse_metadata(v)?;
        }
        if let Some(v) = present(fields, "zenrows_params") {
            task.params = params::parse(v, rules.params)?;
        }
        task.method = parse_method(present(fields, "method"))?;
        task.body = parse_body(present(fields, "body"), task.method)?;
        let post = task.method == Method::Post;
        if task.params.is_empty() {
            params::check_merged(job, post)?;
        } else {
            params::check_merged(&params::merge(job, &task.params), post)?;
        }
        Ok(task)
    }
}

/// The fields of a task in a JSON list that mean nothing.
pub fn unknown_fields(task: &Value) -> impl Iterator<Item = &str> {
    const FIELDS: [&str; 6] = ["url", "external_id", "metadata", "method", "body", "zenrows_params"];
    let names = task.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
    names.filter(|name| !FIELDS.contains(name))
}

/// A field that is there and not null.
fn present<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    fields.get(name).filter(|v| !v.is_null())
}

fn url_of(fields: &Map<String, Value>) -> Result<&str, Invalid> {
    match fields.get("url") {
        Some(Value::String(url)) => Ok(url),
        Some(other) => Err(Invalid::new(Reason::MalformedUrl, &other.to_string())),
        None => Err(Invalid::new(Reason::MalformedUrl, "")),
    }
}

pub fn check_url(url: &str) -> Result<(), Invalid> {
    if is_plain_url(url) {
        return Ok(());
    }
    let refuse = |reason| Err(Invalid::url(reason, url));
    if url.len() > limits::URL_MAX_BYTES {
        return refuse(Reason::UrlTooLong);
    }
    // The parser below forgives white space and control characters by dropping them; the bytes that were accepted would
    // then not be the bytes that are fetched.
    if url.is_empty() || url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return refuse(Reason::MalformedUrl);
    }
    let Some((scheme, rest)) = url.split_once(':') else { return refuse(Reason::MalformedUrl) };
    let legal = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.chars().all(legal) {
        return refuse(Reason::MalformedUrl);
    }
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        // `localhost:8080/x` is a host and a port, not a scheme.
        let looks_like_port = rest.starts_with(|c: char| c.is_ascii_digit());
        return refuse(if looks_like_port { Reason::MalformedUrl } else { Reason::UnsupportedScheme });
    }
    let Some(authority) = rest.strip_prefix("//") else { return refuse(Reason::MissingHost) };
    if authority.is_empty() || authority.starts_with(['/', '?', '#', ':']) {
        return refuse(Reason::MissingHost);
    }
    match Url::parse(url) {
        Ok(parsed) if parsed.has_host() => Ok(()),
        Ok(_) | Err(url::ParseError::EmptyHost) => refuse(Reason::MissingHost),
        Err(_) => refuse(Reason::MalformedUrl),
    }
}

/// Whether it is so plain that nothing is left to parse: most rows of most lists are, and parsing is most of what a row
/// costs. Only a host can make a parser refuse such a URL: one of plain names whose last label is no number is legal.
fn is_plain_url(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let Some(rest) = rest.filter(|_| url.len() <= limits::URL_MAX_BYTES) else { return false };
    let end = rest.bytes().position(|b| b"/?#".contains(&b)).unwrap_or(rest.len());
    let (host, tail) = rest.as_bytes().split_at(end);
    let is_label = |label: &[u8]| {
        !label.is_empty()
            && !label.starts_with(b"xn--")
            && label.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
    };
    let starts_with_letter = |label: &[u8]| label.first().is_some_and(u8::is_ascii_lowercase);
    host.split(|b| *b == b'.').all(is_label)
        && host.rsplit(|b| *b == b'.').next().is_some_and(starts_with_letter)
        && tail.iter().all(u8::is_ascii_graphic)
}

pub fn check_external_id(id: &str) -> Result<(), Invalid> {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    if (1..=limits::EXTERNAL_ID_MAX).contains(&id.len()) && id.bytes().all(legal) {
        return Ok(());
    }
    Err(Invalid::new(Reason::InvalidExternalId, id))
}

pub fn parse_external_id(value: &Value) -> Result<String, Invalid> {
    match value {
        Value::String(s) => check_external_id(s).map(|()| s.clone()),
        other => Err(Invalid::new(Reason::InvalidExternalId, &other.to_string())),
    }
}

pub fn parse_metadata(value: &Value) -> Result<Metadata, Invalid> {
    let Value::Object(map) = value else {
        return Err(Invalid::new(Reason::MetadataKeyInvalid, &value.to_string()));
    };
    if map.len() > limits::METADATA_PAIRS_MAX {
        return Err(Invalid::new(Reason::MetadataTooLarge, &format!("{} pairs", map.len())));
    }
    let mut metadata = Metadata::new();
    for (key, value) in map {
        let chars = key.chars().count();
        if chars == 0 || chars > limits::METADATA_KEY_MAX || key.chars().any(char::is_control) {
            return Err(Invalid::new(Reason::MetadataKeyInvalid, key));
        }
        match value {
            Value::String(s) if s.chars().count() <= limits::METADATA_VALUE_MAX => {
                metadata.insert(key.clone(), s.clone());
            }
            Value::String(_) => return Err(Invalid::new(Reason::MetadataTooLarge, key)),
            _ => return Err(Invalid::new(Reason::MetadataKeyInvalid, key)),
        }
    }
    Ok(metadata)
}

fn parse_method(value: Option<&Value>) -> Result<Method, Invalid> {
    match value {
        None => Ok(Method::Get),
        Some(Value::String(s)) if s.eq_ignore_ascii_case("GET") => Ok(Method::Get),
        Some(Value::String(s)) if s.eq_ignore_ascii_case("POST") => Ok(Method::Post),
        Some(Value::String(s)) => Err(Invalid::new(Reason::UnsupportedMethod, s)),
        Some(other) => Err(Invalid::new(Reason::UnsupportedMethod, &other.to_string())),
    }
}

fn parse_body(value: Option<&Value>, method: Method) -> Result<Option<TaskBody>, Invalid> {
    let Some(value) = value else { return Ok(None) };
    if method != Method::Post {
        return Err(Invalid::new(Reason::BodyNotAllowed, "body"));
    }
    let (text, body) = match value {
        Value::String(s) => (s.len(), TaskBody::Form(s.clone())),
        other => {
            let json = other.to_string();
            (json.len(), TaskBody::Json(json))
        }
    };
    if text > limits::TASK_BODY_MAX_BYTES {
        return Err(Invalid::new(Reason::BodyTooLarge, &format!("{text} bytes")));
    }
    Ok(Some(body))
}

#[cfg(test)]
#[path = "task_input_tests.rs"]
mod tests;
