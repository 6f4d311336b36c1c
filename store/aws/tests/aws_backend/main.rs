//! The AWS backend: every rule, and what is particular to DynamoDB, SQS, S3 and Step Functions, on each server that speaks
//! them.

#![expect(clippy::unwrap_used, reason = "in a test, an unwrap that fails is the report")]

mod conformance;
mod machines;
mod objects;
mod on_aws;
mod queue;
mod table;
