//! Which gateway a deployment uses, as an operator writes it.

use conveyor_domain::job::failure::cut;
use std::fmt;
use std::str::FromStr;
use url::Url;

/// Which gateway a deployment uses.
#[derive(Clone, PartialEq, Eq)]
pub enum GatewayChoice {
    /// `demo:`, a synthetic page for every URL.
    Demo,
    /// `null:`, an empty body at once.
    Null,
    Http(Url),
    /// No gateway: Conveyor fetches by itself.
    Direct {
        allow_private_targets: bool,
    },
}

/// What may stand in a log: a gateway's URL can carry a password or a token, so neither that part nor the query is
/// shown.
impl fmt::Display for GatewayChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GatewayChoice::Demo => f.write_str("demo:"),
            GatewayChoice::Null => f.write_str("null:"),
            GatewayChoice::Http(url) => write_without_secrets(url, f),
            GatewayChoice::Direct { allow_private_targets: false } => {
                f.write_str("none, public targets only")
            }
            GatewayChoice::Direct { allow_private_targets: true } => {
                f.write_str("none, private targets allowed")
            }
        }
    }
}

impl fmt::Debug for GatewayChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GatewayChoice({self})")
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseChoiceError {
    #[error("a gateway is `demo:`, `null:` or an http(s) URL")]
    NotAGateway,
    #[error("a gateway URL starts with http:// or https://, not `{0}:`")]
    Scheme(String),
    #[error("the gateway URL is malformed: {0}")]
    Malformed(url::ParseError),
}

impl FromStr for GatewayChoice {
    type Err = ParseChoiceError;

    fn from_str(text: &str) -> Result<GatewayChoice, ParseChoiceError> {
        match text {
            "demo:" => return Ok(GatewayChoice::Demo),
            "null:" => return Ok(GatewayChoice::Null),
            _ => {}
        }
        let url = match Url::parse(text) {
            Ok(url) => url,
            Err(url::ParseError::RelativeUrlWithoutBase) => return Err(ParseChoiceError::NotAGateway),
            Err(malformed) => return Err(ParseChoiceError::Malformed(malformed)),
        };
        match url.scheme() {
            "http" | "https" => Ok(GatewayChoice::Http(url)),
            // A bare `host:port` parses as a scheme, and so might a key that was pasted by mistake: only a short word
            // is repeated.
            other => Err(ParseChoiceError::Scheme(cut(other, 16).to_owned())),
        }
    }
}

/// Scheme, host, port and path: not the password, not the query.
pub(super) fn write_without_secrets(url: &Url, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{}://{}", url.scheme(), url.host_str().unwrap_or_default())?;
    if let Some(port) = url.port() {
        write!(f, ":{port}")?;
    }
    f.write_str(url.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(text: &str) -> Result<GatewayChoice, ParseChoiceError> {
        text.parse()
    }

    #[test]
    fn a_choice_is_a_word_or_an_http_url() {
        assert_eq!(choice("demo:"), Ok(GatewayChoice::Demo));
        assert_eq!(choice("null:"), Ok(GatewayChoice::Null));
        let url = "https://gw.example/v1?plan=a";
        assert_eq!(choice(url), Ok(GatewayChoice::Http(url.parse().unwrap())));
    }

    #[test]
    fn a_bad_choice_is_told_what_is_wrong() {
        let refusal = |text| choice(text).unwrap_err().to_string();
        assert_eq!(refusal("demo"), "a gateway is `demo:`, `null:` or an http(s) URL");
        assert_eq!(refusal(""), "a gateway is `demo:`, `null:` or an http(s) URL");
        assert_eq!(refusal("ftp://x/"), "a gateway URL starts with http:// or https://, not `ftp:`");
        assert_eq!(
            refusal("localhost:9000"),
            "a gateway URL starts with http:// or https://, not `localhost:`"
        );
        assert_eq!(refusal("http://"), "the gateway URL is malformed: empty host");
    }
}
