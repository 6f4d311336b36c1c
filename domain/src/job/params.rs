//! Parameters that the gateway gets beside the URL: which are allowed, what they may hold, and what they make of the result.

use crate::job::task_input::{Invalid, Reason};
use crate::limits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Stored canonically: every value is a string, an object is its JSON.
pub type Params = BTreeMap<String, String>;

/// Which parameters a deployment accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParamPolicy {
    /// The keys of the ZenRows Fetch API.
    #[default]
    ZenRows,
    /// Another gateway: any key passes.
    Any,
    /// No gateway: Conveyor fetches by itself and can honour only headers.
    DirectFetch,
}

const KNOWN: [&str; 19] = [
    "mode",
    "js_render",
    "js_instructions",
    "custom_headers",
    "premium_proxy",
    "proxy_country",
    "session_id",
    "original_status",
    "allowed_status_codes",
    "wait_for",
    "wait",
    "block_resources",
    "json_response",
    "css_extractor",
    "autoparse",
    "response_type",
    "outputs",
    "extract",
    "extract_fields",
];
const FLAGS: [&str; 5] = ["js_render", "premium_proxy", "original_status", "json_response", "autoparse"];
const RESPONSE_TYPES: [&str; 3] = ["markdown", "plaintext", "pdf"];
/// What Conveyor itself sends: a caller's own would be a second opinion about whose money is spent on which URL.
const RESERVED: [&str; 2] = ["apikey", "url"];
/// Headers that belong to the connection: a length or a host of the caller's choosing could smuggle a second request. They are
/// dropped, as they say nothing about the page.
pub const CONNECTION_HEADERS: [&str; 12] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// What a POST task cannot be combined with.
const NOT_WITH_POST: [&str; 3] = ["js_render", "js_instructions", "json_response"];

crate::words! {
    /// The format of a result: `html`, `json`, `markdown`, `plaintext` or `pdf`.
    #[derive(JsonSchema)]
    pub enum Format as json {
        Html = "html",
        Json = "json",
        Markdown = "markdown",
        Plaintext = "plaintext",
        Pdf = "pdf",
    }
}

impl Format {
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Html => "text/html; charset=utf-8",
            Format::Json => "application/json",
            Format::Markdown => "text/markdown; charset=utf-8",
            Format::Plaintext => "text/plain; charset=utf-8",
            Format::Pdf => "application/pdf",
        }
    }

    /// What these parameters make the gateway answer with.
    pub fn of(params: &Params) -> Format {
        match params.get("response_type").map(String::as_str) {
            Some("markdown") => return Format::Markdown,
            Some("plaintext") => return Format::Plaintext,
            Some("pdf") => return Format::Pdf,
            Some(_) | None => {}
        }
        let set = |key| params.get(key).is_some_and(|v| !v.is_empty());
        let json = is_on(params, "autoparse")
            || is_on(params, "json_response")
            || set("css_extractor")
            || set("extract");
        if json { Format::Json } else { Format::Html }
    }
}

/// Job params with a task's own laid over them: the task wins.
pub fn merge(job: &Params, task: &Params) -> Params {
    let mut merged = job.clone();
    merged.extend(task.iter().map(|(k, v)| (k.clone(), v.clone())));
    merged
}

pub fn is_on(params: &Params, key: &str) -> bool {
    params.get(key).is_some_and(|v| v.eq_ignore_ascii_case("true"))
}

/// Reads and checks a `zenrows_params` object.
pub fn parse(value: &Value, policy: ParamPolicy) -> Result<Params, Invalid> {
    let bad = |key: &str| Invalid::new(Reason::InvalidParamValue, key);
    let Value::Object(map) = value else { return Err(bad("zenrows_params")) };
    let (mut params, mut bytes) = (Params::new(), 0);
    for (key, value) in map {
        match policy {
            ParamPolicy::ZenRows if !KNOWN.contains(&key.as_str()) => {
                return Err(Invalid::new(Reason::UnknownParam, key));
            }
            ParamPolicy::Any if RESERVED.contains(&key.as_str()) => {
                return Err(Invalid::new(Reason::UnsupportedParam, key));
            }
            ParamPolicy::DirectFetch if key != "custom_headers" => {
                return Err(Invalid::new(Reason::UnsupportedParam, key));
            }
            ParamPolicy::ZenRows | ParamPolicy::Any | ParamPolicy::DirectFetch => {}
        }
        let text = match value {
            Value::String(s) => s.clone(),
            Value::Bool(b) => b.to_string(),
            Value::Number(n) => n.to_string(),
            Value::Object(_) => value.to_string(),
            Value::Null | Value::Array(_) => return Err(bad(key)),
        };
        check_value(key, &text, policy).ok_or_else(|| bad(key))?;
        bytes += json_bytes(key) + json_bytes(&text);
        if bytes > limits::PARAMS_MAX_BYTES {
            return Err(bad(key));
        }
        params.insert(key.clone(), text);
    }
    Ok(params)
}

/// How long a text is as JSON: what is stored of it, and forwarded of an object. Of a text of control characters that is six
/// times as much.
fn json_bytes(text: &str) -> usize {
    let escaped = |byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    };
    "\"\"".len() + text.bytes().map(escaped).sum::<usize>()
}

/// The parameters that [`check_merged`] looks at.
const CONFLICTING: [&str; 5] = ["mode", "js_render", "premium_proxy", "js_instructions", "json_response"];

/// Whether a job with these parameters, which make sense by themselves, can make a task invalid that is valid by itself.
pub fn can_conflict(job: &Params) -> bool {
    CONFLICTING.iter().any(|key| job.contains_key(*key))
}

/// What only shows once job and task params are merged.
pub fn check_merged(params: &Params, post: bool) -> Result<(), Invalid> {
    let auto = params.get("mode").is_some_and(|m| m.eq_ignore_ascii_case("auto"));
    if auto && (is_on(params, "js_render") || is_on(params, "premium_proxy")) {
        return Err(Invalid::new(Reason::InvalidParamValue, "mode"));
    }
    let conflict = |key: &&&str| match **key {
        "js_instructions" => params.get("js_instructions").is_some_and(|v| !v.is_empty()),
        flag => is_on(params, flag),
    };
    match NOT_WITH_POST.iter().find(conflict) {
        Some(key) if post => Err(Invalid::new(Reason::MethodParamConflict, key)),
        Some(_) | None => Ok(()),
    }
}

fn check_value(key: &str, text: &str, policy: ParamPolicy) -> Option<()> {
    let ok = match key {
        "custom_headers" => return custom_headers_of(text).map(|_| ()),
        _ if policy != ParamPolicy::ZenRows => true,
        _ if FLAGS.contains(&key) => text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false"),
        "response_type" => RESPONSE_TYPES.contains(&text),
        "wait" => text.parse::<u32>().is_ok(),
        _ => true,
    };
    ok.then_some(())
}

/// The headers that a task sends to its target, without those of the connection; `None` if the text is not an object of legal
/// headers within the limits.
pub fn custom_headers_of(text: &str) -> Option<BTreeMap<String, String>> {
    let mut headers: BTreeMap<String, String> = serde_json::from_str(text).ok()?;
    let bytes: usize = headers.iter().map(|(k, v)| k.len() + v.len()).sum();
    let legal = |(name, value): (&String, &String)| {
        !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
            && value.bytes().all(|b| b == b'\t' || (b >= b' ' && b != 0x7f))
    };
    let within = headers.len() <= limits::CUSTOM_HEADERS_MAX && bytes <= limits::CUSTOM_HEADERS_MAX_BYTES;
    if !within || !headers.iter().all(legal) {
        return None;
    }
    headers.retain(|name, _| !CONNECTION_HEADERS.contains(&name.to_ascii_lowercase().as_str()));
    Some(headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn params(v: Value) -> Params {
        parse(&v, ParamPolicy::ZenRows).unwrap()
    }

    fn refused(v: Value, policy: ParamPolicy) -> (Reason, String) {
        let e = parse(&v, policy).unwrap_err();
        (e.reason, e.value)
    }

    #[test]
    fn values_become_strings() {
        let p = params(
            json!({"js_render": true, "wait": 500, "custom_headers": {"A": "b"}, "proxy_country": "us"}),
        );
        assert_eq!(p["js_render"], "true");
        assert_eq!(p["wait"], "500");
        assert_eq!(p["custom_headers"], r#"{"A":"b"}"#);
    }

    #[test]
    fn headers_of_the_connection_are_dropped() {
        let mixed = json!({"custom_headers": {"Content-Length": "0", "HOST": "evil", "Cookie": "a=b"}});
        let sent = custom_headers_of(&params(mixed)["custom_headers"]).unwrap();
        assert_eq!(sent, BTreeMap::from([("Cookie".to_owned(), "a=b".to_owned())]));
    }

    #[test]
    fn bad_params_are_named() {
        assert_eq!(refused(json!({"nope": 1}), ParamPolicy::ZenRows), (Reason::UnknownParam, "nope".into()));
        assert_eq!(
            refused(json!({"js_render": "yes"}), ParamPolicy::ZenRows),
            (Reason::InvalidParamValue, "js_render".into())
        );
        assert_eq!(
            refused(json!({"wait": null}), ParamPolicy::Any),
            (Reason::InvalidParamValue, "wait".into())
        );
        assert_eq!(
            refused(json!({"js_render": true}), ParamPolicy::DirectFetch),
            (Reason::UnsupportedParam, "js_render".into())
        );
        assert!(parse(&json!({"nope": 1}), ParamPolicy::Any).is_ok());
        let split = json!({"custom_headers": {"X": "a\r\nHost: evil"}});
        assert_eq!(refused(split, ParamPolicy::Any).0, Reason::InvalidParamValue);
        let huge = json!({"js_instructions": "x".repeat(limits::PARAMS_MAX_BYTES)});
        assert_eq!(
            refused(huge, ParamPolicy::ZenRows),
            (Reason::InvalidParamValue, "js_instructions".into())
        );
        assert!(
            parse(&json!({"wait_for": "\"".repeat(limits::PARAMS_MAX_BYTES / 2 - 10)}), ParamPolicy::Any)
                .is_ok()
        );
        refused(json!({"wait_for": "\"".repeat(limits::PARAMS_MAX_BYTES / 2)}), ParamPolicy::Any);
        refused(json!({"wait_for": "\u{1}".repeat(limits::PARAMS_MAX_BYTES / 6)}), ParamPolicy::Any);
        assert_eq!(
            refused(json!({"apikey": "x"}), ParamPolicy::Any),
            (Reason::UnsupportedParam, "apikey".into())
        );
    }

    #[test]
    fn a_text_is_counted_as_it_is_stored() {
        let every: String = (0..0x250u32).filter_map(char::from_u32).collect();
        assert_eq!(json_bytes(&every), serde_json::to_string(&every).unwrap().len());
    }

    #[test]
    fn format_follows_the_documented_precedence() {
        assert_eq!(Format::of(&params(json!({}))), Format::Html);
        assert_eq!(Format::of(&params(json!({"autoparse": true}))), Format::Json);
        assert_eq!(Format::of(&params(json!({"autoparse": false}))), Format::Html);
        assert_eq!(Format::of(&params(json!({"css_extractor": "{}", "response_type": "pdf"}))), Format::Pdf);
    }

    #[test]
    fn conflicts_show_after_the_merge() {
        let merged = merge(&params(json!({"js_render": true})), &params(json!({"wait": 1})));
        assert_eq!(check_merged(&merged, true).unwrap_err().reason, Reason::MethodParamConflict);
        assert!(check_merged(&merged, false).is_ok());
        let off = merge(&merged, &params(json!({"js_render": false})));
        assert!(check_merged(&off, true).is_ok(), "the task wins");
        let auto = params(json!({"mode": "auto", "premium_proxy": true}));
        assert_eq!(check_merged(&auto, false).unwrap_err().value, "mode");
    }
}
