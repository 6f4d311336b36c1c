//! Refusals in the form of each service, and the seed that repeats them.

use crate::proxy::support::{Proxy, Upstream};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const CALLS: usize = 40;

#[tokio::test]
async fn dynamodb_names_two_kinds_and_passes_none_on() {
    let (upstream, url) = Upstream::start(|_| "{}").await;
    let proxy = Proxy::start(&url, "dynamodb", &["--throttle", "1"]);
    let mut kinds = BTreeSet::new();
    for _ in 0..CALLS {
        let answer = proxy.call("PutItem", &json!({})).await.unwrap();
        assert_eq!(answer.status(), 400);
        assert_eq!(answer.headers()["content-type"], "application/x-amz-json-1.0");
        kinds.insert(answer.json::<Value>().await.unwrap()["__type"].as_str().unwrap().to_owned());
    }
    let expected = [
        "com.amazon.coral.availability#ThrottlingException",
        "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
    ];
    assert_eq!(kinds, expected.map(str::to_owned).into());
    assert!(upstream.asked().is_empty());
    assert_eq!(proxy.stats().await["faults"], json!({ "throttle": CALLS }));
}

#[tokio::test]
async fn sqs_says_it_in_a_header_too_and_s3_in_xml() {
    let (_upstream, url) = Upstream::start(|_| "{}").await;
    let sqs = Proxy::start(&url, "sqs", &["--throttle", "1"]);
    let mut statuses = BTreeSet::new();
    for _ in 0..CALLS {
        let answer = sqs.call("SendMessageBatch", &json!({})).await.unwrap();
        assert_eq!(answer.headers()["x-amzn-query-error"], "RequestThrottled;Sender");
        statuses.insert(answer.status().as_u16());
        assert_eq!(answer.json::<Value>().await.unwrap()["__type"], "com.amazonaws.sqs#RequestThrottled");
    }
    assert_eq!(statuses, [400, 403].into());

    let s3 = Proxy::start(&url, "s3", &["--throttle", "1"]);
    let object = s3.url.join("/b/k").unwrap();
    let put = s3.client.put(object.clone()).body(vec![0; 3_000_000]).send().await.unwrap();
    assert_eq!(put.status(), 503);
    assert!(put.text().await.unwrap().contains("<Code>SlowDown</Code>"));
    assert_eq!(s3.client.head(object).send().await.unwrap().status(), 503);
}

#[tokio::test]
async fn a_seed_repeats_the_luck() {
    let (_upstream, url) = Upstream::start(|_| "{}").await;
    let mut runs = Vec::new();
    for seed in ["5", "5", "6"] {
        // Another fault must not shift who is throttled.
        let delay = if runs.is_empty() { "0" } else { "0-2" };
        let flags = ["--throttle", "0.5", "--seed", seed, "--delay-ms", delay];
        let proxy = Proxy::start(&url, "dynamodb", &flags);
        let mut seen = Vec::new();
        for _ in 0..CALLS {
            seen.push(proxy.call("GetItem", &json!({})).await.unwrap().status().as_u16());
        }
        let throttled = seen.iter().filter(|status| **status == 400).count();
        assert!((5..35).contains(&throttled), "{seen:?}");
        assert_eq!(proxy.stats().await["faults"]["throttle"], throttled);
        runs.push(seen);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}
