//! What an operator relies on.

use crate::support::{self, Client};
use tempfile::TempDir;

#[tokio::test]
async fn more_attempts_than_claims_is_not_abandonment() {
    let (gateway, dir) = (support::scripted_gateway(&[]), TempDir::new().unwrap());
    let flags = [
        "--gateway-url",
        &gateway.url,
        "--attempts-max",
        "25",
        "--retry-base-ms",
        "1",
        "--retry-cap-ms",
        "1",
    ];
    let server = support::server(dir.path(), &flags);
    let client = Client::new(&server);
    let job = client.submit(&["https://example.com/status/503".to_owned()]).await;
    client.wait_for(&job, &["completed"]).await;
    let result = &client.results(&job).await[0];
    assert_eq!(result["error"]["status"], 503, "{result}");
    let task = result["task_id"].as_str().unwrap();
    let (_, history) = client.get(&format!("/v1/jobs/{job}/tasks/{task}/history")).await;
    assert_eq!(history["events"].as_array().unwrap().len(), 25);
}
