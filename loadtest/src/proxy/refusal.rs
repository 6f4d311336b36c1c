//! Errors in the form in which each service sends them: the SDKs decide by status and code what is tried again.

use super::service::Service;
use axum::body::Body;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use fastrand::Rng;
use serde_json::{Value, json};

const JSON: &str = "application/x-amz-json-1.0";
const DYNAMODB: &str = "com.amazonaws.dynamodb.v20120810";
/// What every service of Amazon says before the call reaches its own code.
const AVAILABILITY: &str = "com.amazon.coral.availability";
/// So that a log tells an injected error from a real one.
const REQUEST_ID: &str = "INJECTED-BY-LOADTEST-PROXY";

/// Too many requests.
pub fn throttled(service: Service, method: &Method, chance: &mut Rng) -> Response {
    match service {
        Service::DynamoDb => match chance.u64(..=1) {
            0 => error(
                400,
                &format!("{DYNAMODB}#ProvisionedThroughputExceededException"),
                "Throughput exceeds the current capacity of your table or index.",
            ),
            _ => error(
                400,
                &format!("{AVAILABILITY}#ThrottlingException"),
                "Rate of requests exceeds the allowed throughput.",
            ),
        },
        // The model says 403, the manual 400.
        Service::Sqs => {
            let status = if chance.u64(..=1) == 0 { 400 } else { 403 };
            let mut answer = error(
                status,
                "com.amazonaws.sqs#RequestThrottled",
                "The request was denied due to request throttling.",
            );
            let code = header::HeaderValue::from_static("RequestThrottled;Sender");
            answer.headers_mut().insert("x-amzn-query-error", code);
            answer
        }
        Service::S3 => slow_down(method),
    }
}

/// A transaction that met another one at one of its items.
pub fn conflict(items: usize, chance: &mut Rng) -> Response {
    let met = chance.u64(..=items.saturating_sub(1) as u64) as usize;
    let reasons: Vec<Value> = (0..items)
        .map(|item| match item == met {
            true => {
                json!({ "Code": "TransactionConflict", "Message": "Transaction is ongoing for the item" })
            }
            false => json!({ "Code": "None" }),
        })
        .collect();
    let codes: Vec<&str> = reasons.iter().filter_map(|reason| reason["Code"].as_str()).collect();
    let message = format!(
        "Transaction cancelled, please refer cancellation reasons for specific reasons [{}]",
        codes.join(", ")
    );
    let body = json!({
        "__type": format!("{DYNAMODB}#TransactionCanceledException"), "Message": message,
        "CancellationReasons": reasons,
    });
    answer(400, JSON, Body::from(body.to_string()))
}

/// An answer of a JSON service that went well.
pub fn success(body: &Value) -> Response {
    answer(200, JSON, Body::from(body.to_string()))
}

fn error(status: u16, kind: &str, message: &str) -> Response {
    let body = json!({ "__type": kind, "message": message });
    answer(status, JSON, Body::from(body.to_string()))
}

fn slow_down(method: &Method) -> Response {
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>SlowDown</Code>\
         <Message>Please reduce your request rate.</Message><RequestId>{REQUEST_ID}</RequestId></Error>"
    );
    let body = if method == Method::HEAD { Body::empty() } else { Body::from(body) };
    answer(503, "application/xml", body)
}

fn answer(status: u16, kind: &'static str, body: Body) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(header::CONTENT_TYPE.as_str(), kind), ("x-amzn-requestid", REQUEST_ID)], body).into_response()
}
