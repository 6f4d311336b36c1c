//! The API over HTTP: one place for the key, for retries and for what an error answer means.

mod attempt;
mod transfer;

pub use attempt::{Attempt, Patience};
pub use transfer::Signed;

use super::args::Connection;
use super::failure::Failure;
use crate::server::random_32;
use conveyor_domain::job::failure::cut;
use conveyor_domain::{Problem, limits};
use reqwest::header::{HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, ClientBuilder, Method, RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::error::Error;
use std::net::IpAddr;
use std::time::Duration;
use url::{Host, Url};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// How long the server may be silent. Long enough for it to commit a full list on a slow disk.
pub const SILENCE_MAX: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub struct Api {
    http: Client,
    /// Without a limit to the silence before an answer: none comes until the last byte is sent.
    uploads: Client,
    server: Url,
    key: Option<HeaderValue>,
}

/// A JSON answer: as it was sent, for `--json`, and as it is read.
#[derive(Debug)]
pub struct Answer<T> {
    pub text: String,
    pub document: T,
}

impl Api {
    pub fn new(connection: Connection<'_>) -> Result<Api, Failure> {
        let key = match connection.key()? {
            None => None,
            Some(key) => {
                // The error would repeat the key.
                let value = HeaderValue::from_str(key.expose());
                let mut value =
                    value.map_err(|_| Failure::usage("the API key has characters that no key has"))?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let build = |builder: ClientBuilder| {
            builder.build().map_err(|e| Failure::usage(format!("no HTTP client: {}", reason(e))))
        };
        let http = build(builder(connection.server()).read_timeout(SILENCE_MAX))?;
        let uploads = build(builder(connection.server()))?;
        Ok(Api { http, uploads, server: connection.server().clone(), key })
    }

    /// The address of an API resource.
    pub fn url(&self, segments: &[&str]) -> Url {
        let mut url = self.server.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().push("v1").extend(segments);
        }
        url
    }

    pub async fn get<T: DeserializeOwned>(&self, url: Url) -> Result<Answer<T>, Failure> {
        let get = || async { self.read(self.send(self.with_key(self.http.get(url.clone()))).await?).await };
        Patience::SHORT.retry(get).await
    }

    /// Gets what may not be there.
    pub async fn find<T: DeserializeOwned>(&self, url: Url) -> Result<Option<Answer<T>>, Failure> {
        match self.get(url).await {
            Ok(answer) => Ok(Some(answer)),
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    pub async fn post<T: DeserializeOwned>(
        &self,
        url: Url,
        body: Option<&Value>,
    ) -> Result<Answer<T>, Failure> {
        // Sent once: an answer that got lost may have been a yes.
        self.try_post(url, body).await.map_err(Attempt::into_failure)
    }

    /// A POST that changes nothing, or nothing that matters, when it is sent twice.
    pub async fn post_again<T: DeserializeOwned>(
        &self,
        url: Url,
        body: Option<&Value>,
    ) -> Result<Answer<T>, Failure> {
        Patience::SHORT.retry(|| self.try_post(url.clone(), body)).await
    }

    /// A POST that makes something. It has a key of its own, by which the server carries it out once however often it is
    /// sent; so it is sent again if its answer got lost.
    pub async fn post_once<T: DeserializeOwned>(
        &self,
        url: Url,
        body: Option<&Value>,
    ) -> Result<Answer<T>, Failure> {
        let key = idempotency_key()?;
        let once = || async {
            let request = self.with_body(Method::POST, url.clone(), body).header(IDEMPOTENCY_KEY, &key);
            self.read(self.send(request).await?).await
        };
        Patience::SHORT.retry(once).await
    }

    pub async fn try_post<T: DeserializeOwned>(
        &self,
        url: Url,
        body: Option<&Value>,
    ) -> Result<Answer<T>, Attempt> {
        let request = self.with_body(Method::POST, url, body);
        self.read(self.send(request).await?).await
    }

    /// Sends new values. They are what shall be, not a difference, so it does not matter how often they arrive.
    pub async fn patch<T: DeserializeOwned>(&self, url: Url, body: &Value) -> Result<Answer<T>, Failure> {
        let patch = || async {
            let request = self.with_body(Method::PATCH, url.clone(), Some(body));
            self.read(self.send(request).await?).await
        };
        Patience::SHORT.retry(patch).await
    }

    /// Deletes, and gives what was answered, which may be nothing.
    pub async fn delete(&self, url: Url) -> Result<String, Failure> {
        let once = async {
            let response = self.send(self.with_key(self.http.delete(url))).await?;
            response.text().await.map_err(|e| self.broken(e))
        };
        once.await.map_err(Attempt::into_failure)
    }

    fn with_key(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.key {
            Some(key) => request.header(API_KEY, key.clone()),
            None => request,
        }
    }

    /// What this client sends is what its user meant, or a mistake: nothing of it is to be ignored.
    fn with_body(&self, method: Method, mut url: Url, body: Option<&Value>) -> RequestBuilder {
        if body.is_some() {
            url.query_pairs_mut().append_pair("strict", "true");
        }
        let request = self.with_key(self.http.request(method, url));
        match body {
            Some(body) => request.json(body),
            None => request,
        }
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Attempt> {
        self.send_while(request, is_transient).await
    }

    /// Sends a request that can be sent again as long as it is answered with such a status.
    async fn send_while(
        &self,
        request: RequestBuilder,
        passes: impl Fn(StatusCode) -> bool,
    ) -> Result<Response, Attempt> {
        let response = request.send().await.map_err(|e| self.broken(e))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse().ok());
        let body = response.bytes().await.map_err(|e| self.broken(e))?;
        let problem = problem_of(status, &body);
        // Refused before anything was done; a quota is another matter: waiting does not help. And nobody else has a key of
        // ours: the request that was sent before is still being carried out.
        let too_early = matches!(
            problem.code.as_str(),
            "rate_limited"
                | "idempotency_key_conflict"
                | "too_many_in_flight"
                | "too_many_uploads"
                | "too_many_streams"
        );
        let failure = Failure::refused(problem);
        Err(match too_early || passes(status) {
            true => Attempt::Retry(failure, retry_after.map(Duration::from_secs)),
            false => Attempt::GiveUp(failure),
        })
    }

    async fn read<T: DeserializeOwned>(&self, response: Response) -> Result<Answer<T>, Attempt> {
        let text = response.text().await.map_err(|e| self.broken(e))?;
        match serde_json::from_str(&text) {
            Ok(document) => Ok(Answer { text, document }),
            Err(e) => Err(Attempt::GiveUp(Failure::not_understood(e.to_string()))),
        }
    }

    fn broken(&self, error: reqwest::Error) -> Attempt {
        // Waiting again for a server that was silent for so long would not help anybody.
        let retry = !error.is_timeout() || error.is_connect();
        // A signed URL may lead elsewhere.
        let place = error.url().map(transfer::place_of);
        let failure = Failure::unreachable(&self.shown(place), &reason(error));
        if retry { Attempt::Retry(failure, None) } else { Attempt::GiveUp(failure) }
    }

    /// An upload that stands still.
    pub fn takes_nothing(&self, to: &Signed) -> Failure {
        let reason = format!("it took nothing for {} s", SILENCE_MAX.as_secs());
        Failure::unreachable(&self.shown(to.place(&self.server)), &reason)
    }

    /// A place without a password that its URL may hold; the server as the user named it, if that is where it is.
    fn shown(&self, place: Option<Url>) -> String {
        let mut url = self.server.clone();
        // It only fails for URLs without a host, which are not accepted as servers.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        let url = place.filter(|place| place.origin() != url.origin()).unwrap_or(url);
        url.as_str().trim_end_matches('/').to_owned()
    }
}

/// Random: no two requests ever have the same.
fn idempotency_key() -> Result<String, Failure> {
    let bytes = random_32().map_err(|e| Failure::usage(format!("no random numbers: {e}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// An answer that another one may follow.
fn is_transient(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::REQUEST_TIMEOUT
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

fn builder(server: &Url) -> ClientBuilder {
    let builder = conveyor_outbound::client_builder()
        .user_agent(concat!("conveyor/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(limits::CONNECT_TIMEOUT)
        // A key must not follow a redirect to a host that nobody named.
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
    let mut cause: &dyn Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
