//! How many requests who sends (SPEC 6.24): a bucket for each caller and each operator key, in this process alone. Whoever
//! knows the key counts the request; every answer says how the bucket stands.

use crate::problem::{ApiError, Code, Result};
use crate::state::ApiState;
use axum::extract::Request;
use axum::http::header::RETRY_AFTER;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use conveyor_domain::access::request_rate::{Bucket, Standing};
use conveyor_domain::{CallerId, KeyHash, RequestRate, Timestamp, limits};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// Who asks. Only those with a key have a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Who {
    Caller(CallerId),
    Operator(KeyHash),
    /// With a signed URL: for an upload of a caller, or to read a result or an export of it. Those of earlier versions, which
    /// name no caller, are one together.
    Upload(CallerId),
    Signed(Option<CallerId>),
}

#[derive(Debug)]
pub(crate) struct RequestRates {
    rate: Option<RequestRate>,
    buckets: Mutex<HashMap<Who, Bucket>>,
    max: usize,
}

impl RequestRates {
    pub fn new(rate: Option<RequestRate>) -> RequestRates {
        RequestRates { rate, buckets: Mutex::default(), max: limits::REQUEST_BUCKETS_MAX }
    }

    fn take(&self, who: Who, now: Timestamp) -> Option<Standing> {
        let rate = self.rate?;
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if !buckets.contains_key(&who) {
            make_room(&mut buckets, self.max, rate, now);
        }
        Some(buckets.entry(who).or_insert_with(|| Bucket::full(rate, now)).take(rate, now))
    }
}

/// Those that are full say nothing that a new one would not.
pub(crate) fn make_room<K: Copy + Eq + Hash>(
    buckets: &mut HashMap<K, Bucket>,
    max: usize,
    rate: RequestRate,
    now: Timestamp,
) {
    if buckets.len() < max {
        return;
    }
    buckets.retain(|_, bucket| !bucket.is_full(rate, now));
    while buckets.len() >= max {
        let Some(quiet) = buckets.iter().min_by_key(|(_, bucket)| bucket.last_used()).map(|(who, _)| *who)
        else {
            return;
        };
        buckets.remove(&quiet);
    }
}

/// How the bucket of a request stands, once somebody knows whose it is.
#[derive(Clone, Debug, Default)]
struct Counted(Arc<OnceLock<Standing>>);

/// Counts a request whose key is known, and refuses it if there were too many.
pub(crate) fn count(state: &ApiState, parts: &Parts, who: Who) -> Result<()> {
    let Some(standing) = state.rates.take(who, state.now()) else { return Ok(()) };
    if let Some(Counted(cell)) = parts.extensions.get() {
        // Set before only if one request was counted twice; then the first holds.
        let _ = cell.set(standing);
    }
    match standing.wait {
        None => Ok(()),
        Some(wait) => {
            let detail = format!("Too many requests; the next is taken in {} ms.", wait.as_millis());
            Err(ApiError::new(Code::RateLimited, detail))
        }
    }
}

/// Tells every answer to a request that was counted how its bucket stands.
pub(crate) async fn tell(mut request: Request, next: Next) -> Response {
    let counted = Counted::default();
    request.extensions_mut().insert(counted.clone());
    let mut response = next.run(request).await;
    if let Some(standing) = counted.0.get() {
        write(response.headers_mut(), standing);
    }
    response
}

fn write(headers: &mut HeaderMap, standing: &Standing) {
    headers.insert(LIMIT, HeaderValue::from(standing.limit));
    headers.insert(REMAINING, HeaderValue::from(standing.remaining));
    headers.insert(RESET, HeaderValue::from(whole_seconds(standing.full_in)));
    if let Some(wait) = standing.wait {
        headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(wait).max(1)));
    }
}

/// Never less than it is.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(n: u8) -> Who {
        Who::Caller(CallerId::from_bytes([n; 16]))
    }

    #[test]
    fn each_has_a_bucket_of_its_own() {
        let rates = RequestRates::new(RequestRate::new(1, 1));
        let refused = |who, now| rates.take(who, Timestamp(now)).unwrap().wait.is_some();
        assert!(!refused(caller(1), 0) && refused(caller(1), 0));
        assert!(!refused(caller(2), 0));
        assert!(!refused(Who::Operator(KeyHash([1; 32])), 0));
        assert_eq!(RequestRates::new(None).take(caller(1), Timestamp(0)), None);
    }

    #[test]
    fn no_more_than_so_many_are_remembered_and_idle_ones_go_first() {
        let rates = RequestRates { max: 3, ..RequestRates::new(RequestRate::new(1, 2)) };
        let take = |n, now| rates.take(caller(n), Timestamp(now)).unwrap();
        let known = || {
            let buckets = rates.buckets.lock().unwrap();
            (1..=9).filter(|n| buckets.contains_key(&caller(*n))).collect::<Vec<_>>()
        };
        for (n, now) in [(1, 0), (2, 900), (3, 900)] {
            take(n, now);
        }
        take(4, 1_000);
        assert_eq!(known(), [2, 3, 4], "1 was full again");
        take(2, 1_100);
        take(5, 1_200);
        assert_eq!(known(), [2, 4, 5], "3 was quiet for the longest");
    }

    #[test]
    fn whole_seconds_are_rounded_up() {
        let mut headers = HeaderMap::new();
        let (full_in, wait) = (Duration::from_millis(1_001), Some(Duration::from_millis(3)));
        write(&mut headers, &Standing { limit: 9, remaining: 0, full_in, wait });
        assert_eq!(
            (&headers["ratelimit-reset"], &headers["retry-after"]),
            (&"2".parse().unwrap(), &"1".parse().unwrap())
        );
    }
}
