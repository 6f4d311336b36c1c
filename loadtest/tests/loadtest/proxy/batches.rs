//! Transactions that meet another one, and batches of which a part is refused.

use crate::proxy::support::{Asked, Proxy, Upstream};
use axum::Json;
use serde_json::{Value, json};

#[tokio::test]
async fn a_transaction_in_conflict_has_a_reason_for_each_of_its_items() {
    let (upstream, url) = Upstream::start(|_| "{}").await;
    let proxy = Proxy::start(&url, "dynamodb", &["--conflict", "1"]);
    let items = vec![json!({ "Put": {} }); 7];
    let answer = proxy.call("TransactWriteItems", &json!({ "TransactItems": items })).await.unwrap();
    assert_eq!(answer.status(), 400);
    let answer: Value = answer.json().await.unwrap();
    assert_eq!(answer["__type"], "com.amazonaws.dynamodb.v20120810#TransactionCanceledException");
    let reasons = answer["CancellationReasons"].as_array().unwrap();
    let of = |code| reasons.iter().filter(|reason| reason["Code"] == code).count();
    assert_eq!((reasons.len(), of("TransactionConflict"), of("None")), (7, 1, 6));
    assert!(upstream.asked().is_empty());
    assert_eq!(proxy.call("PutItem", &json!({})).await.unwrap().status(), 200, "only transactions conflict");
}

#[tokio::test]
async fn statements_that_are_not_refused_are_executed() {
    let each = |asked: &Asked| Json(json!({ "Responses": asked.json()["Statements"] }));
    let (upstream, url) = Upstream::start(each).await;
    let proxy = Proxy::start(&url, "dynamodb", &["--partial", "1"]);
    let statements: Vec<Value> = (0..25).map(|n| json!({ "Statement": n.to_string() })).collect();
    let request = json!({ "Statements": statements });
    let answer = proxy.call("BatchExecuteStatement", &request).await.unwrap();
    let answer: Value = answer.json().await.unwrap();
    let done: Vec<Value> = upstream.asked()[0].json()["Statements"].as_array().unwrap().clone();
    assert!((1..25).contains(&done.len()));
    let places = answer["Responses"].as_array().unwrap();
    for (statement, place) in statements.iter().zip(places) {
        match place["Error"]["Code"].as_str() {
            Some(code) => {
                assert!(["ThrottlingError", "ProvisionedThroughputExceeded"].contains(&code), "{code}");
                assert!(!done.contains(statement));
            }
            None => assert!(place == statement && done.contains(statement)),
        }
    }
    assert_eq!((places.len(), &proxy.stats().await["faults"]), (25, &json!({ "partial": 1 })));
}

#[tokio::test]
async fn entries_that_are_refused_are_not_sent() {
    let each = |asked: &Asked| Json(json!({ "Successful": asked.json()["Entries"] }));
    let (upstream, url) = Upstream::start(each).await;
    let proxy = Proxy::start(&url, "sqs", &["--partial", "1"]);
    let entries: Vec<Value> = (0..10).map(|n| json!({ "Id": n.to_string() })).collect();
    let answer =
        proxy.call("SendMessageBatch", &json!({ "QueueUrl": "q", "Entries": entries })).await.unwrap();
    let answer: Value = answer.json().await.unwrap();
    let failed = answer["Failed"].as_array().unwrap();
    let sent = upstream.asked()[0].json()["Entries"].as_array().unwrap().len();
    assert_eq!((failed.len() + sent, &answer["Successful"]), (10, &upstream.asked()[0].json()["Entries"]));
    assert!(!failed.is_empty() && failed.iter().all(|entry| entry["SenderFault"] == false));
}

#[tokio::test]
async fn an_error_of_the_upstream_is_the_answer_to_the_whole_batch() {
    let refuse = |_: &Asked| (axum::http::StatusCode::BAD_REQUEST, r#"{"__type":"x#ValidationException"}"#);
    let (_upstream, url) = Upstream::start(refuse).await;
    let proxy = Proxy::start(&url, "dynamodb", &["--partial", "1"]);
    let request = json!({ "RequestItems": { "t": [{ "n": 1 }, { "n": 2 }] } });
    let answer = proxy.call("BatchWriteItem", &request).await.unwrap();
    assert_eq!(answer.status(), 400);
    assert_eq!(answer.json::<Value>().await.unwrap()["__type"], "x#ValidationException");
}
