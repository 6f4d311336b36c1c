use super::ClientArgs;
use clap::Args;

#[derive(Debug, Args)]
pub struct RerunArgs {
    /// The id of the job
    pub job: String,

    /// Only tasks that ended so, or did not end: failed, successful, pending, processing. Repeatable, as all filters are;
    /// what they do not name keeps its result
    #[arg(long, value_delimiter = ',')]
    pub status: Vec<String>,

    /// Only tasks that failed for this: auth_failed, blocked, bad_target, rate_limited, timeout, gateway_error, other
    #[arg(long, value_name = "CLASS", value_delimiter = ',')]
    pub error_class: Vec<String>,

    /// Only tasks that were answered with this status
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    pub http_status: Vec<String>,

    /// Only tasks of this host, and of those below it
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub domain: Vec<String>,

    /// A parameter that this run has instead of the job's and its tasks' own, such as `js_render=true`; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    pub param: Vec<String>,

    /// Show progress until the run is done
    #[arg(long, env = "CONVEYOR_WATCH")]
    pub watch: bool,

    #[command(flatten)]
    pub client: ClientArgs,
}
