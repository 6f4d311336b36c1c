//! Flags of `conveyor submit`.

use super::{ClientArgs, schedule};
use crate::domain_limit::{self, NamedLimit};
use clap::{Args, ValueEnum};
use conveyor_domain::{FailureRatio, OnInvalidRows, Rate, limits};

/// The smallest part of an upload. Smaller ones would only make more requests.
const PART_MIN_BYTES: u64 = limits::MIB as u64;

#[derive(Debug, Args)]
pub struct SubmitArgs {
    /// What to submit: files, `-` for standard input, or URLs (http:// or https://)
    ///
    /// One list of any length is uploaded and read by the server; gzip and zstd are told by content. A list of up to 1 MiB
    /// and 9,999 rows, several lists, and URLs are sent with the submit itself: then a row that is not valid is named, and
    /// nothing is submitted.
    #[arg(required = true, value_name = "FILE|-|URL")]
    pub inputs: Vec<String>,

    /// How files are read; `auto` tells by their first bytes
    #[arg(long, env = "CONVEYOR_FORMAT", value_enum, default_value_t = ListFormat::Auto)]
    pub format: ListFormat,

    /// The delimiter of CSV files, told by their first line if not given; `tab` for a tab
    #[arg(long, env = "CONVEYOR_DELIMITER", value_name = "CHAR", value_parser = parse_delimiter)]
    pub delimiter: Option<u8>,

    /// What becomes of an uploaded list with invalid rows: the others are taken, or none; needs a single list [default: skip]
    #[arg(long, env = "CONVEYOR_ON_INVALID_ROWS", value_enum)]
    pub on_invalid_rows: Option<InvalidRows>,

    /// Go on with an interrupted upload of this file, by its id
    #[arg(long, env = "CONVEYOR_RESUME", value_name = "UPLOAD")]
    pub resume: Option<String>,

    /// Upload files that are larger than this in parts of this size [default: files over 64 MiB, parts of 16 MiB]
    #[arg(long, env = "CONVEYOR_PART_BYTES", value_name = "BYTES", value_parser = clap::value_parser!(u64).range(PART_MIN_BYTES..))]
    pub part_bytes: Option<u64>,

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

    /// How many tasks of the job may start in a second, over all workers: `50`, `0.2`
    #[arg(long, env = "CONVEYOR_RATE", value_name = "R", value_parser = parse_rate)]
    pub rate: Option<f64>,

    /// How many may start at once after a quiet time [default: as many as in a second]
    #[arg(long, env = "CONVEYOR_BURST", value_name = "N", requires = "rate", value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::BURST_MAX)))]
    pub burst: Option<u32>,

    /// Attempts at a task before it has failed [default: the worker's own]
    #[arg(long, env = "CONVEYOR_ATTEMPTS_MAX", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::RETRY_ATTEMPTS_MAX)))]
    pub attempts_max: Option<u32>,

    /// What may go to a site, of all your jobs together: `example.com=5/s,burst=10,inflight=3`, or a part of that; can be
    /// repeated. `*` is for every other host, each by itself
    #[arg(long = "domain-limit", env = "CONVEYOR_DOMAIN_LIMIT", value_name = "NAME=SPEC", value_delimiter = ';', value_parser = domain_limit::parse)]
    pub domain_limits: Vec<NamedLimit>,

    /// Pause the job when more of its tasks fail than this: `0.2` is one in five
    #[arg(long, env = "CONVEYOR_MAX_FAILURE_RATIO", value_name = "RATIO", value_parser = parse_ratio)]
    pub max_failure_ratio: Option<f64>,

    /// For how long its results can be seen [default: the server's own]
    #[arg(long, env = "CONVEYOR_RESULT_TTL_DAYS", value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::RESULT_TTL_DAYS_MAX)))]
    pub result_ttl_days: Option<u32>,

    /// Only say what the list would come to: rows, what is wrong with them, duplicates, domains, how long it would take.
    /// Nothing is submitted; what is uploaded for it can be submitted with --resume
    #[arg(long, env = "CONVEYOR_DRY_RUN", conflicts_with = "watch")]
    pub dry_run: bool,

    /// Run it by a schedule instead of now: `every 15 minutes`, `daily at 09:00,18:00`, `weekly on mon,fri at 09:00`,
    /// `monthly on 1,15 at 09:00`, `once at 2026-09-01T09:00:00`
    #[arg(long, env = "CONVEYOR_SCHEDULE", value_name = "RULE", value_parser = schedule::parse)]
    pub schedule: Option<serde_json::Value>,

    /// The IANA time zone of the times in `--schedule`, like Europe/Berlin [default: UTC]
    #[arg(long, env = "CONVEYOR_TIMEZONE", value_name = "ZONE", requires = "schedule")]
    pub timezone: Option<String>,

    /// Show progress until the job is done
    #[arg(long, env = "CONVEYOR_WATCH")]
    pub watch: bool,

    #[command(flatten)]
    pub client: ClientArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    Auto,
    Csv,
    /// A task object a line
    Jsonl,
    /// A URL a line
    Lines,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InvalidRows {
    /// They are rejected and reported
    Skip,
    /// The run fails before any task starts
    Fail,
}

impl From<InvalidRows> for OnInvalidRows {
    fn from(given: InvalidRows) -> OnInvalidRows {
        match given {
            InvalidRows::Skip => OnInvalidRows::Skip,
            InvalidRows::Fail => OnInvalidRows::Fail,
        }
    }
}

fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [b'"' | b'\n' | b'\r'] => Err("a quote or a line end cannot delimit cells".to_owned()),
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err("not a single ASCII character".to_owned()),
    }
}

pub fn parse_rate(text: &str) -> Result<f64, String> {
    let per_second =
        text.strip_suffix("/s").unwrap_or(text).parse().map_err(|_| "not a number".to_owned())?;
    Rate::new(per_second, None).map_err(|e| e.to_string())?;
    Ok(per_second)
}

pub fn parse_ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse().map_err(|_| "not a number".to_owned())?;
    let fits = FailureRatio::new(ratio).is_some();
    fits.then_some(ratio).ok_or_else(|| "must be from 0.000001 to 1".to_owned())
}

fn parse_param(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => Err("not KEY=VALUE".to_owned()),
    }
}
