//! The control endpoint: what it shows, and what it refuses.

use crate::proxy::support::{Proxy, Upstream};
use serde_json::{Value, json};

#[tokio::test]
async fn faults_are_shown_replaced_and_checked() {
    let (_upstream, url) = Upstream::start(|_| "{}").await;
    let proxy = Proxy::start(&url, "sqs", &["--throttle", "0.25", "--delay-ms", "1-2"]);
    let faults = proxy.control.join("/faults").unwrap();
    let shown =
        async || -> Value { proxy.client.get(faults.clone()).send().await.unwrap().json().await.unwrap() };
    let none = json!({
        "throttle": 0.0, "drop_requests": 0.0, "drop_answers": 0.0, "conflict": 0.0, "partial": 0.0,
        "delay_ms": [0, 0], "blocked": false,
    });
    let mut begun = none.clone();
    begun["throttle"] = json!(0.25);
    begun["delay_ms"] = json!([1, 2]);
    assert_eq!(shown().await, begun);
    let refused = [json!({ "throttle": 2 }), json!({ "conflict": 0.5 }), json!({ "unknown": 1 })];
    for bad in refused {
        let answer = proxy.client.put(faults.clone()).json(&bad).send().await.unwrap();
        assert!(answer.status().is_client_error(), "{bad}");
    }
    assert_eq!(shown().await, begun, "what was refused changed nothing");
    proxy.set_faults(json!({})).await;
    assert_eq!(shown().await, none);
    proxy.stop().await;
}
