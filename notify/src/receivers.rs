//! Receivers of webhooks: whether a URL may be one, and one POST to it.
//!
//! Callers choose the URLs, so every address is checked, at the time that it is connected to. A redirect is an answer like any
//! other: what is sent goes where its caller said, or nowhere.

use conveyor_domain::delivery::Answer;
use conveyor_domain::{CallerId, UrlFault, limits};
use conveyor_outbound::address::{Rule, is_public};
use conveyor_outbound::{CheckedResolver, ResolveError, check_host, check_literal, on_behalf_of};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, redirect};
use std::error::Error;
use std::net::IpAddr;
use std::time::Duration;
use url::Url;

/// A client cannot be made: the system's TLS is not usable.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client for notifications cannot be made")]
pub struct OpenError(#[source] reqwest::Error);

#[derive(Clone, Debug)]
pub struct Receivers {
    secure: Lane,
    /// Without TLS, on this machine alone, and only if an operator said so.
    plain: Option<Lane>,
    timeout: Duration,
}

/// A client, and the addresses that it may connect to.
#[derive(Clone, Debug)]
struct Lane {
    client: Client,
    resolver: CheckedResolver,
    rule: Rule,
}

fn is_loopback(address: IpAddr) -> bool {
    address.is_loopback()
}

fn is_public_or_loopback(address: IpAddr) -> bool {
    is_public(address) || is_loopback(address)
}

impl Receivers {
    /// `allow_http`: for development, receivers on loopback, with or without TLS.
    pub fn new(allow_http: bool) -> Result<Receivers, OpenError> {
        let (secure, plain) = match allow_http {
            true => (Lane::new(is_public_or_loopback)?, Some(Lane::new(is_loopback)?)),
            false => (Lane::new(is_public)?, None),
        };
        Ok(Receivers { secure, plain, timeout: limits::DELIVERY_TIMEOUT })
    }

    /// The same with less patience, for tests.
    #[must_use]
    pub fn within(self, timeout: Duration) -> Receivers {
        Receivers { timeout, ..self }
    }

    /// Whether notifications can be sent there, as of now.
    pub async fn check(&self, caller: CallerId, text: &str) -> Result<(), UrlFault> {
        let url = parse(text)?;
        let lane = self.lane(&url).ok_or(UrlFault::NotHttps)?;
        let checked = on_behalf_of(caller, check_host(&url, &lane.resolver));
        match tokio::time::timeout(limits::WEBHOOK_RESOLVED_WITHIN, checked).await {
            Ok(Ok(())) => Ok(()),
            // Only on this machine could it have been anything else.
            _ if url.scheme() == "http" => Err(UrlFault::NotHttps),
            Ok(Err(ResolveError::NotAllowed)) => Err(UrlFault::AddressNotAllowed),
            Ok(Err(ResolveError::NoAddress | ResolveError::Lookup(_))) | Err(_) => {
                Err(UrlFault::Unresolvable)
            }
        }
    }

    /// Sends once, within the time that a try may take. What goes wrong is an answer too.
    pub async fn post(
        &self,
        caller: CallerId,
        url: &str,
        headers: &[(&'static str, String)],
        body: &str,
    ) -> Answer {
        let exchange = on_behalf_of(caller, self.exchange(url, headers, body));
        match tokio::time::timeout(self.timeout, exchange).await {
            Ok(answer) => answer,
            Err(_) => Answer::Timeout,
        }
    }

    async fn exchange(&self, text: &str, headers: &[(&'static str, String)], body: &str) -> Answer {
        let refused = |why: &str| Answer::Transport(why.to_owned());
        let Ok(url) = parse(text) else { return refused("the URL cannot be used") };
        let Some(lane) = self.lane(&url) else { return refused("the URL is not https") };
        if !matches!(check_literal(&url, lane.rule), Some(Ok(()))) {
            return refused("address not allowed");
        }
        let request = lane.client.post(url).headers(header_map(headers)).body(body.to_owned());
        let mut response = match request.send().await {
            Ok(response) => response,
            Err(error) => return of_error(error),
        };
        // Once more, on what the socket says.
        if response.remote_addr().is_some_and(|peer| !(lane.rule)(peer.ip())) {
            return refused("address not allowed");
        }
        let status = response.status().as_u16();
        let mut left = limits::DELIVERY_ANSWER_MAX_BYTES;
        // The status is the answer; a little of the body is taken so that a receiver can finish its sentence.
        while let Ok(Some(chunk)) = response.chunk().await {
            left = left.saturating_sub(chunk.len());
            if left == 0 {
                break;
            }
        }
        Answer::Status(status)
    }

    fn lane(&self, url: &Url) -> Option<&Lane> {
        match url.scheme() {
            "https" => Some(&self.secure),
            "http" => self.plain.as_ref(),
            _ => None,
        }
    }
}

impl Lane {
    fn new(rule: Rule) -> Result<Lane, OpenError> {
        let resolver = CheckedResolver::new(rule);
        let client = conveyor_outbound::client_builder()
            .connect_timeout(limits::DELIVERY_TIMEOUT)
            .redirect(redirect::Policy::none())
            // A proxy would hide which address is connected to.
            .no_proxy()
            .referer(false)
            .http1_only()
            .dns_resolver(resolver.clone())
            .user_agent(concat!("conveyor/", env!("CARGO_PKG_VERSION")))
            // Every try has a connection of its own, whose address is checked.
            .pool_max_idle_per_host(0)
            .build()
            .map_err(|error| OpenError(error.without_url()))?;
        Ok(Lane { client, resolver, rule })
    }
}

fn parse(text: &str) -> Result<Url, UrlFault> {
    if text.len() > limits::URL_MAX_BYTES {
        return Err(UrlFault::Malformed);
    }
    let url = Url::parse(text).map_err(|_| UrlFault::Malformed)?;
    // A password in a URL is stored and shown with it.
    if url.host().is_none() || !url.username().is_empty() || url.password().is_some() {
        return Err(UrlFault::Malformed);
    }
    Ok(url)
}

fn header_map(headers: &[(&'static str, String)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    map.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            map.insert(HeaderName::from_static(name), value);
        }
    }
    map
}

/// In words that name neither the URL nor an address behind a name.
fn of_error(error: reqwest::Error) -> Answer {
    let error = error.without_url();
    if error.is_timeout() {
        return Answer::Timeout;
    }
    let mut innermost: &(dyn Error + 'static) = &error;
    loop {
        if let Some(ResolveError::NotAllowed) = innermost.downcast_ref::<ResolveError>() {
            return Answer::Transport("address not allowed".to_owned());
        }
        match innermost.source() {
            Some(source) => innermost = source,
            None => return Answer::Transport(innermost.to_string()),
        }
    }
}
