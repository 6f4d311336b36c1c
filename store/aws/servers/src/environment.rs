//! Servers as a process under test sees them: the variables that every AWS SDK reads.

use crate::install::Installation;
use crate::servers::{Kind, Service};
use crate::shared;
use crate::start::Server;
use anyhow::{Context, Result};
use std::path::Path;
use std::{fmt, str};

/// Servers that together speak DynamoDB, SQS and S3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combination {
    /// Dynoxide and Localstack: the fastest and closest for what each does.
    Default,
    /// MiniStack for everything.
    MiniStack,
    /// DynamoDB Local and Localstack.
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

    pub fn servers(self) -> &'static [Kind] {
        match self {
            Combination::Default => &[Kind::Dynoxide, Kind::LocalStack],
            Combination::MiniStack => &[Kind::MiniStack],
            Combination::DynamoDbLocal => &[Kind::DynamoDbLocal, Kind::LocalStack],
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
        let urls = combination.servers().iter().map(|kind| Ok((*kind, shared::url(*kind)?)));
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
        let urls: Vec<_> =
            urls.iter().filter(|(kind, _)| combination.servers().contains(kind)).cloned().collect();
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
        Running::of(Server::start_all(installation, combination.servers())?)
    }

    /// The default combination with the tables of DynamoDB in a file.
    pub fn start_on(installation: &Installation, db_path: &Path) -> Result<Running> {
        let dynoxide = Server::start_dynoxide_on(installation, db_path)?;
        Running::of(vec![dynoxide, Server::start(installation, Kind::LocalStack)?])
    }

    fn of(servers: Vec<Server>) -> Result<Running> {
        let urls: Vec<_> = servers.iter().map(|server| (server.kind(), server.url().to_owned())).collect();
        Ok(Running { environment: Environment::of_all(&urls)?, servers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_speaks_everything() {
        for combination in Combination::ALL {
            let urls: Vec<_> =
                combination.servers().iter().map(|kind| (*kind, format!("http://{}", kind.name()))).collect();
            let environment = Environment::of_all(&urls).unwrap();
            assert!(environment.variables().iter().all(|(_, value)| !value.is_empty()));
            assert_eq!(combination.name().parse::<Combination>().unwrap(), combination);
        }
        assert!(Environment::of_all(&[(Kind::Dynoxide, String::new())]).is_err());
    }

    #[test]
    fn a_service_is_asked_where_it_is_spoken() {
        let urls = [(Kind::Dynoxide, "http://d".to_owned()), (Kind::LocalStack, "http://l".to_owned())];
        let environment = Environment::of_all(&urls).unwrap();
        assert_eq!(
            (&*environment.dynamodb_url, &*environment.sqs_url, &*environment.s3_url),
            ("http://d", "http://l", "http://l")
        );
    }
}
