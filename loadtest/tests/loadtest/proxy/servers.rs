//! Before the servers that tests use: signatures hold, and what is not refused is really done.

use crate::proxy::sdk::client;
use crate::proxy::support::Proxy;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BatchStatementRequest, BillingMode, KeySchemaElement, KeyType,
    ScalarAttributeType, Select,
};
use aws_sdk_s3::presigning::PresigningConfig;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use conveyor_aws_servers::{Combination, Environment};
use serde_json::json;
use std::time::Duration;

fn environment() -> Environment {
    // Starting them blocks, and every test starts with it.
    Environment::shared(Combination::Default).unwrap()
}

/// Servers may be shared with other processes, and with an earlier run of these tests.
fn name() -> String {
    format!("proxied-{}", std::process::id())
}

#[tokio::test]
async fn presigned_urls_and_signed_calls_hold_at_s3_of_localstack() {
    let proxy = Proxy::start(&environment().s3_url.parse().unwrap(), "s3", &[]);
    let client = aws_sdk_s3::Client::from_conf(
        client!(aws_sdk_s3, proxy).config().to_builder().force_path_style(true).build(),
    );
    client.create_bucket().bucket(name()).send().await.unwrap();
    let soon = PresigningConfig::expires_in(Duration::from_secs(60)).unwrap();
    let put = client.put_object().bucket(name()).key("a b/ü+~").presigned(soon).await.unwrap();
    let send = |url: String| proxy.client.put(url).body("bytes").send();
    let forged = send(put.uri().replace("X-Amz-Signature=", "X-Amz-Signature=0")).await.unwrap();
    assert_eq!(forged.status(), 403, "the server checks it");
    assert_eq!(send(put.uri().to_owned()).await.unwrap().status(), 200);
    let got = client.get_object().bucket(name()).key("a b/ü+~").send().await.unwrap();
    assert_eq!(&got.body.collect().await.unwrap().into_bytes()[..], b"bytes");
    let calls = json!({ "CreateBucket": 1, "PutObject": 2, "GetObject": 1 });
    assert_eq!(proxy.stats().await["calls"], calls);
}

#[tokio::test]
async fn of_a_batch_of_inserts_exactly_the_rest_is_there() {
    let proxy = Proxy::start(&environment().dynamodb_url.parse().unwrap(), "dynamodb", &["--partial", "1"]);
    let client = client!(aws_sdk_dynamodb, proxy);
    let key = KeySchemaElement::builder().attribute_name("k").key_type(KeyType::Hash).build().unwrap();
    let text = ScalarAttributeType::S;
    let attribute = AttributeDefinition::builder().attribute_name("k").attribute_type(text).build().unwrap();
    let table = client.create_table().table_name(name()).billing_mode(BillingMode::PayPerRequest);
    table.key_schema(key).attribute_definitions(attribute).send().await.unwrap();
    let insert = |n: u32| {
        let statement = format!("INSERT INTO \"{}\" VALUE {{'k': ?}}", name());
        let statement = BatchStatementRequest::builder().statement(statement);
        statement.parameters(AttributeValue::S(n.to_string())).build().unwrap()
    };
    let statements = (0..25).map(insert).collect();
    let answer = client.batch_execute_statement().set_statements(Some(statements)).send().await.unwrap();
    let refused = answer.responses().iter().filter(|each| each.error().is_some()).count();
    let count = client.scan().table_name(name()).select(Select::Count).send().await.unwrap().count();
    assert!(answer.responses().len() == 25 && (1..25).contains(&refused));
    assert_eq!(count, 25 - refused as i32);
}

#[tokio::test]
async fn of_a_batch_of_messages_exactly_the_rest_is_sent() {
    let proxy = Proxy::start(&environment().sqs_url.parse().unwrap(), "sqs", &["--partial", "1"]);
    let client = client!(aws_sdk_sqs, proxy);
    let queue = client.create_queue().queue_name(name()).send().await.unwrap().queue_url.unwrap();
    let entry =
        |n: u32| SendMessageBatchRequestEntry::builder().id(n.to_string()).message_body("m").build().unwrap();
    let entries = (0..10).map(entry).collect();
    let answer =
        client.send_message_batch().queue_url(&queue).set_entries(Some(entries)).send().await.unwrap();
    assert!(!answer.failed().is_empty() && answer.failed().iter().all(|entry| !entry.sender_fault()));
    let attribute = aws_sdk_sqs::types::QueueAttributeName::ApproximateNumberOfMessages;
    let about = client.get_queue_attributes().queue_url(&queue).attribute_names(attribute.clone());
    let about = about.send().await.unwrap();
    assert_eq!(about.attributes().unwrap()[&attribute], answer.successful().len().to_string());
    assert_eq!(answer.successful().len() + answer.failed().len(), 10);
}
