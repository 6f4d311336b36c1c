//! The variables that the roles are started with: which AWS, and under which names.

use anyhow::Context;
use conveyor_aws_servers::{Combination, Installation, Running};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use tokio::task::spawn_blocking;

/// Names in servers that are started for the occasion, and have nothing else in them.
const OWN_NAMES: [(&str, &str); 3] = [
    ("CONVEYOR_AWS_TABLE", "conveyor-bill"),
    ("CONVEYOR_AWS_QUEUE_PREFIX", "conveyor-bill"),
    ("CONVEYOR_AWS_BUCKET", "conveyor-bill"),
];

/// Where the roles run, for as long as this is kept.
#[derive(Debug)]
pub struct Place {
    pub variables: Vec<(OsString, OsString)>,
    pub api_key: String,
    _servers: Option<Running>,
}

impl Place {
    /// On servers of our own.
    pub async fn start(servers: Combination, gateway_url: &str) -> anyhow::Result<Place> {
        let start = move || Running::start(&Installation::find()?, servers);
        let running = spawn_blocking(start).await?.context("the AWS-compatible servers did not start")?;
        let mut place = Place::new(gateway_url)?;
        place.set(running.environment.variables());
        place.set(OWN_NAMES);
        place._servers = Some(running);
        Ok(place)
    }

    /// As the caller's own variables say: `AWS_*` are inherited, the names are required.
    pub fn of_caller(gateway_url: &str) -> anyhow::Result<Place> {
        let mut place = Place::new(gateway_url)?;
        for (name, _) in OWN_NAMES {
            let value = std::env::var(name).with_context(|| format!("--endpoints-from-env needs {name}"))?;
            place.set([(name, value.as_str())]);
        }
        Ok(place)
    }

    fn new(gateway_url: &str) -> anyhow::Result<Place> {
        let (api_key, secret_key) = (random_hex()?, random_hex()?);
        let mut place = Place { variables: Vec::new(), api_key: api_key.clone(), _servers: None };
        place.set([
            ("CONVEYOR_BACKEND", "aws"),
            ("CONVEYOR_GATEWAY_URL", gateway_url),
            ("CONVEYOR_API_KEY", &api_key),
            ("CONVEYOR_SECRET_KEY", &secret_key),
        ]);
        Ok(place)
    }

    fn set<'a>(&mut self, variables: impl IntoIterator<Item = (&'a str, &'a str)>) {
        self.variables.extend(variables.into_iter().map(|(name, value)| (name.into(), value.into())));
    }
}

/// The name under which a caller's own AWS is reported, and otherwise that of the servers.
pub fn name_of(servers: Option<Combination>) -> String {
    servers.map_or_else(|| "from-env".to_owned(), |servers| servers.name().to_owned())
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
