//! From an HTTP response to an answer: the body within its limit, or what the error means (SPEC 9).

use super::no_answer::{NoAnswer, name};
use super::secrets::Secrets;
use super::{GatewayAnswer, problem};
use bytes::{Bytes, BytesMut};
use conveyor_domain::dispatch::gateway_answer::{Source, Verdict, judge};
use conveyor_domain::{Clock, Problem, Spend, Timestamp, limits};
use reqwest::Response;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// What a gateway says that a call cost.
const COST_HEADER: &str = "x-request-cost";
const CREDITS_HEADER: &str = "x-request-credits";

#[derive(Clone, Debug)]
pub(super) struct AnswerReader {
    pub source: Source,
    pub result_max_bytes: usize,
    pub clock: Arc<dyn Clock>,
}

impl AnswerReader {
    /// `unsaid`: whose status it is when the body does not say.
    pub async fn read(
        &self,
        response: Response,
        secrets: &Secrets,
        unsaid: Source,
    ) -> Result<GatewayAnswer, NoAnswer> {
        let status = response.status().as_u16();
        let spend = self.spend(response.headers());
        if response.status().is_success() {
            let body = read_result(response, self.result_max_bytes).await?;
            return Ok(GatewayAnswer::Success { http_status: status, body, spend });
        }
        let retry_after = self.retry_after(status, response.headers());
        let said = match self.source {
            Source::Gateway => problem::parse(status, &read_error(response).await, secrets),
            // A page of somebody's; whatever it holds, it is not about us.
            Source::Target => None,
        };
        let speaker = if said.is_some() { self.source } else { unsaid };
        Ok(self.judge(speaker, status, said, retry_after, spend))
    }

    /// An error answer whose body was not read, with a reason of our own.
    pub fn without_body(&self, response: &Response, detail: &str) -> GatewayAnswer {
        let status = response.status().as_u16();
        let problem = self.plain_problem(status).with_detail(detail);
        self.judge(self.source, status, Some(problem), None, Spend::default())
    }

    fn judge(
        &self,
        speaker: Source,
        status: u16,
        said: Option<Problem>,
        retry_after: Option<Duration>,
        spend: Spend,
    ) -> GatewayAnswer {
        let verdict = judge(speaker, status, said.as_ref().map(|problem| problem.code.as_str()));
        let problem = said.unwrap_or_else(|| self.plain_problem(status));
        match verdict {
            // Only for a status that the caller took for an error and the table does not.
            Verdict::Success => GatewayAnswer::Success { http_status: status, body: Bytes::new(), spend },
            Verdict::Account(fault) => {
                GatewayAnswer::Account { fault, detail: problem.detail.unwrap_or(problem.title) }
            }
            Verdict::Failure { class, retry } => {
                GatewayAnswer::Failure { class, retry, retry_after, problem, spend }
            }
        }
    }

    /// A target that is fetched directly charges nobody, whatever its headers say.
    fn spend(&self, headers: &HeaderMap) -> Spend {
        let said = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        match self.source {
            Source::Gateway => Spend::of_headers(said(CREDITS_HEADER), said(COST_HEADER)),
            Source::Target => Spend::default(),
        }
    }

    fn plain_problem(&self, status: u16) -> Problem {
        Problem::new(status, format!("http_{status}"), format!("The {} answered {status}", name(self.source)))
    }

    fn retry_after(&self, status: u16, headers: &HeaderMap) -> Option<Duration> {
        if !matches!(status, 429 | 500..=599) {
            return None;
        }
        parse_retry_after(headers.get(RETRY_AFTER)?.to_str().ok()?, self.clock.now())
    }
}

/// A number of seconds or a date; a date that has passed means now.
fn parse_retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
        // More digits than a u64 holds still say "very long".
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    let since_1970 = date.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Some(now.until(Timestamp(0).after(since_1970)))
}

/// The whole body, or nothing: the length that a header claims is believed only when it is too long.
async fn read_result(mut response: Response, max_bytes: usize) -> Result<Bytes, NoAnswer> {
    let too_large = NoAnswer::TooLarge { max_bytes };
    if response.content_length().is_some_and(|length| length > max_bytes as u64) {
        return Err(too_large);
    }
    // A body that came in one piece, as most do, is not copied.
    let Some(first) = response.chunk().await? else { return Ok(Bytes::new()) };
    if first.len() > max_bytes {
        return Err(too_large);
    }
    let Some(second) = response.chunk().await? else { return Ok(first) };
    let mut body = BytesMut::from(first);
    let mut next = Some(second);
    while let Some(chunk) = next {
        if body.len() + chunk.len() > max_bytes {
            return Err(too_large);
        }
        body.extend_from_slice(&chunk);
        next = response.chunk().await?;
    }
    Ok(body.freeze())
}

/// As much of an error body as is kept. The status already says what matters, so a body that breaks off is just
/// shorter.
async fn read_error(mut response: Response) -> Bytes {
    let mut body = BytesMut::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        let room = limits::ERROR_BODY_MAX_BYTES - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() >= room {
            break;
        }
    }
    body.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(784_111_777_000); // Sun, 06 Nov 1994 08:49:37 GMT

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let after = |value| parse_retry_after(value, NOW);
        assert_eq!(after("0"), Some(Duration::ZERO));
        assert_eq!(after(" 120 "), Some(Duration::from_secs(120)));
        assert_eq!(after("Sun, 06 Nov 1994 08:50:07 GMT"), Some(Duration::from_secs(30)));
        assert_eq!(after("Sunday, 06-Nov-94 08:50:07 GMT"), Some(Duration::from_secs(30)));
        assert_eq!(after("Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO), "a date that has passed");
        assert_eq!(after("99999999999999999999999"), Some(Duration::from_secs(u64::MAX)));
        for nonsense in ["", "-1", "1.5", "soon", "12 seconds"] {
            assert_eq!(after(nonsense), None, "{nonsense}");
        }
    }
}
