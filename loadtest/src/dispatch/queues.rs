//! A look into the queues of an SQS server of ours, past Conveyor.

use anyhow::{Context, ensure};
use reqwest::Client;
use serde_json::{Value, json};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);
/// Which service is asked is read from here; who asks is not checked.
const AUTHORIZATION: &str = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/sqs/aws4_request, SignedHeaders=host, \
                             Signature=0";
const COUNTS: [&str; 2] = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"];

/// Messages in all queues whose name says that they are for dead letters. There has to be such a queue.
pub async fn dead_letters(sqs_url: &str) -> anyhow::Result<u64> {
    let client = conveyor_outbound::client_builder().no_proxy().timeout(TIMEOUT).build()?;
    let listed = ask(&client, sqs_url, "ListQueues", &json!({})).await?;
    let urls = listed["QueueUrls"].as_array().map(Vec::as_slice).unwrap_or_default();
    let dead: Vec<&str> =
        urls.iter().filter_map(Value::as_str).filter(|url| url.ends_with("-dead")).collect();
    ensure!(!dead.is_empty(), "there is no queue for dead letters: {listed}");
    let mut messages = 0;
    for url in dead {
        let question = json!({ "QueueUrl": url, "AttributeNames": COUNTS });
        let answer = ask(&client, sqs_url, "GetQueueAttributes", &question).await?;
        for count in COUNTS {
            let count = answer["Attributes"][count].as_str().and_then(|count| count.parse::<u64>().ok());
            messages += count.with_context(|| format!("{url} does not tell its messages: {answer}"))?;
        }
    }
    Ok(messages)
}

async fn ask(client: &Client, sqs_url: &str, operation: &str, question: &Value) -> anyhow::Result<Value> {
    let request = client
        .post(sqs_url)
        .header("Authorization", AUTHORIZATION)
        .header("X-Amz-Date", "20260101T000000Z")
        .header("X-Amz-Target", format!("AmazonSQS.{operation}"))
        .header("Content-Type", "application/x-amz-json-1.0")
        .body(question.to_string());
    let answer = request.send().await.and_then(reqwest::Response::error_for_status);
    let answer = answer.with_context(|| format!("{operation} failed"))?;
    serde_json::from_slice(&answer.bytes().await?).with_context(|| format!("{operation} answered no JSON"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderMap;
    use axum::{Json, Router};
    use tokio::net::TcpListener;

    /// Answers as SQS does; every queue has two messages, and a third that is hidden.
    async fn serve(names: &'static [&'static str]) -> String {
        let answer = async move |headers: HeaderMap, body: String| {
            let question: Value = serde_json::from_str(&body).unwrap();
            Json(match headers["x-amz-target"].to_str().unwrap() {
                "AmazonSQS.ListQueues" if names.is_empty() => json!({}),
                "AmazonSQS.ListQueues" => json!({ "QueueUrls": names }),
                _ => {
                    assert!(question["QueueUrl"].as_str().unwrap().ends_with("-dead"));
                    json!({ "Attributes": { COUNTS[0]: "2", COUNTS[1]: "1" } })
                }
            })
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
        url
    }

    #[tokio::test]
    async fn only_queues_of_dead_letters_count_and_one_is_expected() {
        let url = serve(&["http://q/c-control", "http://q/c-control-dead", "http://q/c-run-1"]).await;
        assert_eq!(dead_letters(&url).await.unwrap(), 3);
        for names in [&[][..], &["http://q/c-control"]] {
            let error = dead_letters(&serve(names).await).await.unwrap_err().to_string();
            assert!(error.contains("no queue for dead letters"), "{error}");
        }
    }
}
