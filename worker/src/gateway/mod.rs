//! The gateway: who fetches a task's URL, and what its answer means (SPEC 9).
//!
//! `http` asks a service, `direct` fetches by itself, `demo` and `null` make their answers up. None of them retries,
//! and none of them knows of jobs, runs or stores: one request in, one answer out, within the limits.

mod answer;
mod choice;
pub mod demo;
pub mod direct;
pub mod http;
mod no_answer;
mod outgoing;
mod problem;
mod secrets;

pub use choice::{GatewayChoice, ParseChoiceError};

use async_trait::async_trait;
use bytes::Bytes;
use conveyor_domain::{
    AccountFault, CallerId, Clock, FailureClass, Method, Params, Problem, Spend, TaskBody, limits,
};
use conveyor_outbound::address;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[async_trait]
pub trait Gateway: Send + Sync + fmt::Debug {
    /// Never fails and never takes much longer than the limits allow: what goes wrong is an answer too.
    async fn call(&self, request: GatewayRequest) -> GatewayAnswer;

    /// Whether all tasks go to one service, which can be too much for it. Otherwise every task has its own other side.
    fn is_shared(&self) -> bool {
        false
    }
}

/// The code of a problem that says that nobody was there.
pub const UNREACHABLE: &str = "gateway_unreachable";

/// What the gateway is asked for one task.
#[derive(Clone)]
pub struct GatewayRequest {
    /// Whose task it is.
    pub caller: CallerId,
    pub url: String,
    pub method: Method,
    pub body: Option<TaskBody>,
    /// The job's and the task's, merged: the task wins.
    pub params: Params,
    /// The key that is forwarded.
    pub credential: Option<Credential>,
}

/// URL, params and body may each hold a secret of the caller's, so none of them is printed.
impl fmt::Debug for GatewayRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayRequest").field("method", &self.method).finish_non_exhaustive()
    }
}

/// What came of it.
#[derive(Clone, PartialEq)]
pub enum GatewayAnswer {
    Success {
        http_status: u16,
        body: Bytes,
        /// What it cost, if the gateway says so.
        spend: Spend,
    },
    Failure {
        class: FailureClass,
        retry: bool,
        /// How long the other side wants us to wait, uncapped.
        retry_after: Option<Duration>,
        problem: Problem,
        spend: Spend,
    },
    /// The account is at fault, not the task: the run fails.
    Account { fault: AccountFault, detail: String },
}

impl GatewayAnswer {
    /// A page that costs nothing.
    pub fn page(http_status: u16, body: Bytes) -> GatewayAnswer {
        GatewayAnswer::Success { http_status, body, spend: Spend::default() }
    }
}

/// A body is a page of somebody's, up to megabytes of it: its length will do.
impl fmt::Debug for GatewayAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GatewayAnswer::Success { http_status, body, spend } => f
                .debug_struct("Success")
                .field("http_status", http_status)
                .field("body_bytes", &body.len())
                .field("spend", spend)
                .finish(),
            GatewayAnswer::Failure { class, retry, retry_after, problem, spend } => f
                .debug_struct("Failure")
                .field("class", class)
                .field("retry", retry)
                .field("retry_after", retry_after)
                .field("problem", problem)
                .field("spend", spend)
                .finish(),
            GatewayAnswer::Account { fault, detail } => {
                f.debug_struct("Account").field("fault", fault).field("detail", detail).finish()
            }
        }
    }
}

/// A key that is forwarded to the gateway. Prints nothing of itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential(String);

impl Credential {
    pub fn new(key: impl Into<String>) -> Credential {
        Credential(key.into())
    }

    fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayLimits {
    /// For name resolution, connection and TLS handshake together.
    pub connect_timeout: Duration,
    /// For everything, redirects and the body included.
    pub total_timeout: Duration,
    pub result_max_bytes: usize,
}

impl Default for GatewayLimits {
    fn default() -> Self {
        GatewayLimits {
            connect_timeout: limits::CONNECT_TIMEOUT,
            total_timeout: limits::GATEWAY_TIMEOUT,
            result_max_bytes: limits::RESULT_MAX_BYTES,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the HTTP client cannot be set up")]
    Client(#[source] reqwest::Error),
}

pub fn open(
    choice: &GatewayChoice,
    limits: GatewayLimits,
    now: Arc<dyn Clock>,
) -> Result<Arc<dyn Gateway>, OpenError> {
    Ok(match choice {
        GatewayChoice::Demo => Arc::new(demo::DemoGateway),
        GatewayChoice::Null => Arc::new(demo::NullGateway),
        GatewayChoice::Http(url) => Arc::new(http::HttpGateway::new(url.clone(), limits, now)?),
        GatewayChoice::Direct { allow_private_targets } => {
            let rule = if *allow_private_targets { address::any } else { address::is_public };
            Arc::new(direct::DirectGateway::new(limits, now, rule)?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_printed() {
        let gateway: GatewayChoice =
            "https://user:pass-word@gw.example/v1?token=query-secret".parse().unwrap();
        let request = GatewayRequest {
            caller: CallerId::from_bytes([1; 16]),
            url: "https://t.example/?sid=url-secret".to_owned(),
            method: Method::Post,
            body: Some(TaskBody::Form("body-secret".to_owned())),
            params: Params::from([("custom_headers".to_owned(), r#"{"Cookie":"header-secret"}"#.to_owned())]),
            credential: Some(Credential::new("key-secret")),
        };
        let answer = GatewayAnswer::page(200, Bytes::from_static(b"page-secret"));
        let opened =
            open(&gateway, GatewayLimits::default(), Arc::new(conveyor_testkit::ManualClock::new())).unwrap();
        let printed =
            format!("{gateway} {gateway:?} {request:?} {:?} {answer:?} {opened:?}", request.credential);
        assert!(!printed.contains("secret") && !printed.contains("pass-word"), "{printed}");
        assert!(printed.contains("https://gw.example/v1"), "{printed}");
    }
}
