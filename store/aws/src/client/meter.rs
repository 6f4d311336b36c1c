//! What every call costs: counted as it is sent, and in the units that the answer says it consumed (SPEC 15).

use aws_sdk_dynamodb::types::ConsumedCapacity;
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::Intercept;
use aws_smithy_runtime_api::client::interceptors::context::FinalizerInterceptorContextRef;
use aws_smithy_runtime_api::client::orchestrator::Metadata;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::ConfigBag;

/// Counts every try of every call: each of them is paid for.
#[derive(Debug)]
pub struct CallMeter;

#[aws_smithy_runtime_api::client::interceptors::dyn_dispatch_hint]
impl Intercept for CallMeter {
    fn name(&self) -> &'static str {
        "CallMeter"
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(call) = cfg.load::<Metadata>() else { return Ok(()) };
        let outcome = match context.response() {
            // Signed, for somebody else to send.
            None if context.output_or_error().is_none() => return Ok(()),
            None => "no_answer",
            Some(answer) if answer.status().is_success() => "ok",
            Some(answer) if answer.status().is_server_error() => "server_error",
            Some(_) => "refused",
        };
        metrics::counter!(
            "conveyor_aws_calls_total",
            "service" => call.service().to_owned(),
            "operation" => call.name().to_owned(),
            "outcome" => outcome,
        )
        .increment(1);
        Ok(())
    }
}

/// Adds up the capacity units that DynamoDB says a call consumed. `kind` is `read` or `write`.
pub fn count_capacity<'a>(
    operation: &'static str,
    kind: &'static str,
    consumed: impl IntoIterator<Item = &'a ConsumedCapacity>,
) {
    let units: f64 = consumed.into_iter().filter_map(ConsumedCapacity::capacity_units).sum();
    // Counters are whole numbers; units come in halves.
    let tenths = (units * 10.0).round() as u64;
    metrics::counter!("conveyor_aws_capacity_tenths_total", "operation" => operation, "kind" => kind)
        .increment(tenths);
}

/// Rows that queries looked at, and rows that they were wanted for.
pub fn count_read_rows(scanned: u64, returned: u64) {
    metrics::counter!("conveyor_aws_rows_read_total").increment(scanned);
    metrics::counter!("conveyor_aws_rows_returned_total").increment(returned);
}
