//! The services that are spoken, each with a question that a ready server answers.

use crate::start::Request;

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
