//! No gateway: Conveyor fetches the URL itself (SPEC 9).
//!
//! Callers choose the URLs, so every address is checked before anything is sent to it, on every hop. Names are
//! checked where they become addresses, in the resolver that the connection uses: a check in front of it could be
//! told one address and the connection another. The client does not resolve literal addresses, so those are checked
//! on the URL. Both checks are those of `conveyor-outbound`.

use super::answer::AnswerReader;
use super::no_answer::NoAnswer;
use super::outgoing::{self, Outgoing};
use super::secrets::Secrets;
use super::{Gateway, GatewayAnswer, GatewayLimits, GatewayRequest, OpenError};
use async_trait::async_trait;
use conveyor_domain::dispatch::gateway_answer::Source;
use conveyor_domain::{Clock, limits};
use conveyor_outbound::address::Rule;
use conveyor_outbound::{CheckedResolver, check_literal, on_behalf_of};
use reqwest::header::LOCATION;
use reqwest::{Client, Response};
use std::sync::Arc;
use std::time::Duration;
use url::Url;

#[derive(Debug)]
pub struct DirectGateway {
    client: Client,
    rule: Rule,
    reader: AnswerReader,
    total_timeout: Duration,
}

impl DirectGateway {
    pub fn new(limits: GatewayLimits, now: Arc<dyn Clock>, rule: Rule) -> Result<DirectGateway, OpenError> {
        DirectGateway::with_resolver(limits, now, rule, CheckedResolver::new(rule))
    }

    fn with_resolver(
        limits: GatewayLimits,
        now: Arc<dyn Clock>,
        rule: Rule,
        resolver: CheckedResolver,
    ) -> Result<DirectGateway, OpenError> {
        let client = outgoing::client(limits)
            .dns_resolver(resolver)
            .user_agent(concat!("conveyor/", env!("CARGO_PKG_VERSION")))
            // A list may name a million hosts. Without idle connections there are never more sockets than tasks in
            // flight.
            .pool_max_idle_per_host(0)
            .build()
            .map_err(|error| OpenError::Client(error.without_url()))?;
        let reader =
            AnswerReader { source: Source::Target, result_max_bytes: limits.result_max_bytes, clock: now };
        Ok(DirectGateway { client, rule, reader, total_timeout: limits.total_timeout })
    }

    async fn fetch(&self, request: &GatewayRequest) -> Result<GatewayAnswer, NoAnswer> {
        let mut url = Url::parse(&request.url).map_err(|error| NoAnswer::Unusable(error.to_string()))?;
        let mut outgoing = Outgoing::of(request);
        let mut redirects = 0;
        loop {
            self.check_literal(&url)?;
            let response = outgoing.send(&self.client, url.clone()).await?;
            self.check_peer(&response)?;
            let next = match next_hop(&response, &url) {
                Hop::Here => return self.reader.read(response, &Secrets::none(), Source::Target).await,
                Hop::Nowhere(why) => return Ok(self.reader.without_body(&response, why)),
                Hop::To(_) if redirects == limits::REDIRECTS_MAX => {
                    return Ok(self.reader.without_body(&response, "too many redirects"));
                }
                Hop::To(next) => next,
            };
            redirects += 1;
            if matches!(response.status().as_u16(), 301..=303) {
                outgoing.become_get();
            }
            if next.origin() != url.origin() {
                outgoing.leave_site();
            }
            url = next;
        }
    }

    fn check_literal(&self, url: &Url) -> Result<(), NoAnswer> {
        match check_literal(url, self.rule) {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) => Err(NoAnswer::AddressNotAllowed),
            None => Err(NoAnswer::Unusable("it has no host".to_owned())),
        }
    }

    /// Once more, on what the socket says: if a way around the checks is ever found, what it reached is not handed
    /// out.
    fn check_peer(&self, response: &Response) -> Result<(), NoAnswer> {
        match response.remote_addr() {
            Some(peer) if !(self.rule)(peer.ip()) => Err(NoAnswer::AddressNotAllowed),
            Some(_) | None => Ok(()),
        }
    }
}

#[async_trait]
impl Gateway for DirectGateway {
    async fn call(&self, request: GatewayRequest) -> GatewayAnswer {
        let fetch = on_behalf_of(request.caller, self.fetch(&request));
        let answer = match tokio::time::timeout(self.total_timeout, fetch).await {
            Ok(answer) => answer,
            Err(_) => Err(NoAnswer::TimedOut(Some(self.total_timeout))),
        };
        answer.unwrap_or_else(|none| none.into_answer(Source::Target))
    }
}

enum Hop {
    /// Not a redirect: this is the answer.
    Here,
    To(Url),
    Nowhere(&'static str),
}

fn next_hop(response: &Response, url: &Url) -> Hop {
    if !matches!(response.status().as_u16(), 301..=303 | 307 | 308) {
        return Hop::Here;
    }
    let Some(location) = response.headers().get(LOCATION) else {
        return Hop::Nowhere("a redirect without a Location");
    };
    let next = std::str::from_utf8(location.as_bytes()).ok().and_then(|location| url.join(location).ok());
    match next {
        Some(next) if matches!(next.scheme(), "http" | "https") => Hop::To(next),
        Some(_) => Hop::Nowhere("a redirect to a scheme that is not http or https"),
        None => Hop::Nowhere("a redirect to something that is not a URL"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::{CallerId, Method, Params};
    use conveyor_testkit::ManualClock;
    use futures::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// One answer to each connection, then its end.
    async fn serve(listener: TcpListener) {
        while let Ok((mut socket, _)) = listener.accept().await {
            let _request = socket.read(&mut [0; 4_096]).await.unwrap();
            socket.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").await.unwrap();
        }
    }

    #[tokio::test]
    async fn fetches_of_one_caller_leave_lookups_to_those_of_others() {
        let [one, other] = [1, 2].map(|n| CallerId::from_bytes([n; 16]));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://localhost:{}/", listener.local_addr().unwrap().port());
        let server = tokio::spawn(serve(listener));
        let resolver = CheckedResolver::new(|_| true);
        let fetch = async |caller, patience| {
            let limits = GatewayLimits { total_timeout: patience, ..GatewayLimits::default() };
            let clock = Arc::new(ManualClock::new());
            let gateway = DirectGateway::with_resolver(limits, clock, |_| true, resolver.clone()).unwrap();
            let (method, body, params, credential) = (Method::Get, None, Params::new(), None);
            let answer =
                gateway.call(GatewayRequest { caller, url: url.clone(), method, body, params, credential });
            matches!(answer.await, GatewayAnswer::Success { .. })
        };
        // As many lookups as a caller gets, none of which ends.
        let mut asked: Vec<_> = (0..limits::LOOKUPS_MAX).map(|_| Box::pin(resolver.turn(one))).collect();
        let hanging: Vec<_> = asked.iter_mut().filter_map(|turn| turn.as_mut().now_or_never()).collect();
        assert_eq!(hanging.len(), limits::LOOKUPS_MAX / 2);
        assert!(!fetch(one, Duration::from_millis(200)).await, "it waits for its caller's turn");
        assert!(fetch(other, limits::GATEWAY_TIMEOUT).await);
        drop((hanging, asked));
        assert!(fetch(one, limits::GATEWAY_TIMEOUT).await);
        server.abort();
    }
}
