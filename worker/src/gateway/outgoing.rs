//! What is sent: the client's settings, headers and body, the same whether a gateway or a target gets them.

use super::no_answer::NoAnswer;
use super::{GatewayLimits, GatewayRequest};
use bytes::Bytes;
use conveyor_domain::job::params::custom_headers_of;
use conveyor_domain::{TaskBody, task_input};
use reqwest::header::{
    ACCEPT, ACCEPT_LANGUAGE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION, CONTENT_TYPE, HeaderMap,
    HeaderName, HeaderValue, USER_AGENT,
};
use reqwest::{Client, ClientBuilder, Method, Response, Url, redirect};

/// What may follow a redirect to another site. Any other header may be a credential of the first one, whatever its
/// name.
const HARMLESS: [HeaderName; 4] = [ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, USER_AGENT];

pub(super) fn client(limits: GatewayLimits) -> ClientBuilder {
    conveyor_outbound::client_builder()
        .connect_timeout(limits.connect_timeout)
        .redirect(redirect::Policy::none())
        // What the environment says about proxies is for other programs; a proxy would also hide which address is
        // connected to.
        .no_proxy()
        .referer(false)
        // One request a connection: over HTTP/2 the other side's stream limit would queue our requests where nobody
        // sees them, and their time to answer would run out there.
        .http1_only()
}

/// A request without its URL.
#[derive(Clone)]
pub(super) struct Outgoing {
    method: Method,
    headers: HeaderMap,
    body: Option<Bytes>,
}

impl Outgoing {
    pub fn of(request: &GatewayRequest) -> Outgoing {
        let mut headers = HeaderMap::new();
        let (method, body) = match (request.method, &request.body) {
            (task_input::Method::Get, _) => (Method::GET, None),
            (task_input::Method::Post, None) => (Method::POST, None),
            (task_input::Method::Post, Some(TaskBody::Json(text))) => {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                (Method::POST, Some(Bytes::from(text.clone())))
            }
            (task_input::Method::Post, Some(TaskBody::Form(text))) => {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
                (Method::POST, Some(Bytes::from(text.clone())))
            }
        };
        // The caller's come last, so a content type of theirs replaces ours.
        for (name, value) in custom_headers(request) {
            headers.insert(name, value);
        }
        Outgoing { method, headers, body }
    }

    pub async fn send(&self, client: &Client, url: Url) -> Result<Response, NoAnswer> {
        let mut request = client.request(self.method.clone(), url).headers(self.headers.clone());
        if let Some(body) = &self.body {
            request = request.body(body.clone());
        }
        Ok(request.send().await?)
    }

    /// As browsers do it: what these statuses redirect is fetched with GET.
    pub fn become_get(&mut self) {
        self.method = Method::GET;
        self.body = None;
        for name in [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION] {
            self.headers.remove(name);
        }
    }

    pub fn leave_site(&mut self) {
        let kept =
            HARMLESS.into_iter().filter_map(|name| self.headers.remove(&name).map(|value| (name, value)));
        let kept: HeaderMap = kept.collect();
        self.headers = kept;
    }
}

/// The headers of `custom_headers`, if they are all legal, as the submit has seen to.
fn custom_headers(request: &GatewayRequest) -> Vec<(HeaderName, HeaderValue)> {
    let Some(headers) = request.params.get("custom_headers").and_then(|text| custom_headers_of(text)) else {
        return Vec::new();
    };
    let parse = |(name, value): (String, String)| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        let mut value = HeaderValue::from_bytes(value.as_bytes()).ok()?;
        // Any of them may be a credential; this keeps it out of the client's own debug output.
        value.set_sensitive(true);
        Some((name, value))
    };
    headers.into_iter().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::Params;

    fn outgoing(custom_headers: &str, body: Option<TaskBody>) -> Outgoing {
        Outgoing::of(&GatewayRequest {
            caller: conveyor_domain::CallerId::from_bytes([1; 16]),
            url: "https://t.example/".to_owned(),
            method: task_input::Method::Post,
            body,
            params: Params::from([("custom_headers".to_owned(), custom_headers.to_owned())]),
            credential: None,
        })
    }

    #[test]
    fn headers_of_the_connection_are_never_sent() {
        let sent = outgoing(r#"{"Content-Length": "0", "X-Fine": "yes"}"#, None);
        assert!(
            sent.headers.get("content-length").is_none(),
            "refused at submit, and not sent from an older row either"
        );
        assert_eq!(outgoing(r#"{"X-Fine": "yes"}"#, None).headers["x-fine"], "yes");
    }

    #[test]
    fn a_content_type_of_the_callers_wins() {
        let json = || Some(TaskBody::Json("{}".to_owned()));
        assert_eq!(outgoing("{}", json()).headers[CONTENT_TYPE], "application/json");
        assert_eq!(outgoing(r#"{"content-TYPE": "text/xml"}"#, json()).headers[CONTENT_TYPE], "text/xml");
        let form = Some(TaskBody::Form("a=b".to_owned()));
        assert_eq!(outgoing("{}", form).headers[CONTENT_TYPE], "application/x-www-form-urlencoded");
    }

    #[test]
    fn another_site_gets_no_credentials() {
        let headers = r#"{"Authorization": "a", "Cookie": "b", "X-Api-Key": "c",
            "Accept-Language": "de", "User-Agent": "me"}"#;
        let mut sent = outgoing(headers, Some(TaskBody::Json("{}".to_owned())));
        sent.leave_site();
        let mut names: Vec<_> = sent.headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["accept-language", "content-type", "user-agent"]);
        assert!(sent.body.is_some(), "only the status decides about the body");
    }

    #[test]
    fn a_get_says_nothing_about_a_body() {
        let mut sent = outgoing(
            r#"{"Content-Type": "text/xml", "X-Fine": "yes"}"#,
            Some(TaskBody::Json("{}".to_owned())),
        );
        sent.become_get();
        assert_eq!((sent.method, sent.body), (Method::GET, None));
        assert_eq!(sent.headers.len(), 1);
    }

    #[test]
    fn values_stay_out_of_debug_output() {
        let sent = outgoing(r#"{"X-Token": "hidden-value"}"#, None);
        assert!(!format!("{:?}", sent.headers).contains("hidden-value"));
    }
}
