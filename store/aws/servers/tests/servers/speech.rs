//! Every server speaks what it says that it speaks.

use crate::http::{address, call, s3};
use conveyor_aws_servers::{Combination, Environment, Installation, Kind, Server, Service};
use std::net::{Ipv4Addr, TcpStream};

const TABLE: &str = r#"{"TableName": "things", "BillingMode": "PAY_PER_REQUEST",
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}]}"#;

fn speaks(kind: Kind) {
    let server = Server::start(&Installation::find().unwrap(), kind).unwrap();
    // Who listens on one address of loopback cannot be reached at another. DynamoDB Local has no setting for it.
    let elsewhere = (Ipv4Addr::new(127, 0, 0, 2), address(server.url()).port());
    assert!(kind == Kind::DynamoDbLocal || TcpStream::connect(elsewhere).is_err(), "it listens everywhere");
    for service in kind.services() {
        match service {
            Service::DynamoDb => speaks_dynamodb(server.url()),
            Service::Sqs => speaks_sqs(server.url()),
            Service::S3 => speaks_s3(server.url()),
        }
    }
}

fn speaks_dynamodb(url: &str) {
    let dynamodb =
        |action: &str, body: &str| call(url, "dynamodb", &format!("DynamoDB_20120810.{action}"), body);
    assert!(!dynamodb("ListTables", "{}").contains("things"));
    dynamodb("CreateTable", TABLE);
    assert!(dynamodb("ListTables", "{}").contains("things"));
    dynamodb("PutItem", r#"{"TableName": "things", "Item": {"id": {"S": "a"}, "n": {"N": "7"}}}"#);
    let item = dynamodb("GetItem", r#"{"TableName": "things", "Key": {"id": {"S": "a"}}}"#);
    assert!(item.contains(r#""7""#), "{item}");
}

fn speaks_sqs(url: &str) {
    let sqs = |action: &str, body: &str| call(url, "sqs", &format!("AmazonSQS.{action}"), body);
    let queue_url = text_of(&sqs("CreateQueue", r#"{"QueueName": "things"}"#), "QueueUrl");
    assert!(queue_url.starts_with(url), "a queue is where its server is, not at {queue_url}");
    assert!(sqs("ListQueues", "{}").contains("things"));
    sqs("SendMessage", &format!(r#"{{"QueueUrl": "{queue_url}", "MessageBody": "hello"}}"#));
    let received = sqs("ReceiveMessage", &format!(r#"{{"QueueUrl": "{queue_url}", "WaitTimeSeconds": 10}}"#));
    assert_eq!(text_of(&received, "Body"), "hello");
}

fn speaks_s3(url: &str) {
    s3(url, "PUT", "/things", "");
    assert!(s3(url, "GET", "/", "").contains("<Name>things</Name>"));
    s3(url, "PUT", "/things/a/b", "hello");
    assert_eq!(s3(url, "GET", "/things/a/b", ""), "hello");
}

/// The value of a field of JSON, wherever it is.
fn text_of(json: &str, field: &str) -> String {
    let (_, rest) =
        json.split_once(&format!("\"{field}\"")).unwrap_or_else(|| panic!("no {field} in {json}"));
    rest.split('"').nth(1).unwrap().to_owned()
}

#[test]
fn dynoxide_speaks() {
    speaks(Kind::Dynoxide);
}

#[test]
fn dynamodb_local_speaks() {
    speaks(Kind::DynamoDbLocal);
}

#[test]
fn localstack_speaks() {
    speaks(Kind::LocalStack);
}

#[test]
fn ministack_speaks() {
    speaks(Kind::MiniStack);
}

#[test]
fn shared_servers_are_started_once_and_answer() {
    let [first, second] = [(); 2].map(|()| Environment::shared(Combination::Default).unwrap());
    assert_eq!(first, second);
    call(&first.dynamodb_url, "dynamodb", "DynamoDB_20120810.ListTables", "{}");
    call(&first.sqs_url, "sqs", "AmazonSQS.ListQueues", "{}");
    s3(&first.s3_url, "GET", "/", "");
}
