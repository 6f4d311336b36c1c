//! A gateway behind HTTP: `GET|POST {gateway}?apikey=…&url=…&<params>` (SPEC 9).

use super::answer::AnswerReader;
use super::no_answer::NoAnswer;
use super::outgoing::{self, Outgoing};
use super::secrets::Secrets;
use super::{Gateway, GatewayAnswer, GatewayLimits, GatewayRequest, OpenError, choice};
use async_trait::async_trait;
use conveyor_domain::dispatch::gateway_answer::Source;
use conveyor_domain::job::params::{custom_headers_of, is_on};
use conveyor_domain::{Clock, limits};
use reqwest::Client;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// Shorter than the idle timeout of common load balancers, so that it is we who close, and not they under a request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// What Conveyor itself fills in. A parameter of that name would be a second opinion about whose money is spent on
/// which URL.
const RESERVED_PARAMS: [&str; 2] = ["apikey", "url"];

pub struct HttpGateway {
    endpoint: Url,
    client: Client,
    reader: AnswerReader,
    total_timeout: Duration,
}

impl HttpGateway {
    pub fn new(
        mut endpoint: Url,
        limits: GatewayLimits,
        now: Arc<dyn Clock>,
    ) -> Result<HttpGateway, OpenError> {
        endpoint.set_fragment(None);
        let client = outgoing::client(limits)
            .pool_max_idle_per_host(limits::SLOTS as usize)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .build()
            .map_err(|error| OpenError::Client(error.without_url()))?;
        let reader =
            AnswerReader { source: Source::Gateway, result_max_bytes: limits.result_max_bytes, clock: now };
        Ok(HttpGateway { endpoint, client, reader, total_timeout: limits.total_timeout })
    }

    async fn ask(&self, request: &GatewayRequest) -> Result<GatewayAnswer, NoAnswer> {
        let url = url_for(&self.endpoint, request);
        let response = Outgoing::of(request).send(&self.client, url).await?;
        // With `original_status` the status is the target's, unless the gateway says in a problem of its own that it is not.
        let unsaid = if is_on(&request.params, "original_status") { Source::Target } else { Source::Gateway };
        self.reader.read(response, &Secrets::of(request), unsaid).await
    }
}

#[async_trait]
impl Gateway for HttpGateway {
    async fn call(&self, request: GatewayRequest) -> GatewayAnswer {
        let answer = match tokio::time::timeout(self.total_timeout, self.ask(&request)).await {
            Ok(answer) => answer,
            Err(_) => Err(NoAnswer::TimedOut(Some(self.total_timeout))),
        };
        answer.unwrap_or_else(|none| none.into_answer(Source::Gateway))
    }

    fn is_shared(&self) -> bool {
        true
    }
}

impl fmt::Debug for HttpGateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpGateway(")?;
        choice::write_without_secrets(&self.endpoint, f)?;
        f.write_str(")")
    }
}

fn url_for(endpoint: &Url, request: &GatewayRequest) -> Url {
    let mut url = endpoint.clone();
    // A serializer appends to the query that the operator's URL already has.
    let mut query = url.query_pairs_mut();
    if let Some(credential) = &request.credential {
        query.append_pair("apikey", credential.expose());
    }
    query.append_pair("url", &request.url);
    for (name, value) in &request.params {
        match name.as_str() {
            // The headers themselves travel as headers. With none to send, the gateway would pass on our own.
            "custom_headers" => {
                if custom_headers_of(value).is_some_and(|headers| !headers.is_empty()) {
                    query.append_pair("custom_headers", "true");
                }
            }
            reserved if RESERVED_PARAMS.contains(&reserved) => {}
            name => {
                query.append_pair(name, value);
            }
        }
    }
    drop(query);
    url
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::Credential;
    use conveyor_domain::{Method, Params};

    fn asked(endpoint: &str, params: &[(&str, &str)], key: Option<&str>) -> String {
        let request = GatewayRequest {
            caller: conveyor_domain::CallerId::from_bytes([1; 16]),
            url: "https://t.example/a b?x=1&y=ü#f".to_owned(),
            method: Method::Get,
            body: None,
            params: params.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<Params>(),
            credential: key.map(Credential::new),
        };
        url_for(&Url::parse(endpoint).unwrap(), &request).into()
    }

    #[test]
    fn the_query_is_the_contract() {
        let url = asked("https://gw.example/v1/", &[("js_render", "true"), ("wait", "500")], Some("k&y"));
        let target = "https%3A%2F%2Ft.example%2Fa+b%3Fx%3D1%26y%3D%C3%BC%23f";
        assert_eq!(url, format!("https://gw.example/v1/?apikey=k%26y&url={target}&js_render=true&wait=500"));
    }

    #[test]
    fn the_operators_own_query_stays() {
        let url = asked("https://gw.example/v1?pool=eu", &[], None);
        assert!(url.starts_with("https://gw.example/v1?pool=eu&url="), "{url}");
        assert!(!url.contains("apikey"));
    }

    #[test]
    fn params_cannot_replace_key_or_url() {
        let url = asked(
            "https://gw.example/",
            &[("apikey", "mine"), ("url", "http://other/"), ("wait", "1")],
            Some("k"),
        );
        assert_eq!((url.matches("apikey=").count(), url.matches("url=").count()), (1, 1), "{url}");
        assert!(!url.contains("mine") && !url.contains("other"));
    }

    #[test]
    fn custom_headers_are_announced_not_sent_in_the_query() {
        let url = asked("https://gw.example/", &[("custom_headers", r#"{"Cookie":"c=1"}"#)], None);
        assert!(url.ends_with("&custom_headers=true"), "{url}");
        assert!(!asked("https://gw.example/", &[("custom_headers", "{}")], None).contains("custom_headers"));
    }
}
