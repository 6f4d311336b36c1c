//! What all examples begin with.

use anyhow::Context;
use conveyor_client::Client;
use std::env;

/// The server in `CONVEYOR_SERVER`, with the key in `CONVEYOR_API_KEY`.
pub fn from_environment() -> anyhow::Result<Client> {
    let server = env::var("CONVEYOR_SERVER").unwrap_or_else(|_| "http://127.0.0.1:8080".to_owned());
    let key = env::var("CONVEYOR_API_KEY").context("set CONVEYOR_API_KEY")?;
    Ok(Client::builder(server).key(&key).build()?)
}
