//! Result URLs: who holds one may read that one body for a while, without a key (SPEC 10).

use crate::problem::{ApiError, Code, Result};
use crate::state::Shared;
use axum::extract::FromRequestParts;
use axum::http::header::HOST;
use axum::http::request::Parts;
use conveyor_domain::seal::Secret;
use conveyor_domain::{JobId, RunId, TaskId, Timestamp, limits};
use std::convert::Infallible;
use std::fmt;

/// The address of one body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContentPath {
    pub job: JobId,
    pub run: RunId,
    pub task: TaskId,
}

impl fmt::Display for ContentPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/v1/content/{}/{}/{}", self.job, self.run, self.task)
    }
}

impl ContentPath {
    pub fn signed(&self, secret: &Secret, base: &BaseUrl, now: Timestamp) -> String {
        let expires_s = now.after(limits::RESULT_URL_TTL).as_ms() / 1000;
        let text = format!("{self}?expires={expires_s}");
        let signature = secret.sign_url(&text);
        format!("{}{text}&signature={signature}", base.0)
    }

    /// Checks what came back of a signed URL. Missing, edited and expired are one answer: it tells a forger nothing.
    pub fn verify(
        &self,
        secret: &Secret,
        expires: Option<&str>,
        signature: Option<&str>,
        now: Timestamp,
    ) -> Result<()> {
        let refuse = || ApiError::new(Code::SignatureInvalid, "The URL was edited or has expired.");
        let (Some(expires), Some(signature)) = (expires, signature) else { return Err(refuse()) };
        // Over the text as it came, before it means anything: `+7` and `7` are one number but not one URL.
        secret.verify_url(&format!("{self}?expires={expires}"), signature).map_err(|_| refuse())?;
        let expires_s: i64 = expires.parse().map_err(|_| refuse())?;
        if now.as_ms() / 1000 < expires_s { Ok(()) } else { Err(refuse()) }
    }
}

/// What result URLs start with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BaseUrl(String);

impl FromRequestParts<Shared> for BaseUrl {
    type Rejection = Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &Shared,
    ) -> std::result::Result<BaseUrl, Infallible> {
        Ok(match &state.config.public_url {
            Some(url) => BaseUrl(url.trim_end_matches('/').to_owned()),
            None => BaseUrl::of_host(host_of(parts)),
        })
    }
}

impl BaseUrl {
    fn of_host(host: Option<&str>) -> BaseUrl {
        let legal = |b: u8| b.is_ascii_alphanumeric() || b".-_:[]".contains(&b);
        // The host comes back to the caller inside a URL: nothing in it may end the host part early.
        let host = host.filter(|h| (1..=HOST_MAX_BYTES).contains(&h.len()) && h.bytes().all(legal));
        BaseUrl(format!("http://{}", host.unwrap_or("localhost")))
    }
}

/// A DNS name has at most 253 characters; this leaves room for a port.
const HOST_MAX_BYTES: usize = 260;

/// HTTP/1.1 names the host in a header, HTTP/2 in the URI.
fn host_of(parts: &Parts) -> Option<&str> {
    let header = parts.headers.get(HOST).and_then(|value| value.to_str().ok());
    header.or_else(|| parts.uri.authority().map(|authority| authority.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path() -> ContentPath {
        let run = RunId::from_bytes([2; 16]);
        ContentPath { job: JobId::from_bytes([1; 16]), run, task: TaskId::of(run, 3) }
    }

    /// Expires and signature of a URL.
    fn parts_of(url: &str) -> (&str, &str) {
        url.split_once("?expires=").unwrap().1.split_once("&signature=").unwrap()
    }

    fn verifies(path: ContentPath, expires: &str, signature: &str, now_s: i64) -> bool {
        let secret = Secret::new([1; 32]);
        path.verify(&secret, Some(expires), Some(signature), Timestamp(now_s * 1000)).is_ok()
    }

    #[test]
    fn a_url_opens_one_body_until_it_expires() {
        let url = path().signed(&Secret::new([1; 32]), &BaseUrl::of_host(Some("h:1")), Timestamp(1_500));
        assert!(url.starts_with(&format!("http://h:1{}?expires=7201&", path())));
        let (expires, signature) = parts_of(&url);
        assert!(verifies(path(), expires, signature, 7_200));
        assert!(!verifies(path(), expires, signature, 7_201), "expired");
        let other = ContentPath { task: TaskId::of(path().run, 4), ..path() };
        assert!(!verifies(other, expires, signature, 0), "another body");
        for edited in ["7202", "07201", "+7201", "", "x"] {
            assert!(!verifies(path(), edited, signature, 0), "{edited:?}");
        }
        assert!(!verifies(path(), expires, &signature[1..], 0));
        assert!(!verifies(path(), expires, "", 0));
    }

    #[test]
    fn both_parts_are_needed() {
        let secret = Secret::new([1; 32]);
        let missing = |expires, signature| path().verify(&secret, expires, signature, Timestamp(0)).is_err();
        assert!(missing(None, None) && missing(Some("9"), None) && missing(None, Some("x")));
    }

    #[test]
    fn a_host_that_would_change_the_url_is_not_used() {
        let base = |host| BaseUrl::of_host(host).0;
        assert_eq!(base(Some("example.com:8080")), "http://example.com:8080");
        assert_eq!(base(Some("[::1]:80")), "http://[::1]:80");
        for bad in ["", "evil.com/x?", "a@b", "a b", "a#", "a\\b"] {
            assert_eq!(base(Some(bad)), "http://localhost", "{bad:?}");
        }
        assert_eq!(base(None), "http://localhost");
    }
}
