//! What of a request must not be kept if somebody repeats it: the forwarded key, and the values of custom headers.

use super::GatewayRequest;
use conveyor_domain::job::params::custom_headers_of;
use url::form_urlencoded;

/// Shorter values of headers are no secrets, but words (`en`, `gzip`, `1`) that a text may well hold by itself.
const HEADER_SECRET_MIN_BYTES: usize = 8;

pub(super) struct Secrets(Vec<(String, &'static str)>);

impl Secrets {
    pub fn of(request: &GatewayRequest) -> Secrets {
        let key = request.credential.iter().map(|key| (key.expose().to_owned(), "[key]"));
        let headers = request.params.get("custom_headers").and_then(|text| custom_headers_of(text));
        let headers = headers.unwrap_or_default().into_values().map(|value| value.trim().to_owned());
        let headers = headers.filter(|value| value.len() >= HEADER_SECRET_MIN_BYTES);
        let mut secrets: Vec<_> = key.chain(headers.map(|value| (value, "[header]"))).collect();
        secrets.retain(|(secret, _)| !secret.is_empty());
        // A value that holds another goes first, so that nothing is left of either.
        secrets.sort_by_key(|(secret, _)| std::cmp::Reverse(secret.len()));
        Secrets(secrets)
    }

    pub fn none() -> Secrets {
        Secrets(Vec::new())
    }

    /// The text without them, as they are and as they are in URLs.
    pub fn scrubbed(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (secret, instead)| {
            let encoded: String = form_urlencoded::byte_serialize(secret.as_bytes()).collect();
            text.replace(secret.as_str(), instead).replace(&encoded, instead)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::Credential;
    use conveyor_domain::{Method, Params};

    fn secrets(headers: &str, key: Option<&str>) -> Secrets {
        Secrets::of(&GatewayRequest {
            caller: conveyor_domain::CallerId::from_bytes([1; 16]),
            url: "https://t.example/".to_owned(),
            method: Method::Get,
            body: None,
            params: Params::from([("custom_headers".to_owned(), headers.to_owned())]),
            credential: key.map(Credential::new),
        })
    }

    #[test]
    fn headers_are_blanked_out_and_words_are_not() {
        let of = secrets(
            r#"{"Cookie": "sid=0123 456", "Accept-Language": "en", "X": "sid=0123 456789"}"#,
            Some("k/ey"),
        );
        let said = "en: sid=0123 456789, then sid=0123 456, sid%3D0123+456 and k%2Fey";
        assert_eq!(of.scrubbed(said), "en: [header], then [header], [header] and [key]");
    }
}
