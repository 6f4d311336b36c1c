//! The gateways against real servers on the loopback: what is sent, and what is made of each answer (SPEC 9).

mod direct;
mod http;
mod network;
mod server;

use conveyor_domain::{CallerId, FailureClass, Method, Params, Problem, Timestamp};
use conveyor_testkit::ManualClock;
use conveyor_worker::gateway::{GatewayAnswer, GatewayLimits, GatewayRequest};
use std::sync::Arc;
use std::time::Duration;

pub const RESULT_MAX_BYTES: usize = 1_000;

/// Sun, 06 Nov 1994 08:49:37 GMT, always.
pub fn stopped() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Timestamp(784_111_777_000)))
}

pub fn limits() -> GatewayLimits {
    GatewayLimits {
        connect_timeout: Duration::from_secs(5),
        total_timeout: Duration::from_secs(20),
        result_max_bytes: RESULT_MAX_BYTES,
    }
}

/// For servers that never answer.
pub fn impatient() -> GatewayLimits {
    GatewayLimits { total_timeout: Duration::from_millis(150), ..limits() }
}

pub fn get(url: impl Into<String>) -> GatewayRequest {
    GatewayRequest {
        caller: CallerId::from_bytes([1; 16]),
        url: url.into(),
        method: Method::Get,
        body: None,
        params: Params::new(),
        credential: None,
    }
}

pub fn with_params(mut request: GatewayRequest, params: &[(&str, &str)]) -> GatewayRequest {
    request.params = params.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    request
}

#[derive(Debug)]
pub struct Failed {
    pub class: FailureClass,
    pub retry: bool,
    pub retry_after: Option<Duration>,
    pub problem: Problem,
}

impl Failed {
    pub fn key(&self) -> (FailureClass, bool, u16, &str) {
        (self.class, self.retry, self.problem.status, &self.problem.code)
    }
}

pub fn failed(answer: GatewayAnswer) -> Failed {
    match answer {
        GatewayAnswer::Failure { class, retry, retry_after, problem, spend: _ } => {
            Failed { class, retry, retry_after, problem }
        }
        other @ (GatewayAnswer::Success { .. } | GatewayAnswer::Account { .. }) => {
            panic!("not a failure: {other:?}")
        }
    }
}

pub fn body_of(answer: GatewayAnswer) -> String {
    match answer {
        GatewayAnswer::Success { body, .. } => String::from_utf8(body.to_vec()).unwrap(),
        other @ (GatewayAnswer::Failure { .. } | GatewayAnswer::Account { .. }) => {
            panic!("not a success: {other:?}")
        }
    }
}
