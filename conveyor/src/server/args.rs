//! Flags of the server roles. Each has a `CONVEYOR_*` variable; defaults are the domain's limits.

use super::aws::AwsArgs;
use super::caller_args::CallerArgs;
use super::share_args::ShareArgs;
use crate::domain_limit::{self, NamedLimit};
use crate::secret_text::SecretText;
use clap::builder::{PossibleValuesParser, RangedU64ValueParser, TypedValueParser};
use clap::{ArgAction, Args, ValueEnum};
use conveyor_domain::{DomainLimits, ParamPolicy, RetryPolicy, limits};
use conveyor_ingest::IngestConfig;
use conveyor_worker::gateway::{GatewayChoice, GatewayLimits};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BackendKind {
    /// One SQLite database and a folder of files, in the data directory
    Embedded,
    /// DynamoDB, SQS and S3: any number of processes of each role
    Aws,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GatewayParams {
    /// The parameters of the ZenRows Fetch API; others are refused
    Zenrows,
    /// Any parameter is passed on
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

/// Where state lives: the same flags for servers and for whatever works on a backend without one.
#[derive(Clone, Debug, Args)]
pub struct BackendArgs {
    /// Folder for everything that is kept
    #[arg(long, env = "CONVEYOR_DATA_DIR", default_value = "./conveyor-data", help_heading = "Server")]
    pub data_dir: PathBuf,

    /// Where state lives
    #[arg(long, env = "CONVEYOR_BACKEND", default_value = "embedded", help_heading = "Server")]
    pub backend: BackendKind,

    #[command(flatten)]
    pub aws: AwsArgs,
}

// How large lists may be: whatever reads them again has to be told the same as the servers.
#[derive(Clone, Copy, Debug, Args)]
pub struct ListArgs {
    /// Most tasks of one run
    #[arg(long, env = "CONVEYOR_RUN_TASKS_MAX", value_name = "N", default_value_t = limits::RUN_TASKS_MAX, help_heading = "Limits")]
    pub run_tasks_max: u32,

    /// Largest list, as it is uploaded
    #[arg(long, env = "CONVEYOR_LIST_MAX_BYTES", value_name = "BYTES", default_value_t = limits::LIST_MAX_BYTES, value_parser = clap::value_parser!(u64).range(1..=limits::OBJECT_MAX_BYTES_MOST), help_heading = "Limits")]
    pub list_max_bytes: u64,

    /// Largest list, once expanded
    #[arg(long, env = "CONVEYOR_LIST_EXPANDED_MAX_BYTES", value_name = "BYTES", default_value_t = limits::LIST_EXPANDED_MAX_BYTES, help_heading = "Limits")]
    pub list_expanded_max_bytes: u64,
}

impl ListArgs {
    pub fn ingest(self) -> IngestConfig {
        IngestConfig {
            run_tasks_max: self.run_tasks_max,
            list_max_bytes: self.list_max_bytes,
            list_expanded_max_bytes: self.list_expanded_max_bytes,
            ..IngestConfig::default()
        }
    }
}

#[derive(Clone, Debug, Args)]
pub struct ServerArgs {
    /// Address to serve HTTP on; port 0 picks a free one
    #[arg(long, env = "CONVEYOR_LISTEN", default_value = "127.0.0.1:8080", help_heading = "Server")]
    pub listen: SocketAddr,

    #[command(flatten)]
    pub place: BackendArgs,

    /// An API key to accept, at least 16 characters; repeatable. Each key is a caller of its own.
    /// With none, `dev` makes one and prints it
    #[arg(
        long = "api-key",
        env = "CONVEYOR_API_KEY",
        value_name = "KEY",
        hide_env_values = true,
        value_delimiter = ',',
        help_heading = "Server"
    )]
    pub api_keys: Vec<String>,

    /// Revoke, for all processes, keys that an API was started with before and this one is not. Otherwise they stay accepted, and the
    /// log names them by their sha256. Keys made with `conveyor keys` are not touched
    #[arg(long, env = "CONVEYOR_REVOKE_ABSENT_KEYS", help_heading = "Server")]
    pub revoke_absent_keys: bool,

    /// A key for `/v1/admin`, at least 16 characters; repeatable. It is no caller: it opens nobody's jobs.
    /// With none, `dev` makes one and keeps it in the data directory
    #[arg(
        long = "operator-key",
        env = "CONVEYOR_OPERATOR_KEY",
        value_name = "KEY",
        hide_env_values = true,
        value_delimiter = ',',
        help_heading = "Server"
    )]
    pub operator_keys: Vec<SecretText>,

    /// How callers reach this server, for the URLs in its answers; by default the Host that they asked for
    #[arg(long, env = "CONVEYOR_PUBLIC_URL", value_name = "URL", help_heading = "Server")]
    pub public_url: Option<String>,

    /// 32 bytes as 64 hex digits that seal credentials and sign cursors and URLs; by default `secret.key` in the data directory
    #[arg(
        long,
        env = "CONVEYOR_SECRET_KEY",
        value_name = "HEX",
        hide_env_values = true,
        help_heading = "Server"
    )]
    pub secret_key: Option<String>,

    /// How logs are written to stderr; CONVEYOR_LOG filters them (`info`, `conveyor_worker=debug`, ...)
    #[arg(long, env = "CONVEYOR_LOG_FORMAT", default_value = "text", help_heading = "Server")]
    pub log_format: LogFormat,

    /// How long a shutdown waits for what is in flight [ms]
    #[arg(long, env = "CONVEYOR_SHUTDOWN_GRACE_MS", value_name = "MS", default_value_t = ms(limits::SHUTDOWN_GRACE), help_heading = "Server")]
    pub shutdown_grace_ms: u64,

    /// Who fetches the URLs: an http(s) URL, `demo:` (synthetic pages) or `null:` (empty bodies).
    /// With none, Conveyor fetches them itself
    #[arg(long, env = "CONVEYOR_GATEWAY_URL", value_name = "URL", help_heading = "Gateway")]
    pub gateway_url: Option<GatewayChoice>,

    /// Sent to the gateway instead of the callers' own keys
    #[arg(
        long,
        env = "CONVEYOR_GATEWAY_API_KEY",
        value_name = "KEY",
        hide_env_values = true,
        help_heading = "Gateway"
    )]
    pub gateway_api_key: Option<String>,

    /// Which parameters callers may pass to the gateway
    #[arg(long, env = "CONVEYOR_GATEWAY_PARAMS", default_value = "zenrows", help_heading = "Gateway")]
    pub gateway_params: GatewayParams,

    /// Without a gateway: also fetch from private, loopback and link-local addresses
    #[arg(long, env = "CONVEYOR_ALLOW_PRIVATE_TARGETS", help_heading = "Gateway")]
    pub allow_private_targets: bool,

    /// For development: webhooks on loopback addresses, and http:// to them. Everywhere else a webhook is https, and on the
    /// public internet
    #[arg(long, env = "CONVEYOR_ALLOW_HTTP_WEBHOOKS", help_heading = "Server")]
    pub allow_http_webhooks: bool,

    /// Answer state machines of Step Functions that wait for a job (`sfn_task_token`). On the AWS backend that is always so
    #[arg(long, env = "CONVEYOR_SFN", help_heading = "Server")]
    pub sfn: bool,

    /// Limit of one connection attempt [ms]
    #[arg(long, env = "CONVEYOR_CONNECT_TIMEOUT_MS", value_name = "MS", default_value_t = ms(limits::CONNECT_TIMEOUT), help_heading = "Gateway")]
    pub connect_timeout_ms: u64,

    /// Limit of one whole call [ms]
    #[arg(long, env = "CONVEYOR_GATEWAY_TIMEOUT_MS", value_name = "MS", default_value_t = ms(limits::GATEWAY_TIMEOUT), help_heading = "Gateway")]
    pub gateway_timeout_ms: u64,

    /// Largest result body; a larger one fails its task
    #[arg(long, env = "CONVEYOR_RESULT_MAX_BYTES", value_name = "BYTES", default_value_t = limits::RESULT_MAX_BYTES, help_heading = "Limits")]
    pub result_max_bytes: usize,

    /// Largest request body
    #[arg(long, env = "CONVEYOR_MAX_BODY_BYTES", value_name = "BYTES", default_value_t = limits::MAX_BODY_BYTES, help_heading = "Limits")]
    pub max_body_bytes: usize,

    /// Write up to this many tasks of a submit or rerun before the answer (201); stage and ingest longer lists (202)
    #[arg(long, env = "CONVEYOR_INLINE_TASKS_MAX", value_name = "N", default_value_t = limits::INLINE_TASKS_MAX, value_parser = RangedU64ValueParser::<usize>::new().range(1..=limits::INLINE_TASKS_MAX as u64), help_heading = "Limits")]
    pub inline_tasks_max: usize,

    #[command(flatten)]
    pub lists: ListArgs,

    /// Count the rows of a list on S3 for so long before a submit is answered; what takes longer, the ingester counts [ms]
    #[arg(long, env = "CONVEYOR_COUNT_WITHIN_MS", value_name = "MS", default_value_t = ms(limits::COUNT_WITHIN), value_parser = clap::value_parser!(u64).range(0..=10_000), help_heading = "Limits")]
    pub count_within_ms: u64,

    /// For how long results can be seen, of jobs that do not say so themselves [days]
    #[arg(long, env = "CONVEYOR_RESULT_TTL_DAYS", value_name = "DAYS", default_value_t = limits::RESULT_TTL_DAYS, value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::RESULT_TTL_DAYS_MAX)), help_heading = "Limits")]
    pub result_ttl_days: u32,

    /// How long a signed URL of a result or an export is good [min]
    #[arg(long, env = "CONVEYOR_RESULT_URL_TTL_MINUTES", value_name = "MINUTES", default_value_t = limits::RESULT_URL_TTL.as_secs() / 60, value_parser = clap::value_parser!(u64).range(1..=limits::RESULT_URL_TTL_MAX.as_secs() / 60), help_heading = "Limits")]
    pub result_url_ttl_minutes: u64,

    #[command(flatten)]
    pub caller: CallerArgs,

    #[command(flatten)]
    pub share: ShareArgs,

    /// Ingest so many long lists of one caller at once, and as many short ones; twice that of all callers
    #[arg(long, env = "CONVEYOR_INGESTS_MAX", value_name = "N", default_value_t = limits::INGESTS_MAX, value_parser = clap::value_parser!(u32).range(1..=64), help_heading = "Limits")]
    pub ingests_max: u32,

    /// Records of a list that are written in one step
    #[arg(long, env = "CONVEYOR_CHUNK_ROWS", value_name = "N", default_value_t = limits::CHUNK_ROWS, value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = "Limits")]
    pub chunk_rows: u32,

    /// Build so many long exports of one caller at once, and as many short ones; twice that of all callers
    #[arg(long, env = "CONVEYOR_EXPORTS_MAX", value_name = "N", default_value_t = limits::EXPORTS_MAX, value_parser = clap::value_parser!(u32).range(1..=64), help_heading = "Limits")]
    pub exports_max: u32,

    /// Most bytes of results that go into one export; one of more fails
    #[arg(long, env = "CONVEYOR_EXPORT_MAX_BYTES", value_name = "BYTES", default_value_t = limits::EXPORT_MAX_BYTES, value_parser = clap::value_parser!(u64).range(1..=limits::OBJECT_MAX_BYTES_MOST), help_heading = "Limits")]
    pub export_max_bytes: u64,

    /// Tasks that this worker has in flight at most, over all jobs
    #[arg(long, env = "CONVEYOR_SLOTS", value_name = "N", default_value_t = limits::SLOTS, value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = "Limits")]
    pub slots: u32,

    /// What may go to a site, of each caller, over all of its jobs and all workers: `example.com=5/s,burst=10,inflight=3`,
    /// or a part of that; with everything below it. `*` is for every other host, each by itself. Repeatable; in the variable,
    /// with `;` between them. All workers should be given the same
    #[arg(long = "domain-limit", env = "CONVEYOR_DOMAIN_LIMIT", value_name = "NAME=SPEC", value_delimiter = ';', value_parser = domain_limit::parse, help_heading = "Limits")]
    pub domain_limits: Vec<NamedLimit>,

    /// `off` receives without asking whether a task could start. It is there for `loadtest`, which measures what the gate
    /// saves, and for nothing else: tasks that cannot start are then received and given back, over and over
    #[arg(long, env = "CONVEYOR_GATE", default_value = "on", value_parser = PossibleValuesParser::new(["on", "off"]).map(|gate| gate == "on"), action = ArgAction::Set, hide = true)]
    pub gate: bool,

    /// How long a message that is worked on stays hidden from others, unless it is extended, which happens three times as
    /// often: what a killed process held comes back after this [ms]
    #[arg(long, env = "CONVEYOR_VISIBILITY_MS", value_name = "MS", default_value_t = ms(limits::VISIBILITY), value_parser = clap::value_parser!(u64).range(2_000..=3_600_000), help_heading = "Limits")]
    pub visibility_ms: u64,

    /// Attempts at a task before it has failed
    #[arg(long, env = "CONVEYOR_ATTEMPTS_MAX", value_name = "N", default_value_t = limits::ATTEMPTS_MAX, value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::RETRY_ATTEMPTS_MAX)), help_heading = "Limits")]
    pub attempts_max: u32,

    /// Wait before the second attempt; doubles with each [ms]
    #[arg(long, env = "CONVEYOR_RETRY_BASE_MS", value_name = "MS", default_value_t = ms(limits::RETRY_BASE), help_heading = "Limits")]
    pub retry_base_ms: u64,

    /// Longest wait between attempts [ms]
    #[arg(long, env = "CONVEYOR_RETRY_CAP_MS", value_name = "MS", default_value_t = ms(limits::RETRY_CAP), value_parser = clap::value_parser!(u64).range(1..=ms(limits::NOT_BEFORE_MAX)), help_heading = "Limits")]
    pub retry_cap_ms: u64,
}

pub fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl ServerArgs {
    pub fn gateway(&self) -> GatewayChoice {
        let direct = GatewayChoice::Direct { allow_private_targets: self.allow_private_targets };
        self.gateway_url.clone().unwrap_or(direct)
    }

    pub fn gateway_limits(&self) -> GatewayLimits {
        GatewayLimits {
            connect_timeout: Duration::from_millis(self.connect_timeout_ms),
            total_timeout: Duration::from_millis(self.gateway_timeout_ms),
            result_max_bytes: self.result_max_bytes,
        }
    }

    pub fn param_policy(&self) -> ParamPolicy {
        match (self.gateway(), self.gateway_params) {
            (GatewayChoice::Direct { .. }, _) => ParamPolicy::DirectFetch,
            (GatewayChoice::Demo | GatewayChoice::Null | GatewayChoice::Http(_), GatewayParams::Zenrows) => {
                ParamPolicy::ZenRows
            }
            (GatewayChoice::Demo | GatewayChoice::Null | GatewayChoice::Http(_), GatewayParams::Any) => {
                ParamPolicy::Any
            }
        }
    }

    pub fn has_built_in_gateway(&self) -> bool {
        matches!(self.gateway(), GatewayChoice::Demo | GatewayChoice::Null)
    }

    /// A caller's key is kept only where somebody needs it: a gateway over HTTP with no key of its own.
    pub fn forwards_keys(&self) -> bool {
        matches!(self.gateway(), GatewayChoice::Http(_)) && self.gateway_api_key.is_none()
    }

    pub fn retry(&self) -> RetryPolicy {
        RetryPolicy {
            attempts_max: self.attempts_max,
            base: Duration::from_millis(self.retry_base_ms),
            cap: Duration::from_millis(self.retry_cap_ms),
        }
    }

    pub fn domain_limits(&self) -> anyhow::Result<DomainLimits> {
        domain_limit::gather(&self.domain_limits).map_err(anyhow::Error::msg)
    }

    pub fn count_within(&self) -> Duration {
        Duration::from_millis(self.count_within_ms)
    }

    pub fn result_url_ttl(&self) -> Duration {
        Duration::from_secs(self.result_url_ttl_minutes * 60)
    }

    pub fn visibility(&self) -> Duration {
        Duration::from_millis(self.visibility_ms)
    }

    pub fn shutdown_grace(&self) -> Duration {
        Duration::from_millis(self.shutdown_grace_ms)
    }
}
