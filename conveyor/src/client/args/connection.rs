//! Which server, with which key, and how to answer: the flags that every client command has, of callers and of operators.

use super::super::failure::Failure;
use crate::secret_text::SecretText;
use clap::Args;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use url::Url;

#[derive(Debug, Args)]
#[command(next_help_heading = "Connection and output")]
pub struct ClientArgs {
    /// The server to talk to
    #[arg(long, value_name = "URL", env = "CONVEYOR_SERVER", default_value = "http://127.0.0.1:8080", value_parser = conveyor_client::server_url)]
    server: Url,

    /// The API key; without it, the one that `conveyor dev` left in the data directory
    #[arg(long, value_name = "KEY", env = "CONVEYOR_API_KEY", hide_env_values = true)]
    api_key: Option<SecretText>,

    /// Where to look for an `api-key` file when no key is given
    #[arg(long, value_name = "DIR", env = "CONVEYOR_DATA_DIR", default_value = "./conveyor-data")]
    data_dir: PathBuf,

    /// Print one JSON document on standard output, and nothing else there
    #[arg(long, env = "CONVEYOR_JSON")]
    json: bool,
}

/// The same for a command of operators.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection and output")]
pub struct OperatorArgs {
    /// The server to talk to
    #[arg(long, value_name = "URL", env = "CONVEYOR_SERVER", default_value = "http://127.0.0.1:8080", value_parser = conveyor_client::server_url)]
    server: Url,

    /// The operator key; without it, the one that `conveyor dev` left in the data directory
    #[arg(long, value_name = "KEY", env = "CONVEYOR_OPERATOR_KEY", hide_env_values = true)]
    operator_key: Option<SecretText>,

    /// Print one JSON document on standard output, and nothing else there
    #[arg(long, env = "CONVEYOR_JSON")]
    json: bool,
}

/// How a command reaches its server.
#[derive(Clone, Copy, Debug)]
pub enum Connection<'a> {
    Caller(&'a ClientArgs),
    Operator { args: &'a OperatorArgs, data_dir: &'a Path },
}

impl Connection<'_> {
    pub fn server(&self) -> &Url {
        match self {
            Connection::Caller(args) => &args.server,
            Connection::Operator { args, .. } => &args.server,
        }
    }

    pub fn json(&self) -> bool {
        match self {
            Connection::Caller(args) => args.json,
            Connection::Operator { args, .. } => args.json,
        }
    }

    /// The key to send, if there is one. Without one the server is still asked: it says best what it wants.
    pub fn key(&self) -> Result<Option<SecretText>, Failure> {
        let (given, file) = match self {
            Connection::Caller(args) => (&args.api_key, args.data_dir.join("api-key")),
            Connection::Operator { args, data_dir } => (&args.operator_key, data_dir.join("operator-key")),
        };
        if let Some(key) = given.as_ref().filter(|key| !key.expose().is_empty()) {
            return Ok(Some(key.clone()));
        }
        match std::fs::read_to_string(&file) {
            Ok(text) => {
                Ok(Some(SecretText::from(text.trim().to_owned())).filter(|key| !key.expose().is_empty()))
            }
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(e) => Err(Failure::usage(format!("the key in {} cannot be read: {e}", file.display()))),
        }
    }
}
