//! Signed URLs: who holds one may do that one thing for a while, without a key (SPEC 10). A result URL reads one body, that of
//! an export one file, an upload URL writes one list or one part of it.

use crate::problem::{ApiError, Code, Result};
use crate::query::Params;
use crate::state::Shared;
use axum::extract::FromRequestParts;
use axum::http::header::HOST;
use axum::http::request::Parts;
use conveyor_domain::{CallerId, ExportId, JobId, ListSpec, RunId, Secret, TaskId, Timestamp, UploadId};
use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

/// The parameters that make a URL a signed one.
pub(crate) const SIGNATURE_PARAMS: &[&str] = &["expires", "signature"];
/// The same of a URL that reads.
pub(crate) const READ_PARAMS: &[&str] = &["caller", "expires", "signature"];

/// What a list can be sent as.
const SPECS: [ListSpec; 3] = [ListSpec::Csv { csv: None }, ListSpec::Jsonl, ListSpec::Lines];

/// A URL, and until when it is good.
#[derive(Debug)]
pub(crate) struct Link {
    pub url: String,
    pub expires: Timestamp,
}

/// Until when a URL that is made now is good, to the second, as URLs have it, and no longer than what it leads to can be
/// seen. `None` if that is over.
pub(crate) fn link_expires(now: Timestamp, ttl: Duration, seen_until: Timestamp) -> Option<Timestamp> {
    let until = now.after(ttl).min(seen_until);
    (until > now).then_some(Timestamp(until.as_ms() - until.as_ms().rem_euclid(1000)))
}

/// The address of something that anyone with its signed URL can read.
pub(crate) trait ReadPath: fmt::Display + Sized {
    fn signed(&self, caller: CallerId, secret: &Secret, base: &BaseUrl, expires: Timestamp) -> String {
        Allowed::read(self, Some(&caller.to_string())).url(secret, base, expires)
    }

    /// The caller that a URL is counted for. URLs of earlier versions name none.
    fn verify(&self, secret: &Secret, query: &Params, now: Timestamp) -> Result<Option<CallerId>> {
        let caller = query.get("caller");
        Allowed::read(self, caller).verify(secret, query, now)?;
        caller.map(|caller| caller.parse().map_err(|_| refuse())).transpose()
    }
}

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

impl ReadPath for ContentPath {}

/// The address of one export.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExportPath {
    pub job: JobId,
    pub run: RunId,
    pub export: ExportId,
}

impl fmt::Display for ExportPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/v1/exports/{}/{}/{}", self.job, self.run, self.export)
    }
}

impl ReadPath for ExportPath {}

/// Where the bytes of an upload go: all of them, or one part. Whose it is is part of the path, because no lookup goes
/// without its caller (SPEC 13).
#[derive(Clone, Copy, Debug)]
pub(crate) struct UploadPath {
    pub caller: CallerId,
    pub upload: UploadId,
}

impl UploadPath {
    pub fn signed(&self, spec: &ListSpec, secret: &Secret, base: &BaseUrl, expires: Timestamp) -> String {
        self.whole(spec.content_type()).url(secret, base, expires)
    }

    pub fn signed_part(&self, number: u32, secret: &Secret, base: &BaseUrl, expires: Timestamp) -> String {
        self.part(number).url(secret, base, expires)
    }

    /// The content type that the bytes must have: the URL was signed for one only.
    pub fn verify(&self, secret: &Secret, query: &Params, now: Timestamp) -> Result<&'static str> {
        let mut content_types = SPECS.iter().map(ListSpec::content_type);
        let signed_for =
            |content_type: &&'static str| self.whole(content_type).verify(secret, query, now).is_ok();
        content_types.find(signed_for).ok_or_else(refuse)
    }

    pub fn verify_part(&self, number: u32, secret: &Secret, query: &Params, now: Timestamp) -> Result<()> {
        self.part(number).verify(secret, query, now)
    }

    fn whole(&self, content_type: &'static str) -> Allowed {
        let path = self.to_string();
        Allowed { method: "PUT", content_type: Some(content_type), path, of: String::new() }
    }

    fn part(&self, number: u32) -> Allowed {
        let path = format!("{self}/parts/{number}");
        Allowed { method: "PUT", content_type: None, path, of: String::new() }
    }
}

impl fmt::Display for UploadPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/v1/uploads/{}/{}", self.caller, self.upload)
    }
}

/// The one thing that a URL allows.
#[derive(Debug)]
struct Allowed {
    method: &'static str,
    content_type: Option<&'static str>,
    path: String,
    /// What the query begins with.
    of: String,
}

impl Allowed {
    /// `caller` as the URL has it.
    fn read(path: &impl fmt::Display, caller: Option<&str>) -> Allowed {
        let of = caller.map(|caller| format!("caller={caller}&")).unwrap_or_default();
        Allowed { method: "GET", content_type: None, path: path.to_string(), of }
    }

    /// To the second, as the URL has it.
    fn url(&self, secret: &Secret, base: &BaseUrl, expires: Timestamp) -> String {
        let expires_s = (expires.as_ms() / 1000).to_string();
        let signature = secret.sign_url(&self.text(&expires_s));
        format!("{}{}?{}expires={expires_s}&signature={signature}", base.0, self.path, self.of)
    }

    /// Checks what came back of a signed URL. Missing, edited and expired are one answer: it tells a forger nothing.
    fn verify(&self, secret: &Secret, query: &Params, now: Timestamp) -> Result<()> {
        let (Some(expires), Some(signature)) = (query.get("expires"), query.get("signature")) else {
            return Err(refuse());
        };
        // Over the text as it came, before it means anything: `+7` and `7` are one number but not one URL.
        secret.verify_url(&self.text(expires), signature).map_err(|_| refuse())?;
        let expires_s: i64 = expires.parse().map_err(|_| refuse())?;
        if now.as_ms() / 1000 < expires_s { Ok(()) } else { Err(refuse()) }
    }

    /// What is signed. None of the words before the path holds a space.
    fn text(&self, expires: &str) -> String {
        let Allowed { method, content_type, path, of } = self;
        format!("{method} {} {path}?{of}expires={expires}", content_type.unwrap_or("-"))
    }
}

fn refuse() -> ApiError {
    ApiError::new(Code::SignatureInvalid, "The URL was edited or has expired.")
}

/// What signed URLs start with.
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
        url.split_once("expires=").unwrap().1.split_once("&signature=").unwrap()
    }

    const CALLER: CallerId = CallerId::from_bytes([7; 16]);

    fn params(pairs: &[(&'static str, &str)]) -> Params {
        Params::of(pairs)
    }

    fn verifies(path: ContentPath, expires: &str, signature: &str, now_s: i64) -> bool {
        let secret = Secret::new([1; 32]);
        let caller = CALLER.to_string();
        let query = params(&[("caller", &caller), ("expires", expires), ("signature", signature)]);
        path.verify(&secret, &query, Timestamp(now_s * 1000)).is_ok_and(|caller| caller == Some(CALLER))
    }

    #[test]
    fn a_url_opens_one_body_until_it_expires() {
        let base = BaseUrl::of_host(Some("h:1"));
        let url = path().signed(CALLER, &Secret::new([1; 32]), &base, Timestamp(7_201_500));
        assert!(url.starts_with(&format!("http://h:1{}?caller={CALLER}&expires=7201&", path())));
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
    fn a_url_of_an_earlier_version_is_good_and_names_no_caller() {
        let secret = Secret::new([1; 32]);
        let signature = secret.sign_url(&format!("GET - {}?expires=9", path()));
        let query = |more: &[(&'static str, &str)]| {
            params(&[&[("expires", "9"), ("signature", signature.as_str())][..], more].concat())
        };
        assert_eq!(path().verify(&secret, &query(&[]), Timestamp(0)).unwrap(), None);
        let caller = CALLER.to_string();
        assert!(path().verify(&secret, &query(&[("caller", &caller)]), Timestamp(0)).is_err());
    }

    #[test]
    fn both_parts_are_needed() {
        let secret = Secret::new([1; 32]);
        let missing = |pairs| path().verify(&secret, &params(pairs), Timestamp(0)).is_err();
        assert!(missing(&[]) && missing(&[("expires", "9")]) && missing(&[("signature", "x")]));
    }

    #[test]
    fn an_upload_url_is_for_one_type_and_one_part() {
        let secret = Secret::new([1; 32]);
        let base = BaseUrl::of_host(None);
        let upload =
            |n| UploadPath { caller: CallerId::from_bytes([n; 16]), upload: UploadId::from_bytes([2; 16]) };
        let query = |url: &str| {
            let (expires, signature) = parts_of(url);
            params(&[("expires", expires), ("signature", signature)])
        };
        let whole = query(&upload(1).signed(&ListSpec::Jsonl, &secret, &base, Timestamp(9_000)));
        let now = Timestamp(8_999);
        assert_eq!(upload(1).verify(&secret, &whole, now).unwrap(), "application/x-ndjson");
        assert!(upload(2).verify(&secret, &whole, now).is_err(), "another caller's");
        assert!(upload(1).verify(&secret, &whole, Timestamp(9_000)).is_err(), "expired");
        assert!(upload(1).verify_part(1, &secret, &whole, now).is_err());
        let part = query(&upload(1).signed_part(7, &secret, &base, Timestamp(9_000)));
        assert!(upload(1).verify_part(7, &secret, &part, now).is_ok());
        assert!(upload(1).verify_part(8, &secret, &part, now).is_err());
        assert!(upload(1).verify(&secret, &part, now).is_err());
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
