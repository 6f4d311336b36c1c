//! Reads the `Date` header of every answer: what time it is at DynamoDB, which all processes agree on (SPEC 6.26).

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::Intercept;
use aws_smithy_runtime_api::client::interceptors::context::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::DateTime;
use aws_smithy_types::config_bag::{ConfigBag, Storable, StoreReplace};
use aws_smithy_types::date_time::Format;
use conveyor_domain::Timestamp;
use conveyor_store::server_time::ServerTime;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::time::Instant;

#[derive(Debug)]
pub struct DateReader {
    time: Arc<ServerTime>,
    told: AtomicBool,
}

/// When the try that is under way was sent.
#[derive(Debug)]
struct Sent(Instant);

impl Storable for Sent {
    type Storer = StoreReplace<Sent>;
}

impl DateReader {
    pub fn new(time: Arc<ServerTime>) -> DateReader {
        DateReader { time, told: AtomicBool::new(false) }
    }
}

#[aws_smithy_runtime_api::client::interceptors::dyn_dispatch_hint]
impl Intercept for DateReader {
    fn name(&self) -> &'static str {
        "DateReader"
    }

    fn read_before_transmit(
        &self,
        _context: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        cfg.interceptor_state().store_put(Sent(Instant::now()));
        Ok(())
    }

    fn read_after_transmit(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(Sent(sent)) = cfg.load::<Sent>() else { return Ok(()) };
        match context.response().headers().get("date").and_then(parse) {
            Some(date) => self.time.learn(*sent, Instant::now(), date),
            None if !self.told.swap(true, Ordering::Relaxed) => {
                tracing::warn!("DynamoDB answers without a date; this process goes by its own clock");
            }
            None => {}
        }
        Ok(())
    }
}

fn parse(date: &str) -> Option<Timestamp> {
    DateTime::from_str(date, Format::HttpDate).ok()?.to_millis().ok().map(Timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_read_as_it_is_in_headers() {
        assert_eq!(parse("Thu, 01 Jan 2026 00:00:00 GMT"), Some(Timestamp(1_767_225_600_000)));
        assert_eq!(parse("yesterday"), None);
    }
}
