//! Flags of the AWS backend. Endpoints, region and credentials are the SDK's own: `AWS_REGION`, `AWS_ENDPOINT_URL`,
//! `AWS_ENDPOINT_URL_DYNAMODB` and so on.

use crate::server::args::ms;
use anyhow::{Context, ensure};
use clap::Args;
use conveyor_aws::{Settings, Timeouts};
use conveyor_domain::limits;
use conveyor_store::server_time::ServerTime;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug, Args)]
pub struct AwsArgs {
    /// The DynamoDB table
    #[arg(
        long,
        env = "CONVEYOR_AWS_TABLE",
        value_name = "NAME",
        default_value = "conveyor",
        help_heading = "AWS"
    )]
    pub aws_table: String,

    /// What the names of SQS queues begin with
    #[arg(
        long,
        env = "CONVEYOR_AWS_QUEUE_PREFIX",
        value_name = "NAME",
        default_value = "conveyor",
        help_heading = "AWS"
    )]
    pub aws_queue_prefix: String,

    /// The S3 bucket; names are unique in all of AWS, so there is no default
    #[arg(long, env = "CONVEYOR_AWS_BUCKET", value_name = "NAME", help_heading = "AWS")]
    pub aws_bucket: Option<String>,

    /// Fewest partitions that the rows of a job's tasks are spread over: more for throughput, 1 for the cheapest pages of
    /// small jobs
    #[arg(long, env = "CONVEYOR_AWS_TASK_SHARDS_MIN", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::SHARDS_MAX)), help_heading = "AWS")]
    pub aws_task_shards_min: u32,

    /// How long a queue must have been seen empty before lost messages are sent again; the counts of SQS take a minute to
    /// agree [ms]
    #[arg(long, env = "CONVEYOR_AWS_QUEUE_EMPTY_AFTER_MS", value_name = "MS", default_value_t = ms(limits::QUEUE_EMPTY_AFTER), help_heading = "AWS")]
    pub aws_queue_empty_after_ms: u64,

    /// How long the messages of new tasks may take to be sent before the sweeper sends them [ms]
    #[arg(long, env = "CONVEYOR_AWS_REFS_SENT_WITHIN_MS", value_name = "MS", default_value_t = ms(limits::REFS_SENT_WITHIN), value_parser = clap::value_parser!(u64).range(1..), help_heading = "AWS")]
    pub aws_refs_sent_within_ms: u64,

    /// Limit of one try of a call [ms]
    #[arg(long, env = "CONVEYOR_AWS_ATTEMPT_TIMEOUT_MS", value_name = "MS", default_value_t = ms(limits::AWS_ATTEMPT_TIMEOUT), value_parser = clap::value_parser!(u64).range(1..), help_heading = "AWS")]
    pub aws_attempt_timeout_ms: u64,

    /// Limit of all tries of a call [ms]
    #[arg(long, env = "CONVEYOR_AWS_CALL_TIMEOUT_MS", value_name = "MS", default_value_t = ms(limits::AWS_CALL_TIMEOUT), value_parser = clap::value_parser!(u64).range(1..), help_heading = "AWS")]
    pub aws_call_timeout_ms: u64,

    /// Tries of a call that fails for a reason that may pass
    #[arg(long, env = "CONVEYOR_AWS_ATTEMPTS_MAX", value_name = "N", default_value_t = limits::AWS_ATTEMPTS_MAX, value_parser = clap::value_parser!(u32).range(1..=100), help_heading = "AWS")]
    pub aws_attempts_max: u32,
}

impl AwsArgs {
    pub fn settings(&self) -> anyhow::Result<Settings> {
        self.settings_with(Arc::default())
    }

    /// The settings of clients that tell `time` what time it is at the backend.
    pub fn settings_with(&self, time: Arc<ServerTime>) -> anyhow::Result<Settings> {
        let bucket = self.aws_bucket.clone().context("the AWS backend needs --aws-bucket")?;
        let legal = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
        // A queue is called `<prefix>-run-<26 characters>`, in at most 80.
        ensure!(
            legal(&self.aws_queue_prefix) && (1..=40).contains(&self.aws_queue_prefix.len()),
            "--aws-queue-prefix may have 1 to 40 letters, digits, `-` and `_`"
        );
        Ok(Settings {
            table: self.aws_table.clone(),
            queue_prefix: self.aws_queue_prefix.clone(),
            bucket,
            task_shards_min: self.aws_task_shards_min,
            queue_empty_after: Duration::from_millis(self.aws_queue_empty_after_ms),
            refs_sent_within: Duration::from_millis(self.aws_refs_sent_within_ms),
            timeouts: Timeouts {
                attempt: Duration::from_millis(self.aws_attempt_timeout_ms),
                operation: Duration::from_millis(self.aws_call_timeout_ms),
                attempts_max: self.aws_attempts_max,
                ..Timeouts::default()
            },
            time,
        })
    }
}
