//! Flags of the client commands.

use super::failure::Failure;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use conveyor_domain::limits;
use conveyor_ingest::decode::Format;
use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;
use url::Url;

#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    /// Submit a list of URLs as one job
    Submit(SubmitArgs),
    /// Show a job and how far it is
    Status(StatusArgs),
    /// List the results of a job, or download them
    Results(ResultsArgs),
    /// Stop the current run of a job; tasks in flight may still finish
    Stop(JobArgs),
    /// Delete a job with everything that belongs to it
    Delete(JobArgs),
}

impl ClientCommand {
    pub fn client(&self) -> &ClientArgs {
        match self {
            ClientCommand::Submit(args) => &args.client,
            ClientCommand::Status(args) => &args.client,
            ClientCommand::Results(args) => &args.client,
            ClientCommand::Stop(args) | ClientCommand::Delete(args) => &args.client,
        }
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Connection and output")]
pub struct ClientArgs {
    /// The server to talk to
    #[arg(long, value_name = "URL", env = "CONVEYOR_SERVER", default_value = "http://127.0.0.1:8080", value_parser = parse_server)]
    pub server: Url,

    /// The API key; without it, the one that `conveyor dev` left in the data directory
    #[arg(long, value_name = "KEY", env = "CONVEYOR_API_KEY", hide_env_values = true)]
    api_key: Option<ApiKey>,

    /// Where to look for an `api-key` file when no key is given
    #[arg(long, value_name = "DIR", env = "CONVEYOR_DATA_DIR", default_value = "./conveyor-data")]
    data_dir: PathBuf,

    /// Print one JSON document on standard output, and nothing else there
    #[arg(long, env = "CONVEYOR_JSON")]
    pub json: bool,
}

impl ClientArgs {
    /// The key to send, if there is one. Without one the server is still asked: it says best what it wants.
    pub fn key(&self) -> Result<Option<ApiKey>, Failure> {
        if let Some(key) = self.api_key.as_ref().filter(|key| !key.expose().is_empty()) {
            return Ok(Some(key.clone()));
        }
        let path = self.data_dir.join("api-key");
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some(ApiKey(text.trim().to_owned())).filter(|key| !key.expose().is_empty())),
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(e) => Err(Failure::usage(format!("the key in {} cannot be read: {e}", path.display()))),
        }
    }
}

/// An API key. It has no `Display`, and its `Debug` does not show it.
#[derive(Clone)]
pub struct ApiKey(String);

impl ApiKey {
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

impl From<String> for ApiKey {
    fn from(key: String) -> ApiKey {
        ApiKey(key)
    }
}

#[derive(Debug, Args)]
pub struct SubmitArgs {
    /// What to submit: files, `-` for standard input, or URLs (http:// or https://)
    #[arg(required = true, value_name = "FILE|-|URL")]
    pub inputs: Vec<String>,

    /// How files are read; `auto` tells by their first bytes
    #[arg(long, env = "CONVEYOR_FORMAT", default_value = "auto", value_parser = format_parser())]
    pub format: Format,

    /// The delimiter of CSV files, told by their first line if not given; `tab` for a tab
    #[arg(long, env = "CONVEYOR_DELIMITER", value_name = "CHAR", value_parser = parse_delimiter)]
    pub delimiter: Option<u8>,

    /// A label for the job
    #[arg(long, env = "CONVEYOR_NAME")]
    pub name: Option<String>,

    /// Your own id for the job
    #[arg(long, env = "CONVEYOR_EXTERNAL_ID", value_name = "ID")]
    pub external_id: Option<String>,

    /// A parameter for the gateway, for every task of the job; can be repeated
    #[arg(long = "param", env = "CONVEYOR_PARAM", value_name = "KEY=VALUE", value_parser = parse_param)]
    pub params: Vec<(String, String)>,

    /// How many tasks of the job may be in flight at once
    #[arg(long, env = "CONVEYOR_MAX_INFLIGHT", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::MAX_INFLIGHT_MAX)))]
    pub max_inflight: Option<u32>,

    /// Show progress until the job is done
    #[arg(long, env = "CONVEYOR_WATCH")]
    pub watch: bool,

    #[command(flatten)]
    pub client: ClientArgs,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The id of the job
    pub job: String,

    /// Show progress until the job is done
    #[arg(long, env = "CONVEYOR_WATCH")]
    pub watch: bool,

    #[command(flatten)]
    pub client: ClientArgs,
}

#[derive(Debug, Args)]
pub struct ResultsArgs {
    /// The id of the job
    pub job: String,

    /// A run of the job other than the latest
    #[arg(long, env = "CONVEYOR_RUN")]
    pub run: Option<String>,

    /// Which tasks
    #[arg(long, env = "CONVEYOR_STATUS", value_enum, default_value_t = ResultStatus::All)]
    pub status: ResultStatus,

    /// Download bodies into this directory, as <task id>.<type>; failed tasks go to failed.jsonl beside them
    #[arg(long, env = "CONVEYOR_OUT", value_name = "DIR")]
    pub out: Option<PathBuf>,

    #[command(flatten)]
    pub client: ClientArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ResultStatus {
    All,
    Successful,
    Failed,
    /// Waiting or being worked on
    Processing,
}

impl ResultStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            ResultStatus::All => "all",
            ResultStatus::Successful => "successful",
            ResultStatus::Failed => "failed",
            ResultStatus::Processing => "processing",
        }
    }
}

#[derive(Debug, Args)]
pub struct JobArgs {
    /// The id of the job
    pub job: String,

    #[command(flatten)]
    pub client: ClientArgs,
}

fn format_parser() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::NAMES).try_map(|name| name.parse::<Format>())
}

fn parse_server(text: &str) -> Result<Url, String> {
    let mut url = Url::parse(text).map_err(|e| e.to_string())?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err("not an http:// or https:// URL".to_owned());
    }
    url.set_query(None);
    url.set_fragment(None);
    // The base URL of other clients ends in /v1; both spellings name the same server.
    let path = url.path().trim_end_matches('/');
    let path = path.strip_suffix("/v1").unwrap_or(path).to_owned();
    url.set_path(&path);
    Ok(url)
}

fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [b'"' | b'\n' | b'\r'] => Err("a quote or a line end cannot delimit cells".to_owned()),
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err("not a single ASCII character".to_owned()),
    }
}

fn parse_param(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => Err("not KEY=VALUE".to_owned()),
    }
}
