//! The servers: what each is made of, how it is started, and what it speaks.

mod dynamodb_local;
mod dynoxide;
mod localstack;
mod ministack;

use crate::install::Source;
use crate::pair::default_pair;
use crate::start::Request;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// DynamoDB, in one small binary: up in milliseconds.
    Dynoxide,
    /// DynamoDB, by Amazon.
    DynamoDbLocal,
    /// SQS and S3.
    LocalStack,
    /// All three in one.
    MiniStack,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Dynoxide, Kind::DynamoDbLocal, Kind::LocalStack, Kind::MiniStack];

    pub fn name(self) -> &'static str {
        self.recipe().name
    }

    pub fn version(self) -> &'static str {
        self.recipe().version
    }

    /// What it answers for.
    pub fn services(self) -> &'static [Service] {
        self.recipe().services
    }

    /// The environment variable with the URL of one that runs already.
    pub fn url_variable(self) -> &'static str {
        match self {
            Kind::Dynoxide => "CONVEYOR_TEST_AWS_DYNOXIDE_URL",
            Kind::DynamoDbLocal => "CONVEYOR_TEST_AWS_DYNAMODB_LOCAL_URL",
            Kind::LocalStack => "CONVEYOR_TEST_AWS_LOCALSTACK_URL",
            Kind::MiniStack => "CONVEYOR_TEST_AWS_MINISTACK_URL",
        }
    }

    /// Those that run on this machine: all but Localstack where [`default_pair`] does without it.
    pub fn here() -> Vec<Kind> {
        Kind::without_localstack_unless(default_pair().sqs_s3 == Kind::LocalStack)
    }

    fn without_localstack_unless(it_runs: bool) -> Vec<Kind> {
        Kind::ALL.into_iter().filter(|kind| it_runs || *kind != Kind::LocalStack).collect()
    }

    /// The oldest Python that it runs on, if it is written in it.
    pub(crate) fn python(self) -> Option<(u32, u32)> {
        match self.recipe().source {
            Source::Python { at_least, .. } => Some(at_least),
            Source::Npm { .. } => None,
        }
    }

    pub(crate) fn recipe(self) -> &'static Recipe {
        match self {
            Kind::Dynoxide => &dynoxide::RECIPE,
            Kind::DynamoDbLocal => &dynamodb_local::RECIPE,
            Kind::LocalStack => &localstack::RECIPE,
            Kind::MiniStack => &ministack::RECIPE,
        }
    }
}

/// The services that are spoken, each with a question that a ready server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    DynamoDb,
    Sqs,
    S3,
}

impl Service {
    /// The name in a credential scope.
    pub fn name(self) -> &'static str {
        match self {
            Service::DynamoDb => "dynamodb",
            Service::Sqs => "sqs",
            Service::S3 => "s3",
        }
    }

    /// Lists what there is, which is nothing yet. Localstack loads a service when it is first asked for it, so that a
    /// server that has answered keeps nobody waiting.
    pub(crate) fn question(self) -> Request {
        match self {
            Service::DynamoDb => Request::json(self, "1.0", "DynamoDB_20120810.ListTables", "{}"),
            Service::Sqs => Request::json(self, "1.0", "AmazonSQS.ListQueues", "{}"),
            Service::S3 => Request::get(self, "/"),
        }
    }
}

/// What differs from server to server.
pub(crate) struct Recipe {
    pub name: &'static str,
    pub version: &'static str,
    pub source: Source,
    /// What the machine must have beyond the source: looked for whenever the server is wanted, installed where possible.
    pub needs: fn() -> Result<()>,
    pub services: &'static [Service],
    /// The command that runs it, given the folder where it is installed.
    pub command: fn(&Path, &Launch) -> Result<Command>,
}

/// What one start decides.
pub(crate) struct Launch {
    pub port: u16,
    /// A folder that is empty before and gone after.
    pub state: PathBuf,
    /// A file that outlives the server, for one that can keep its data there.
    pub db_path: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_servers_share_a_folder_or_a_variable() {
        let folders: BTreeSet<_> = Kind::ALL.map(|kind| (kind.name(), kind.version())).into();
        let variables: BTreeSet<_> = Kind::ALL.map(Kind::url_variable).into();
        assert_eq!((folders.len(), variables.len()), (Kind::ALL.len(), Kind::ALL.len()));
    }

    #[test]
    fn a_server_that_cannot_run_is_left_out() {
        assert_eq!(Kind::without_localstack_unless(true), Kind::ALL);
        let others = [Kind::Dynoxide, Kind::DynamoDbLocal, Kind::MiniStack];
        assert_eq!(Kind::without_localstack_unless(false), others);
    }
}
