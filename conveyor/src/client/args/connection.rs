//! Which server, with which key, and how to answer: the flags that every client command has.

use super::super::failure::Failure;
use clap::Args;
use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;
use url::Url;

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
