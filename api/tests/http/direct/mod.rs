//! The API where callers reach the storage by themselves (SPEC 6.9, On S3): the embedded store, and objects in S3.

mod parts;
mod results;
mod whole;

use crate::world::{World, config};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::{Credentials, Region};
use conveyor_api::ApiConfig;
use conveyor_aws::objects::{Objects, PART_MIN_BYTES, provision};
use conveyor_aws::{Clients, Settings};
use conveyor_aws_servers::{Environment, Kind, shared};
use conveyor_domain::Timestamp;
use conveyor_store::Backend;
use conveyor_store::port::{BlobKey, Capabilities};
use reqwest::{Response, StatusCode};
use serde_json::Value;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Makes one test a server of each function.
macro_rules! on_each_server {
    ($($test:ident),* $(,)?) => {
        mod localstack {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(super::super::OnS3::new(conveyor_aws_servers::Kind::LocalStack).await).await;
            })*
        }
        mod ministack {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(super::super::OnS3::new(conveyor_aws_servers::Kind::MiniStack).await).await;
            })*
        }
    };
}
use on_each_server;

/// A world whose objects are in a bucket of its own.
struct OnS3 {
    server: Kind,
    endpoint: String,
    bucket: String,
    s3: Client,
    world: World,
}

impl Deref for OnS3 {
    type Target = World;
    fn deref(&self) -> &World {
        &self.world
    }
}

static BUCKETS: AtomicU32 = AtomicU32::new(0);

impl OnS3 {
    async fn new(server: Kind) -> OnS3 {
        OnS3::with(server, config()).await
    }

    async fn with(server: Kind, config: ApiConfig) -> OnS3 {
        let endpoint = tokio::task::spawn_blocking(move || shared::url(server)).await.unwrap().unwrap();
        let number = BUCKETS.fetch_add(1, Ordering::SeqCst);
        let settings = Settings::named(&format!("api-{}-{number}", std::process::id()));
        let s3 = client(&settings, &endpoint).await;
        provision(&s3, &settings).await.unwrap();
        let blobs = Arc::new(Objects::new(s3.clone(), &settings));
        let metrics = Arc::new(String::new);
        let over = |embedded: Backend| Backend {
            blobs: blobs.clone(),
            direct: Some(blobs),
            capabilities: Capabilities { part_min_bytes: PART_MIN_BYTES, ..embedded.capabilities },
            ..embedded
        };
        let world = World::over(over, real_time(), config, metrics).await;
        OnS3 { server, endpoint, bucket: settings.bucket, s3, world }
    }

    /// Sends bytes as a target says, and as the batch client does it.
    async fn send(&self, target: &Value, bytes: impl Into<reqwest::Body>) -> Response {
        let url = target["url"].as_str().unwrap();
        assert!(url.starts_with(&self.endpoint), "{url} is not where the storage is");
        assert_eq!(target["method"], "PUT");
        let mut request = conveyor_outbound::client_builder().build().unwrap().put(url).body(bytes);
        for (name, value) in target["headers"].as_object().unwrap() {
            request = request.header(name, value.as_str().unwrap());
        }
        request.send().await.unwrap()
    }

    async fn sent(&self, target: &Value, bytes: impl Into<reqwest::Body>) {
        let answer = self.send(target, bytes).await;
        assert_eq!(answer.status(), StatusCode::OK, "{}", answer.text().await.unwrap());
    }

    async fn shown(&self, id: &str) -> Value {
        self.get(&format!("/v1/job_inputs/{id}")).await.json()
    }

    /// The objects of uploads.
    async fn keys(&self) -> Vec<String> {
        let list = self.s3.list_objects_v2().bucket(&self.bucket).prefix("uploads/").send().await.unwrap();
        list.contents().iter().map(|object| object.key().unwrap().to_owned()).collect()
    }

    /// Uploads in parts that were begun and neither completed nor aborted.
    async fn unfinished(&self) -> usize {
        let list = self.s3.list_multipart_uploads().bucket(&self.bucket);
        list.send().await.unwrap().uploads().len()
    }

    /// The URLs of a job's tasks.
    async fn urls(&self, job: impl std::fmt::Display) -> Vec<String> {
        let results = self.get(&format!("/v1/jobs/{job}/results?limit=1000")).await.json();
        let rows = results["results"].as_array().unwrap();
        rows.iter().map(|row| row["url"].as_str().unwrap().to_owned()).collect()
    }
}

async fn client(settings: &Settings, endpoint: &str) -> Client {
    let made = Clients::connect(settings).await.s3;
    let (id, secret) = (Environment::ACCESS_KEY_ID, Environment::SECRET_ACCESS_KEY);
    let credentials = Credentials::new(id, secret, None, None, "tests");
    let config = made.config().to_builder().endpoint_url(endpoint).region(Region::new(Environment::REGION));
    Client::from_conf(config.credentials_provider(credentials).force_path_style(true).build())
}

/// The server has a clock of its own, and it is the real one.
fn real_time() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "what is signed is judged by the server's clock")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp(i64::try_from(now.as_millis()).unwrap())
}

fn id_of(slot: &Value) -> &str {
    slot["file_input_id"].as_str().unwrap()
}

/// Where a caller's own bytes are.
fn sent_key(id: &str) -> BlobKey {
    BlobKey::sent(id.parse().unwrap())
}

fn lines(tag: &str, count: usize) -> String {
    (0..count).map(|n| format!("https://{tag}.example/{n}\n")).collect()
}
