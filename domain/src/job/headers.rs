//! Custom headers at rest (SPEC 13): cookies and tokens of the caller's, so they are sealed before they are stored, and opened
//! by whoever calls the gateway.

use crate::job::params::custom_headers_of;
use crate::{Entropy, NotAuthentic, Params, Purpose, Sealed, Secret};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt::Display;
use std::sync::Arc;

const PARAM: &str = "custom_headers";
/// No object of headers begins like this, so what an earlier version stored in the clear is told from it.
const PREFIX: &str = "sealed:";
/// What is shown in their place.
const HIDDEN: &str = "***";

/// Seals headers for one job, or for one staged list. Rows that are copied within a job open as they are.
#[derive(Clone, Debug)]
pub struct HeaderSeal {
    secret: Secret,
    entropy: Arc<Entropy>,
}

impl HeaderSeal {
    pub fn new(secret: Secret, entropy: Arc<Entropy>) -> HeaderSeal {
        HeaderSeal { secret, entropy }
    }

    fn text(&self, of: &impl Display, plain: &str) -> String {
        let sealed = self.secret.seal(Purpose::Headers, &of.to_string(), plain.as_bytes(), &self.entropy);
        format!("{PREFIX}{}", sealed.0)
    }

    /// Seals the headers among these parameters, unless they are.
    pub fn seal(&self, of: &impl Display, params: &mut Params) {
        if let Some(text) = params.get_mut(PARAM).filter(|text| !text.starts_with(PREFIX)) {
            *text = self.text(of, text);
        }
    }

    /// The lines of a JSON Lines list with their headers sealed. What is no task, or has headers that are none, stays as it
    /// is: it is refused when it is checked.
    pub fn seal_lines<'a>(&self, of: &impl Display, lines: &'a [u8]) -> Cow<'a, [u8]> {
        if !may_have_headers(lines) {
            return Cow::Borrowed(lines);
        }
        let mut sealed = Vec::with_capacity(lines.len());
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            match self.seal_line(of, line) {
                Some(line) => {
                    sealed.extend_from_slice(line.as_bytes());
                    sealed.push(b'\n');
                }
                None => sealed.extend_from_slice(line),
            }
        }
        Cow::Owned(sealed)
    }

    fn seal_line(&self, of: &impl Display, line: &[u8]) -> Option<String> {
        if !may_have_headers(line) {
            return None;
        }
        let mut task: Value = serde_json::from_slice(line).ok()?;
        let headers = headers_of(&mut task)?;
        let text = match headers {
            Value::String(text) => text.clone(),
            Value::Object(_) => headers.to_string(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => return None,
        };
        custom_headers_of(&text)?;
        *headers = self.text(of, &text).into();
        Some(task.to_string())
    }

    /// Opens the headers of a task of a list that [`HeaderSeal::seal_lines`] wrote. What does not open stays as it is, and is
    /// no object of headers.
    pub fn open_task(&self, of: &impl Display, task: &mut Value) {
        let Some(Value::String(text)) = headers_of(task) else { return };
        if let Ok(Some(plain)) = opened(&self.secret, of, text) {
            *text = plain;
        }
    }
}

/// A key may be written with escapes: then only a parser can tell.
fn may_have_headers(json: &[u8]) -> bool {
    json.windows(7).any(|bytes| bytes == b"headers") || json.windows(2).any(|bytes| bytes == b"\\u")
}

fn headers_of(task: &mut Value) -> Option<&mut Value> {
    task.get_mut("zenrows_params")?.get_mut(PARAM)
}

/// `None` if the text is not sealed.
fn opened(secret: &Secret, of: &impl Display, text: &str) -> Result<Option<String>, NotAuthentic> {
    let Some(sealed) = text.strip_prefix(PREFIX) else { return Ok(None) };
    let plain = secret.open(Purpose::Headers, &of.to_string(), &Sealed(sealed.to_owned()))?;
    String::from_utf8(plain).map(Some).map_err(|_| NotAuthentic)
}

/// Opens the headers among these parameters, if they are sealed.
pub fn open(secret: &Secret, of: &impl Display, params: &mut Params) -> Result<(), NotAuthentic> {
    if let Some(text) = params.get_mut(PARAM)
        && let Some(plain) = opened(secret, of, text)?
    {
        *text = plain;
    }
    Ok(())
}

/// Parameters as they may be shown.
pub fn hidden(params: &Params) -> Cow<'_, Params> {
    if !params.contains_key(PARAM) {
        return Cow::Borrowed(params);
    }
    let mut shown = params.clone();
    shown.insert(PARAM.to_owned(), HIDDEN.to_owned());
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobId;
    use serde_json::json;

    const HEADERS: &str = r#"{"Cookie":"canary"}"#;

    fn seal() -> HeaderSeal {
        HeaderSeal::new(Secret::new([1; 32]), Arc::new(Entropy::from_number(1)))
    }

    fn params() -> Params {
        Params::from([("wait".to_owned(), "5".to_owned()), (PARAM.to_owned(), HEADERS.to_owned())])
    }

    #[test]
    fn headers_open_for_their_job_and_for_no_other() {
        let (job, other) = (JobId::from_bytes([1; 16]), JobId::from_bytes([2; 16]));
        let mut sealed = params();
        seal().seal(&job, &mut sealed);
        assert!(sealed[PARAM].starts_with(PREFIX) && !sealed[PARAM].contains("canary"));
        assert_eq!(sealed["wait"], "5");
        let once = sealed.clone();
        seal().seal(&job, &mut sealed);
        assert_eq!(sealed, once, "sealing again changes nothing");
        assert_eq!(open(&Secret::new([1; 32]), &other, &mut sealed.clone()), Err(NotAuthentic));
        assert_eq!(open(&Secret::new([2; 32]), &job, &mut sealed.clone()), Err(NotAuthentic));
        open(&Secret::new([1; 32]), &job, &mut sealed).unwrap();
        assert_eq!(sealed, params());
        open(&Secret::new([1; 32]), &job, &mut sealed).unwrap();
        assert_eq!(sealed, params(), "what an earlier version stored is not sealed");
    }

    #[test]
    fn lines_keep_their_number_and_only_headers_change() {
        let plain = b"{\"url\": \"https://a.example/headers\"}\nno json\n";
        assert_eq!(&*seal().seal_lines(&"u", plain), plain);
        for headers in [json!({"Cookie": "canary"}), json!(HEADERS)] {
            let task = json!({"url": "https://a.example", "zenrows_params": {PARAM: headers, "wait": 1}});
            let escaped = task.to_string().replace("custom_headers", "custom\\u005fheaders");
            let lines = format!("{{\"url\":\"x\"}}\n{task}\n{escaped}\n");
            let sealed = seal().seal_lines(&"u", lines.as_bytes()).into_owned();
            let sealed = String::from_utf8(sealed).unwrap();
            assert!(!sealed.contains("canary"), "{sealed}");
            assert_eq!(sealed.lines().count(), 3);
            assert_eq!(sealed.lines().next(), Some("{\"url\":\"x\"}"));
            for line in sealed.lines().skip(1) {
                let mut read: Value = serde_json::from_str(line).unwrap();
                seal().open_task(&"other", &mut read);
                assert!(read["zenrows_params"][PARAM].as_str().unwrap().starts_with(PREFIX));
                seal().open_task(&"u", &mut read);
                assert_eq!(read["zenrows_params"][PARAM], HEADERS);
                assert_eq!(read["zenrows_params"]["wait"], 1);
            }
        }
    }

    #[test]
    fn what_is_shown_has_no_values() {
        let shown = hidden(&params()).into_owned();
        assert_eq!((shown[PARAM].as_str(), shown["wait"].as_str()), (HIDDEN, "5"));
        let none = Params::new();
        assert!(matches!(hidden(&none), Cow::Borrowed(_)));
    }
}
