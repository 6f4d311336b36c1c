//! The SDK's clients, with every timeout, retry and backoff set here and nowhere else.

mod dates;
mod meter;

pub use meter::{count_capacity, count_read_rows};

use aws_config::{BehaviorVersion, ConfigLoader, SdkConfig};
use aws_sdk_dynamodb::config::retry::{RetryPartition, TokenBucket};
use aws_sdk_s3::config::{
    RequestChecksumCalculation, ResponseChecksumValidation, StalledStreamProtectionConfig,
};
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;
use conveyor_domain::limits;
use conveyor_store::server_time::ServerTime;
use dates::DateReader;
use meter::CallMeter;
use std::sync::Arc;
use std::time::Duration;

/// What the resources are called. Endpoints, region and credentials are the SDK's own business, and follow its variables.
#[derive(Clone, Debug)]
pub struct Settings {
    pub table: String,
    /// Queues are named `<prefix>-control`, `<prefix>-run-<run>`.
    pub queue_prefix: String,
    pub bucket: String,
    /// Partitions that the tasks of a job have at least, however few it has.
    pub task_shards_min: u32,
    /// How long a queue must have been seen empty to be called so: about what the counts of SQS take to agree.
    pub queue_empty_after: Duration,
    /// How long the refs of rows may take to be sent before the sweeper sends them.
    pub refs_sent_within: Duration,
    pub timeouts: Timeouts,
    /// Learns what time it is at DynamoDB.
    pub time: Arc<ServerTime>,
}

impl Settings {
    /// Table, queues and bucket of one name, and the defaults for everything else.
    pub fn named(name: &str) -> Settings {
        Settings {
            table: name.to_owned(),
            queue_prefix: name.to_owned(),
            bucket: name.to_owned(),
            task_shards_min: 1,
            queue_empty_after: limits::QUEUE_EMPTY_AFTER,
            refs_sent_within: limits::REFS_SENT_WITHIN,
            timeouts: Timeouts::default(),
            time: Arc::default(),
        }
    }
}

/// How long things may take, and how often they are tried.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    pub connect: Duration,
    /// One try, until its answer begins.
    pub attempt: Duration,
    /// All tries of one call, with the waits between them.
    pub operation: Duration,
    pub attempts_max: u32,
    pub backoff_base: Duration,
    pub backoff_max: Duration,
    /// One try of a call that moves an object.
    pub transfer_attempt: Duration,
    pub transfer_operation: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            connect: limits::AWS_CONNECT_TIMEOUT,
            attempt: limits::AWS_ATTEMPT_TIMEOUT,
            operation: limits::AWS_CALL_TIMEOUT,
            attempts_max: limits::AWS_ATTEMPTS_MAX,
            backoff_base: limits::AWS_BACKOFF_BASE,
            backoff_max: limits::AWS_BACKOFF_MAX,
            transfer_attempt: limits::AWS_TRANSFER_ATTEMPT_TIMEOUT,
            transfer_operation: limits::AWS_TRANSFER_TIMEOUT,
        }
    }
}

/// One client a service.
#[derive(Clone, Debug)]
pub struct Clients {
    pub dynamodb: aws_sdk_dynamodb::Client,
    pub sqs: aws_sdk_sqs::Client,
    pub s3: aws_sdk_s3::Client,
}

impl Clients {
    pub async fn connect(settings: &Settings) -> Clients {
        let Timeouts { connect, attempt, operation, .. } = settings.timeouts;
        let defaults = sdk_defaults(settings.timeouts).timeout_config(timeout(connect, attempt, operation));
        Clients::of(&defaults.load().await, settings)
    }

    fn of(shared: &SdkConfig, settings: &Settings) -> Clients {
        let Timeouts { connect, transfer_attempt, transfer_operation, .. } = settings.timeouts;
        let dynamodb = aws_sdk_dynamodb::config::Builder::from(shared)
            .interceptor(CallMeter)
            .interceptor(DateReader::new(settings.time.clone()))
            .retry_partition(retry_budget())
            .build();
        let sqs = aws_sdk_sqs::config::Builder::from(shared)
            .interceptor(CallMeter)
            .retry_partition(retry_budget())
            .build();
        let s3 = aws_sdk_s3::config::Builder::from(shared)
            .interceptor(CallMeter)
            .retry_partition(retry_budget())
            .timeout_config(timeout(connect, transfer_attempt, transfer_operation))
            .stalled_stream_protection(
                StalledStreamProtectionConfig::enabled().grace_period(transfer_attempt).build(),
            )
            // The objects' own digests pin them; a presigned URL must not carry the checksum of an empty body.
            .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
            .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
            .force_path_style(has_own_endpoint(shared))
            .build();
        Clients {
            dynamodb: aws_sdk_dynamodb::Client::from_conf(dynamodb),
            sqs: aws_sdk_sqs::Client::from_conf(sqs),
            s3: aws_sdk_s3::Client::from_conf(s3),
        }
    }
}

/// What the configuration of every service begins with.
pub(crate) fn sdk_defaults(timeouts: Timeouts) -> ConfigLoader {
    let https = aws_smithy_http_client::Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring));
    aws_config::defaults(BehaviorVersion::latest())
        .http_client(https.build_https())
        .retry_config(retry(timeouts))
}

/// Each call retries on its own: exponential backoff with full jitter, a bounded number of attempts. Not adaptive: that mode
/// has one rate limiter per client, so throttling of one partition would slow down every job (SPEC 5.4, Throttling).
fn retry(timeouts: Timeouts) -> RetryConfig {
    RetryConfig::standard()
        .with_max_attempts(timeouts.attempts_max)
        .with_initial_backoff(timeouts.backoff_base)
        .with_max_backoff(timeouts.backoff_max)
}

/// The retry budget of one client: a token bucket that retries of timeouts and server errors draw from, so that a service
/// that is down is not sent `attempts_max` times the calls. Retries of throttled calls are free: otherwise one throttled
/// partition would use up the retries of all others.
pub(crate) fn retry_budget() -> RetryPartition {
    let budget = TokenBucket::builder().throttling_retry_cost(0).build();
    RetryPartition::custom("conveyor").token_bucket(budget).build()
}

pub(crate) fn timeout(connect: Duration, attempt: Duration, operation: Duration) -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(connect)
        .operation_attempt_timeout(attempt)
        .operation_timeout(operation)
        .build()
}

/// A server that is not AWS is asked by path: `bucket.127.0.0.1` is not a name.
fn has_own_endpoint(shared: &SdkConfig) -> bool {
    shared.endpoint_url().is_some() || std::env::var_os("AWS_ENDPOINT_URL_S3").is_some()
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
