//! Why there is no answer to judge: the network, the limits, or an address that may not be reached.

use super::{GatewayAnswer, UNREACHABLE};
use conveyor_domain::dispatch::gateway_answer::Source;
use conveyor_domain::job::failure::cut;
use conveyor_domain::{FailureClass, Problem, Spend, limits};
use conveyor_outbound::ResolveError;
use std::error::Error;
use std::time::Duration;

#[derive(Debug)]
pub(super) enum NoAnswer {
    /// Not connected, or cut off before the end; the reason in words.
    Unreachable(String),
    TimedOut(Option<Duration>),
    TooLarge {
        max_bytes: usize,
    },
    AddressNotAllowed,
    Unresolvable(String),
    /// The URL parses, but nothing can be asked of it. No attempt will ever get anywhere with it.
    Unusable(String),
}

impl From<reqwest::Error> for NoAnswer {
    fn from(error: reqwest::Error) -> NoAnswer {
        // The URL holds the key and whatever the caller put there. Only the message of the innermost cause is used,
        // and the URL is part of the outermost; it is taken out all the same.
        let error = error.without_url();
        let mut innermost: &(dyn Error + 'static) = &error;
        loop {
            match innermost.downcast_ref::<ResolveError>() {
                Some(ResolveError::NotAllowed) => return NoAnswer::AddressNotAllowed,
                Some(unresolved @ (ResolveError::NoAddress | ResolveError::Lookup(_))) => {
                    return NoAnswer::Unresolvable(unresolved.to_string());
                }
                None => {}
            }
            match innermost.source() {
                Some(source) => innermost = source,
                None => break,
            }
        }
        if error.is_timeout() {
            return NoAnswer::TimedOut(None);
        }
        let why = cut(&innermost.to_string(), limits::FAILURE_DETAIL_MAX_CHARS).to_owned();
        if error.is_builder() { NoAnswer::Unusable(why) } else { NoAnswer::Unreachable(why) }
    }
}

impl NoAnswer {
    pub(super) fn into_answer(self, source: Source) -> GatewayAnswer {
        use FailureClass::{BadTarget, GatewayError, Timeout};
        let who = name(source);
        let (class, retry, problem) = match self {
            NoAnswer::Unreachable(why) => {
                let title = format!("The {who} could not be reached or broke off");
                (GatewayError, true, Problem::new(502, UNREACHABLE, title).with_detail(why))
            }
            NoAnswer::TimedOut(limit) => {
                let detail = match limit {
                    Some(limit) => format!("no complete answer within {limit:?}"),
                    None => "no connection in time".to_owned(),
                };
                let title = format!("The {who} took too long");
                (Timeout, true, Problem::new(504, "gateway_timeout", title).with_detail(detail))
            }
            NoAnswer::TooLarge { max_bytes } => {
                let detail = format!("more than {max_bytes} bytes");
                (
                    BadTarget,
                    false,
                    Problem::new(413, "result_too_large", "The result is too large").with_detail(detail),
                )
            }
            // Which address it was stays unsaid: a caller must not learn what a name means inside our network.
            NoAnswer::AddressNotAllowed => {
                let title = "The URL leads to an address that may not be fetched";
                (BadTarget, false, Problem::new(403, "address_not_allowed", title))
            }
            NoAnswer::Unresolvable(why) => {
                let title = "The host of the URL cannot be found";
                (BadTarget, true, Problem::new(502, "target_unresolvable", title).with_detail(why))
            }
            NoAnswer::Unusable(why) => {
                let title = "The URL cannot be fetched";
                (BadTarget, false, Problem::new(400, "target_unresolvable", title).with_detail(why))
            }
        };
        GatewayAnswer::Failure { class, retry, retry_after: None, problem, spend: Spend::default() }
    }
}

pub(super) fn name(source: Source) -> &'static str {
    match source {
        Source::Gateway => "gateway",
        Source::Target => "target",
    }
}
