//! The variables that the roles are started with: which backend, and under which names.

use anyhow::Context;
use conveyor_aws_servers::{Combination, Installation, Running};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use tokio::task::spawn_blocking;

/// Names in servers that are started for the occasion, and have nothing else in them.
const OWN_NAMES: [(&str, &str); 3] = [
    ("CONVEYOR_AWS_TABLE", "conveyor-loadtest"),
    ("CONVEYOR_AWS_QUEUE_PREFIX", "conveyor-loadtest"),
    ("CONVEYOR_AWS_BUCKET", "conveyor-loadtest"),
];

/// Where the roles run, for as long as this is kept.
#[derive(Debug)]
pub struct Place {
    pub variables: Vec<(OsString, OsString)>,
    /// Of two callers.
    pub api_keys: [String; 2],
    servers: Option<Running>,
}

impl Place {
    /// On servers of our own.
    pub async fn start(servers: Combination, gateway_url: &str) -> anyhow::Result<Place> {
        let start = move || Running::start(&Installation::find()?, servers);
        let running = spawn_blocking(start).await?.context("the AWS-compatible servers did not start")?;
        let mut place = Place::new("aws", gateway_url)?;
        place.set(running.environment.variables());
        place.set(OWN_NAMES);
        place.servers = Some(running);
        Ok(place)
    }

    /// As the caller's own variables say: `AWS_*` are inherited, the names are required.
    pub fn of_caller(gateway_url: &str) -> anyhow::Result<Place> {
        let mut place = Place::new("aws", gateway_url)?;
        for (name, _) in OWN_NAMES {
            let value = std::env::var(name).with_context(|| format!("--endpoints-from-env needs {name}"))?;
            place.set([(name, value.as_str())]);
        }
        Ok(place)
    }

    /// One process with all roles, and everything in a folder.
    pub fn embedded(folder: &Path, gateway_url: &str) -> anyhow::Result<Place> {
        let mut place = Place::new("embedded", gateway_url)?;
        place.variables.push(("CONVEYOR_DATA_DIR".into(), folder.into()));
        Ok(place)
    }

    fn new(backend: &str, gateway_url: &str) -> anyhow::Result<Place> {
        let (api_keys, secret_key) = ([random_hex()?, random_hex()?], random_hex()?);
        let accepted = api_keys.join(",");
        let mut place = Place { variables: Vec::new(), api_keys, servers: None };
        place.set([
            ("CONVEYOR_BACKEND", backend),
            ("CONVEYOR_GATEWAY_URL", gateway_url),
            ("CONVEYOR_API_KEY", &accepted),
            ("CONVEYOR_SECRET_KEY", &secret_key),
        ]);
        Ok(place)
    }

    /// Where SQS is spoken, if that is a server of ours.
    pub fn sqs_url(&self) -> Option<&str> {
        self.servers.as_ref().map(|running| running.environment.sqs_url.as_str())
    }

    /// The same of DynamoDB.
    pub fn dynamodb_url(&self) -> Option<&str> {
        self.servers.as_ref().map(|running| running.environment.dynamodb_url.as_str())
    }

    pub fn set<'a>(&mut self, variables: impl IntoIterator<Item = (&'a str, &'a str)>) {
        self.variables.extend(variables.into_iter().map(|(name, value)| (name.into(), value.into())));
    }
}

/// 32 bytes: a key that nobody guesses, also where the roles are on a network.
fn random_hex() -> anyhow::Result<String> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_long_and_new() {
        let keys = [random_hex().unwrap(), random_hex().unwrap()];
        assert!(keys[0] != keys[1] && keys.iter().all(|key| key.len() == 64));
    }
}
