//! The connection to a server: the key, what is sent, and what an error answer means.

use crate::{Call, Error, Retries};
use conveyor_domain::job::failure::cut;
use conveyor_domain::{Entropy, Problem, limits};
use rand::TryRng;
use rand::rngs::SysRng;
use reqwest::header::{HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{ClientBuilder, Method, RequestBuilder, Response, StatusCode};
use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use url::{Host, Url};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// How long the server may be silent. Long enough for it to commit a full list on a slow disk.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(120);

/// A Conveyor server, and the key that opens it. Clones share connections.
#[derive(Clone, Debug)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    http: reqwest::Client,
    /// Without a limit to the silence before an answer: none comes until the last byte is sent.
    uploads: reqwest::Client,
    server: Url,
    key: Option<HeaderValue>,
    entropy: Entropy,
    requests: Retries,
    transfers: Retries,
}

#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    server: String,
    key: Option<HeaderValue>,
    bad_key: bool,
    user_agent: String,
    retries: Option<Retries>,
}

impl Builder {
    /// The API key, of a caller or of an operator.
    pub fn key(mut self, key: &str) -> Builder {
        match HeaderValue::from_str(key) {
            Ok(mut key) => {
                key.set_sensitive(true);
                self.key = Some(key);
            }
            // The error would repeat the key.
            Err(_) => self.bad_key = true,
        }
        self
    }

    pub fn user_agent(self, user_agent: impl Into<String>) -> Builder {
        Builder { user_agent: user_agent.into(), ..self }
    }

    /// Instead of [`Retries::SHORT`] for requests and [`Retries::LONG`] for uploads and streams.
    pub fn retries(self, retries: Retries) -> Builder {
        Builder { retries: Some(retries), ..self }
    }

    pub fn build(self) -> Result<Client, Error> {
        if self.bad_key {
            return Err(Error::Usage("the API key has characters that no key has".to_owned()));
        }
        let server = server_url(&self.server).map_err(Error::Usage)?;
        let client = |builder: ClientBuilder| {
            builder.build().map_err(|e| Error::Usage(format!("no HTTP client: {}", reason(e))))
        };
        let mut seed = [0; 32];
        let seeded = SysRng.try_fill_bytes(&mut seed);
        seeded.map_err(|e| Error::Usage(format!("no random numbers: {e}")))?;
        Ok(Client(Arc::new(Inner {
            http: client(http(&server, &self.user_agent).read_timeout(SILENCE_MAX))?,
            uploads: client(http(&server, &self.user_agent))?,
            server,
            key: self.key,
            entropy: Entropy::from_seed(seed),
            requests: self.retries.unwrap_or(Retries::SHORT),
            transfers: self.retries.unwrap_or(Retries::LONG),
        })))
    }
}

/// Reads the address of a server. It may end in `/v1`, as the base URL of other clients does.
pub fn server_url(text: &str) -> Result<Url, String> {
    let mut url = Url::parse(text).map_err(|e| e.to_string())?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err("not an http:// or https:// URL".to_owned());
    }
    url.set_query(None);
    url.set_fragment(None);
    let path = url.path().trim_end_matches('/');
    let path = path.strip_suffix("/v1").unwrap_or(path).to_owned();
    url.set_path(&path);
    Ok(url)
}

impl Client {
    pub fn builder(server: impl Into<String>) -> Builder {
        let user_agent = concat!("conveyor-client/", env!("CARGO_PKG_VERSION")).to_owned();
        Builder { server: server.into(), key: None, bad_key: false, user_agent, retries: None }
    }

    pub fn server(&self) -> &Url {
        &self.0.server
    }

    pub(crate) fn get<T>(&self, segments: &[&dyn Display]) -> Call<T> {
        Call::new(self, Method::GET, segments)
    }

    pub(crate) fn post<T>(&self, segments: &[&dyn Display]) -> Call<T> {
        Call::new(self, Method::POST, segments)
    }

    pub(crate) fn patch<T>(&self, segments: &[&dyn Display]) -> Call<T> {
        Call::new(self, Method::PATCH, segments)
    }

    pub(crate) fn put<T>(&self, segments: &[&dyn Display]) -> Call<T> {
        Call::new(self, Method::PUT, segments)
    }

    pub(crate) fn delete<T>(&self, segments: &[&dyn Display]) -> Call<T> {
        Call::new(self, Method::DELETE, segments)
    }

    pub(crate) fn entropy(&self) -> &Entropy {
        &self.0.entropy
    }

    pub(crate) fn requests(&self) -> Retries {
        self.0.requests
    }

    pub(crate) fn transfers(&self) -> Retries {
        self.0.transfers
    }

    /// Random: no two requests ever have the same.
    pub(crate) fn random_key(&self) -> String {
        std::iter::repeat_with(|| format!("{:016x}", self.0.entropy.next_u64())).take(4).collect()
    }

    /// The address of an API resource.
    pub(crate) fn url(&self, segments: &[&dyn Display]) -> Url {
        let mut url = self.0.server.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().push("v1").extend(segments.iter().map(|segment| segment.to_string()));
        }
        url
    }

    pub(crate) fn with_key(&self, method: Method, url: Url) -> RequestBuilder {
        let request = self.0.http.request(method, url);
        match &self.0.key {
            Some(key) => request.header(API_KEY, key.clone()),
            None => request,
        }
    }

    /// For a URL that carries its own signature and may lead elsewhere: the key stays here.
    pub(crate) fn without_key(&self, url: Url) -> RequestBuilder {
        self.0.http.get(url)
    }

    pub(crate) fn uploading(&self, method: Method, url: Url) -> RequestBuilder {
        self.0.uploads.request(method, url)
    }

    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, Error> {
        self.send_while(request, is_transient).await
    }

    /// Sends a request that can be sent again as long as it is answered with such a status.
    pub(crate) async fn send_while(
        &self,
        request: RequestBuilder,
        passes: impl Fn(StatusCode) -> bool,
    ) -> Result<Response, Error> {
        let response = request.send().await.map_err(|e| self.broken(e))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let asked = response.headers().get(RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse().ok());
        let body = response.bytes().await.map_err(|e| self.broken(e))?;
        let problem = problem_of(status, &body);
        // Refused before anything was done; a quota is another matter: waiting does not help. And no other client has this
        // Idempotency-Key: the request that was sent before is still being carried out.
        let too_early = matches!(
            problem.code.as_str(),
            "rate_limited"
                | "idempotency_key_conflict"
                | "too_many_in_flight"
                | "too_many_uploads"
                | "too_many_streams"
        );
        let retry = (too_early || passes(status)).then(|| Duration::from_secs(asked.unwrap_or_default()));
        Err(Error::Refused { problem: Box::new(problem), retry_after: retry })
    }

    pub(crate) fn broken(&self, error: reqwest::Error) -> Error {
        // Waiting again for a server that was silent for so long would not help.
        let can_retry = !error.is_timeout() || error.is_connect();
        // A signed URL may lead elsewhere.
        let server = self.shown(error.url());
        Error::Unreachable { server, reason: reason(error), can_retry }
    }

    /// Where a URL leads, without what may be secret in it; the server as the user named it, if that is where it is.
    pub(crate) fn shown(&self, url: Option<&Url>) -> String {
        let elsewhere = url.filter(|url| url.origin() != self.0.server.origin());
        let mut place = elsewhere.unwrap_or(&self.0.server).clone();
        // It only fails for URLs without a host, which lead nowhere.
        let _ = place.set_username("");
        let _ = place.set_password(None);
        if elsewhere.is_some() {
            place.set_path("");
            place.set_query(None);
            place.set_fragment(None);
        }
        place.as_str().trim_end_matches('/').to_owned()
    }
}

/// An answer that another one may follow.
pub(crate) fn is_transient(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::REQUEST_TIMEOUT
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

fn http(server: &Url, user_agent: &str) -> ClientBuilder {
    let builder = conveyor_outbound::client_builder()
        .user_agent(user_agent)
        .connect_timeout(limits::CONNECT_TIMEOUT)
        // A key must not follow a redirect to a host that the user did not name.
        .redirect(reqwest::redirect::Policy::none());
    // No proxy can reach a server on this machine.
    if is_loopback(server) { builder.no_proxy() } else { builder }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(ip)) => IpAddr::V4(ip).is_loopback(),
        Some(Host::Ipv6(ip)) => IpAddr::V6(ip).is_loopback(),
        None => false,
    }
}

/// The problem in an error answer; one made from the status if a proxy or something else answered.
fn problem_of(status: StatusCode, body: &[u8]) -> Problem {
    serde_json::from_slice(body).unwrap_or_else(|_| {
        let title = status.canonical_reason().unwrap_or("Error");
        let problem = Problem::new(status.as_u16(), format!("http_{}", status.as_u16()), title);
        let body = String::from_utf8_lossy(body);
        let said = message_in_xml(&body).unwrap_or_else(|| body.trim());
        match cut(said, limits::ECHO_MAX_CHARS) {
            "" => problem,
            text => problem.with_detail(text),
        }
    })
}

/// What S3 says is wrong.
fn message_in_xml(body: &str) -> Option<&str> {
    let (_, rest) = body.trim_start().strip_prefix('<')?.split_once("<Message>")?;
    Some(rest.split_once("</Message>")?.0)
}

/// The innermost cause, which is the one that says something. The URL is left out: it may be signed.
fn reason(error: reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_and_prefixes_make_the_address() {
        let at = |server: &str| {
            Client::builder(server).build().unwrap().url(&[&"jobs", &"a/b?c"]).as_str().to_owned()
        };
        assert_eq!(at("http://h:1"), "http://h:1/v1/jobs/a%2Fb%3Fc");
        assert_eq!(at("http://h:1/v1/"), "http://h:1/v1/jobs/a%2Fb%3Fc");
        assert_eq!(at("https://h/conveyor"), "https://h/conveyor/v1/jobs/a%2Fb%3Fc");
        assert!(Client::builder("ftp://h").build().is_err());
    }
}
