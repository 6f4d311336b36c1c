//! Servers as a process under test sees them: the variables that every AWS SDK reads.

use crate::install::Installation;
use crate::pair::{Pair, default_pair};
use crate::servers::{Kind, Service};
use crate::shared;
use crate::start::Server;
use anyhow::{Context, Result};
use std::path::Path;
use std::{fmt, str};

/// Servers that together speak DynamoDB, SQS and S3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combination {
    /// The [default pair](default_pair): the fastest and closest for what each does.
    Default,
    /// MiniStack for everything.
    MiniStack,
    /// DynamoDB Local, with the server that the default pair has for SQS and S3.
    DynamoDbLocal,
}

impl Combination {
    pub const ALL: [Combination; 3] =
        [Combination::Default, Combination::MiniStack, Combination::DynamoDbLocal];

    pub fn name(self) -> &'static str {
        match self {
            Combination::Default => "default",
            Combination::MiniStack => "ministack",
            Combination::DynamoDbLocal => "dynamodb-local",
        }
    }

    /// On this machine. A service is asked of the first that speaks it.
    pub fn servers(self) -> Vec<Kind> {
        match self {
            Combination::Default | Combination::DynamoDbLocal => self.servers_by(default_pair()),
            // Does not depend on the pair, so nothing has to be found out for it.
            Combination::MiniStack => vec![Kind::MiniStack],
        }
    }

    fn servers_by(self, pair: &Pair) -> Vec<Kind> {
        match self {
            Combination::Default => vec![pair.dynamodb, pair.sqs_s3],
            Combination::MiniStack => vec![Kind::MiniStack],
            Combination::DynamoDbLocal => vec![Kind::DynamoDbLocal, pair.sqs_s3],
        }
    }
}

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl str::FromStr for Combination {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Combination> {
        let found = Combination::ALL.into_iter().find(|combination| combination.name() == name);
        found.with_context(|| format!("there is no combination {name}"))
    }
}

/// Where the services are, and as whom to ask them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    pub dynamodb_url: String,
    pub sqs_url: String,
    pub s3_url: String,
}

impl Environment {
    pub const REGION: &str = "us-east-1";
    /// Known to every server here; Localstack checks presigned URLs against them.
    pub const ACCESS_KEY_ID: &str = "test";
    pub const SECRET_ACCESS_KEY: &str = "test";

    /// Servers that are shared, as in [`shared::url`].
    pub fn shared(combination: Combination) -> Result<Environment> {
        let urls = combination.servers().into_iter().map(|kind| Ok((kind, shared::url(kind)?)));
        Environment::of_all(&urls.collect::<Result<Vec<_>>>()?)
    }

    /// What to set for a process that is to use them.
    pub fn variables(&self) -> [(&'static str, &str); 7] {
        [
            ("AWS_ENDPOINT_URL_DYNAMODB", &self.dynamodb_url),
            ("AWS_ENDPOINT_URL_SQS", &self.sqs_url),
            ("AWS_ENDPOINT_URL_S3", &self.s3_url),
            ("AWS_REGION", Environment::REGION),
            ("AWS_ACCESS_KEY_ID", Environment::ACCESS_KEY_ID),
            ("AWS_SECRET_ACCESS_KEY", Environment::SECRET_ACCESS_KEY),
            // Otherwise an SDK that misses something asks an address that answers only in a data centre.
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ]
    }

    /// Of servers that run already, those of the combination.
    pub fn of(combination: Combination, urls: &[(Kind, String)]) -> Result<Environment> {
        let running = |kind: Kind| urls.iter().find(|(other, _)| *other == kind).cloned();
        let urls: Vec<_> = combination.servers().into_iter().filter_map(running).collect();
        Environment::of_all(&urls)
    }

    fn of_all(urls: &[(Kind, String)]) -> Result<Environment> {
        let url = |service: Service| -> Result<String> {
            let server = urls.iter().find(|(kind, _)| kind.services().contains(&service));
            Ok(server.with_context(|| format!("no server speaks {}", service.name()))?.1.clone())
        };
        let (dynamodb_url, sqs_url, s3_url) =
            (url(Service::DynamoDb)?, url(Service::Sqs)?, url(Service::S3)?);
        Ok(Environment { dynamodb_url, sqs_url, s3_url })
    }
}

/// A combination of its own, ended when dropped.
#[derive(Debug)]
pub struct Running {
    pub environment: Environment,
    pub servers: Vec<Server>,
}

impl Running {
    /// Starts the servers of a combination, all at once.
    pub fn start(installation: &Installation, combination: Combination) -> Result<Running> {
        Running::of(Server::start_all(installation, &combination.servers())?)
    }

    /// The default combination with the tables of DynamoDB in a file.
    pub fn start_on(installation: &Installation, db_path: &Path) -> Result<Running> {
        let dynoxide = Server::start_dynoxide_on(installation, db_path)?;
        Running::of(vec![dynoxide, Server::start(installation, default_pair().sqs_s3)?])
    }

    fn of(servers: Vec<Server>) -> Result<Running> {
        let urls: Vec<_> = servers.iter().map(|server| (server.kind(), server.url().to_owned())).collect();
        Ok(Running { environment: Environment::of_all(&urls)?, servers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(sqs_s3: Kind) -> Pair {
        Pair { dynamodb: Kind::Dynoxide, sqs_s3, note: None }
    }

    fn environment(servers: &[Kind]) -> Environment {
        let urls: Vec<_> = servers.iter().map(|kind| (*kind, format!("http://{}", kind.name()))).collect();
        Environment::of_all(&urls).unwrap()
    }

    #[test]
    fn every_combination_speaks_everything() {
        for combination in Combination::ALL {
            for pair in [with(Kind::LocalStack), with(Kind::MiniStack)] {
                let environment = environment(&combination.servers_by(&pair));
                assert!(environment.variables().iter().all(|(_, value)| !value.is_empty()));
            }
            assert_eq!(combination.name().parse::<Combination>().unwrap(), combination);
        }
        assert!(Environment::of_all(&[(Kind::Dynoxide, String::new())]).is_err());
    }

    #[test]
    fn a_service_is_asked_where_it_is_spoken() {
        let asked = |sqs_s3: Kind| {
            let Environment { dynamodb_url, sqs_url, s3_url } =
                environment(&Combination::Default.servers_by(&with(sqs_s3)));
            [dynamodb_url, sqs_url, s3_url]
        };
        assert_eq!(asked(Kind::LocalStack), ["http://dynoxide", "http://localstack", "http://localstack"]);
        // It speaks DynamoDB as well, but is not the one that is asked.
        assert_eq!(asked(Kind::MiniStack), ["http://dynoxide", "http://ministack", "http://ministack"]);
    }
}
