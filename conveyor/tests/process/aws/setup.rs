//! What an operator sees before the table, queues and bucket are there.

use super::{Deployment, servers};
use crate::support::{self, Process, until};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_named_with_what_creates_it() {
    let environment = servers().await;
    let mut deployment = Deployment::bare("setup", &environment, &[]);
    let name = deployment.name.clone();
    let refused = support::run(deployment.role_command("api"));
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "it has a key to store: {why}");
    assert!(why.contains(&format!("the table {name} does not exist; `conveyor provision`")), "{why}");

    deployment.roles.push(("api", Process::start(deployment.keyless("api"))));
    let client = deployment.client();

    let (status, told) = client.get("/readyz").await;
    assert_eq!((status, &told["code"]), (503, &json!("unavailable")), "{told}");
    let detail = told["detail"].as_str().unwrap();
    for missing in [format!("table {name}"), format!("queue {name}-control"), format!("bucket {name}")] {
        assert!(detail.contains(&format!("the {missing} does not exist")), "{detail}");
    }
    assert!(detail.contains("conveyor provision"), "{detail}");

    let body = json!({"urls": ["https://example.com/"]});
    let (status, told) = client.post_json("/v1/jobs", &body).await;
    assert_eq!(status, 503, "{told}");
    let detail = told["detail"].as_str().unwrap();
    assert!(detail.contains("not set up") && !detail.contains("may or may not"), "{detail}");
    assert!(!detail.contains(&name), "callers need not know the names: {detail}");

    // One bad name: nothing is created.
    let clients = deployment.clients(&environment).await;
    for (variable, bad) in [("CONVEYOR_AWS_BUCKET", "Not_A_Bucket"), ("CONVEYOR_AWS_TABLE", "t!")] {
        let mut provision = deployment.command("provision");
        provision.env(variable, bad);
        let refused = support::run(provision);
        let why = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && why.contains(bad), "{why}");
    }
    assert!(clients.dynamodb.describe_table().table_name(&name).send().await.is_err(), "nothing was created");
    assert!(clients.sqs.get_queue_url().queue_name(format!("{name}-control")).send().await.is_err());
    assert!(clients.s3.head_bucket().bucket(&name).send().await.is_err());

    deployment.provision();
    until("the API is ready", async || client.get("/readyz").await.0 == 200).await;
}
