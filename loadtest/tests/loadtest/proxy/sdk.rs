//! The SDK itself before the proxy: it must take every refusal for what it is meant to be.

use crate::proxy::support::{Asked, Proxy, Upstream};
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
use aws_sdk_dynamodb::types::{BatchStatementErrorCodeEnum, BatchStatementRequest};
use aws_sdk_s3::config::SharedHttpClient;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use axum::Json;
use serde_json::{Value, json};
use std::time::Duration;

const ATTEMPTS: u32 = 4;

pub fn retries() -> RetryConfig {
    RetryConfig::standard()
        .with_max_attempts(ATTEMPTS)
        .with_initial_backoff(Duration::from_millis(1))
        .with_max_backoff(Duration::from_millis(2))
}

/// The SDK comes without an HTTP client: the product brings its own.
pub fn http() -> SharedHttpClient {
    Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https()
}

/// The three clients differ in their types only.
macro_rules! client {
    ($sdk:ident, $proxy:expr) => {
        $sdk::Client::from_conf(
            $sdk::Config::builder()
                .behavior_version($sdk::config::BehaviorVersion::latest())
                .region($sdk::config::Region::new("us-east-1"))
                .credentials_provider($sdk::config::Credentials::new("test", "test", None, None, "test"))
                .endpoint_url($proxy.url.as_str())
                .http_client($crate::proxy::sdk::http())
                .retry_config($crate::proxy::sdk::retries())
                .build(),
        )
    };
}
pub(crate) use client;

async fn proxy(service: &str, flags: &[&str]) -> Proxy {
    let each = |asked: &Asked| {
        let body: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
        let responses: Vec<Value> =
            body["Statements"].as_array().into_iter().flatten().map(|_| json!({})).collect();
        Json(json!({ "Responses": responses }))
    };
    Proxy::start(&Upstream::start(each).await.1, service, flags)
}

/// A 400 or 403 is tried again only if its code is one of those for throttling.
#[tokio::test]
async fn throttling_is_recognised_and_tried_again() {
    let dynamodb = proxy("dynamodb", &["--throttle", "1"]).await;
    let mut codes = Vec::new();
    for _ in 0..10 {
        let error = client!(aws_sdk_dynamodb, dynamodb).list_tables().send().await.unwrap_err();
        codes.push(error.into_service_error().code().unwrap().to_owned());
    }
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes, ["ProvisionedThroughputExceededException", "ThrottlingException"]);
    assert_eq!(dynamodb.stats().await["calls"], json!({ "ListTables": 10 * ATTEMPTS }));

    let sqs = proxy("sqs", &["--throttle", "1"]).await;
    for _ in 0..5 {
        let call =
            client!(aws_sdk_sqs, sqs).delete_message().queue_url("http://q.example/q").receipt_handle("r");
        let error = call.send().await.unwrap_err().into_service_error();
        assert!(error.is_request_throttled(), "{error:?}");
    }
    assert_eq!(sqs.stats().await["calls"], json!({ "DeleteMessage": 5 * ATTEMPTS }));

    let s3 = proxy("s3", &["--throttle", "1"]).await;
    let client = aws_sdk_s3::Client::from_conf(
        client!(aws_sdk_s3, s3).config().to_builder().force_path_style(true).build(),
    );
    let error = client.get_object().bucket("b").key("k").send().await.unwrap_err();
    assert_eq!(error.into_service_error().code(), Some("SlowDown"));
    assert_eq!(s3.stats().await["calls"], json!({ "GetObject": ATTEMPTS }));
}

#[tokio::test]
async fn a_lost_request_or_answer_is_tried_again() {
    for (fault, kind) in [("--drop-requests", "drop_requests"), ("--drop-answers", "drop_answers")] {
        let proxy = proxy("dynamodb", &[fault, "1"]).await;
        let error = client!(aws_sdk_dynamodb, proxy).list_tables().send().await.unwrap_err();
        assert!(error.as_service_error().is_none(), "{error:?}");
        assert_eq!(proxy.stats().await["faults"], json!({ kind: ATTEMPTS }));
    }
}

#[tokio::test]
async fn a_conflict_is_a_cancelled_transaction_and_the_callers_business() {
    let proxy = proxy("dynamodb", &["--conflict", "1"]).await;
    let put = Put::builder().table_name("t").item("k", AttributeValue::S("v".to_owned())).build().unwrap();
    let item = TransactWriteItem::builder().put(put).build();
    let call =
        client!(aws_sdk_dynamodb, proxy).transact_write_items().set_transact_items(Some(vec![item; 3]));
    let error = call.send().await.unwrap_err().into_service_error();
    let aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError::TransactionCanceledException(
        cancelled,
    ) = error
    else {
        panic!("{error:?}");
    };
    let mut codes: Vec<_> =
        cancelled.cancellation_reasons().iter().filter_map(|reason| reason.code()).collect();
    codes.sort_unstable();
    assert_eq!(codes, ["None", "None", "TransactionConflict"]);
    assert_eq!(proxy.stats().await["calls"], json!({ "TransactWriteItems": 1 }));
}

#[tokio::test]
async fn refused_statements_have_codes_that_the_sdk_knows() {
    let proxy = proxy("dynamodb", &["--partial", "1"]).await;
    let statement = BatchStatementRequest::builder().statement("INSERT").build().unwrap();
    let call = client!(aws_sdk_dynamodb, proxy).batch_execute_statement();
    let answer = call.set_statements(Some(vec![statement; 25])).send().await.unwrap();
    let codes: Vec<_> = answer.responses().iter().filter_map(|each| each.error()?.code()).collect();
    assert!(answer.responses().len() == 25 && (1..25).contains(&codes.len()));
    assert!(codes.iter().all(|code| matches!(
        code,
        BatchStatementErrorCodeEnum::ThrottlingError
            | BatchStatementErrorCodeEnum::ProvisionedThroughputExceeded
    )));
}
