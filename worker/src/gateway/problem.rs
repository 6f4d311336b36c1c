//! What a gateway says about an error, as far as it is taken over (SPEC 11).
//!
//! The text is another system's and ends up in our rows and answers: it is cut, freed of control characters and of
//! what is secret of the request, and only the members we know are kept.

use super::secrets::Secrets;
use conveyor_domain::job::failure::cut;
use conveyor_domain::{Problem, limits};
use serde_json::Value;
use url::Url;

/// A code is a word for programs; anything longer or stranger is not one.
const CODE_MAX: usize = 64;

/// Reads an error body. `None` if it is not a problem, that is a JSON object with a `code`.
pub(super) fn parse(status: u16, body: &[u8], secrets: &Secrets) -> Option<Problem> {
    let Ok(Value::Object(members)) = serde_json::from_slice(body) else { return None };
    let member = |name: &str| members.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let code = member("code").filter(|code| is_code(code))?;
    let title = member("title").unwrap_or("The gateway refused the request");
    let mut problem = Problem::new(status, code, text(title, limits::ECHO_MAX_CHARS, secrets));
    if let Some(kind) = member("type").and_then(|kind| uri(kind, secrets)) {
        problem.kind = kind;
    }
    problem.detail = member("detail").map(|detail| text(detail, limits::FAILURE_DETAIL_MAX_CHARS, secrets));
    // A code that is the key itself would be odd, but it would be stored and shown.
    (secrets.scrubbed(code) == code).then_some(problem)
}

fn is_code(text: &str) -> bool {
    text.len() <= CODE_MAX && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(&b))
}

/// `type` has to be a URI, and one that a reader may follow.
fn uri(text: &str, secrets: &Secrets) -> Option<String> {
    let url = Url::parse(&secrets.scrubbed(text)).ok()?;
    let known = matches!(url.scheme(), "http" | "https" | "urn" | "about");
    (known && url.as_str().len() <= limits::URL_MAX_BYTES).then(|| url.into())
}

fn text(raw: &str, max_chars: usize, secrets: &Secrets) -> String {
    // Secrets first: a cut could leave most of one.
    let scrubbed = secrets.scrubbed(raw);
    cut(&scrubbed, max_chars).replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::{Credential, GatewayRequest};
    use conveyor_domain::{Method, Params};
    use serde_json::json;

    fn with_key(key: &str) -> Secrets {
        Secrets::of(&GatewayRequest {
            caller: conveyor_domain::CallerId::from_bytes([1; 16]),
            url: String::new(),
            method: Method::Get,
            body: None,
            params: Params::new(),
            credential: Some(Credential::new(key)),
        })
    }

    fn parsed(body: Value) -> Option<Problem> {
        parse(422, body.to_string().as_bytes(), &with_key("s3cret/key"))
    }

    #[test]
    fn known_members_are_kept_and_others_dropped() {
        let problem = parsed(json!({
            "code": "RESP001", "title": "Could not get content", "detail": "Try premium_proxy", "status": 200,
            "type": "https://docs.example/errors#RESP001", "instance": "/v1", "account": {"credits": 3},
        }))
        .unwrap();
        assert_eq!(problem.code, "RESP001");
        assert_eq!(problem.title, "Could not get content");
        assert_eq!(problem.detail.as_deref(), Some("Try premium_proxy"));
        assert_eq!(problem.kind, "https://docs.example/errors#RESP001");
        assert_eq!(problem.status, 422, "the status of the answer, whatever the body claims");
        assert!(problem.extra.is_empty() && problem.instance.is_none());
    }

    #[test]
    fn a_type_that_is_no_uri_is_replaced() {
        for kind in ["not a uri", "javascript:alert(1)", "/relative", ""] {
            let problem = parsed(json!({"code": "x", "type": kind})).unwrap();
            assert_eq!(problem.kind, "urn:conveyor:error:x", "{kind}");
        }
    }

    #[test]
    fn without_a_code_it_is_no_problem() {
        let code = |code: Value| parsed(json!({"code": code, "title": "t"}));
        assert!(code(json!("")).is_none());
        assert!(code(json!(402)).is_none());
        assert!(code(json!("two words")).is_none());
        assert!(code(json!("x".repeat(65))).is_none());
        assert!(code(json!("AUTH004")).is_some());
        assert!(parse(500, b"<html>", &Secrets::none()).is_none());
        assert!(parse(500, b"[1]", &Secrets::none()).is_none());
        assert!(parse(500, b"", &Secrets::none()).is_none());
    }

    #[test]
    fn long_or_wild_text_is_tamed() {
        let problem =
            parsed(json!({"code": "x", "title": "a\u{1b}[2Jb\n", "detail": "é".repeat(600)})).unwrap();
        assert_eq!(problem.title, "a [2Jb ");
        assert_eq!(problem.detail.unwrap().chars().count(), limits::FAILURE_DETAIL_MAX_CHARS);
    }

    #[test]
    fn the_key_is_not_repeated() {
        let problem = parsed(json!({
            "code": "x", "title": "bad key s3cret/key", "detail": "GET /?apikey=s3cret%2Fkey&url=u",
            "type": "https://docs.example/?key=s3cret/key",
        }))
        .unwrap();
        let stored = serde_json::to_string(&problem).unwrap();
        assert!(!stored.contains("s3cret"), "{stored}");
        assert!(problem.title.contains("bad key [key]"));
        assert!(parse(401, br#"{"code":"abc-def"}"#, &with_key("abc-def")).is_none());
    }
}
