use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::{Credentials, Region};
use conveyor_aws::objects::{Objects, provision};
use conveyor_aws::{Clients, Settings};
use conveyor_aws_servers::{Environment, Kind, shared};
use conveyor_domain::Timestamp;
use conveyor_store::Backend;
use conveyor_store::conformance::Harness;
use conveyor_store::embedded::Embedded;
use conveyor_store::port::BlobKey;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

/// A bucket of its own on a server, and the embedded store for everything else.
#[derive(Clone)]
pub struct World {
    pub endpoint: String,
    pub s3: Client,
    pub objects: Arc<Objects>,
    pub settings: Settings,
    rest: Backend,
    _dir: Arc<TempDir>,
}

static BUCKETS: AtomicU32 = AtomicU32::new(0);

impl World {
    pub async fn on(server: Kind) -> World {
        let endpoint = tokio::task::spawn_blocking(move || shared::url(server)).await.unwrap().unwrap();
        let number = BUCKETS.fetch_add(1, Ordering::SeqCst);
        let settings = Settings::named(&format!("objects-{}-{number}", std::process::id()));
        let s3 = client(&settings, &endpoint).await;
        assert!(provision(&s3, &settings).await.unwrap());
        let dir = TempDir::new().unwrap();
        let rest = Embedded::open(dir.path(), Timestamp(1_800_000_000_000)).unwrap().backend();
        let objects = Arc::new(Objects::new(s3.clone(), &settings));
        World { endpoint, s3, objects, settings, rest, _dir: Arc::new(dir) }
    }

    /// The same bucket by another address.
    pub async fn by(&self, endpoint: &str) -> Objects {
        Objects::new(client(&self.settings, endpoint).await, &self.settings)
    }

    /// Uploads in parts that were begun and neither completed nor aborted.
    pub async fn unfinished(&self) -> usize {
        let list = self.s3.list_multipart_uploads().bucket(&self.settings.bucket);
        list.send().await.unwrap().uploads().len()
    }

    pub async fn keys(&self) -> Vec<String> {
        let list = self.s3.list_objects_v2().bucket(&self.settings.bucket).send().await.unwrap();
        list.contents().iter().map(|object| object.key().unwrap().to_owned()).collect()
    }
}

/// The client of production, on another server.
pub async fn client(settings: &Settings, endpoint: &str) -> Client {
    let made = Clients::connect(settings).await.s3;
    let (id, secret) = (Environment::ACCESS_KEY_ID, Environment::SECRET_ACCESS_KEY);
    let credentials = Credentials::new(id, secret, None, None, "tests");
    // Not the one region whose buckets are made differently.
    let config = made.config().to_builder().endpoint_url(endpoint).region(Region::new("eu-west-1"));
    Client::from_conf(config.credentials_provider(credentials).force_path_style(true).build())
}

#[async_trait]
impl Harness for World {
    fn backend(&self) -> Backend {
        Backend { blobs: self.objects.clone(), direct: Some(self.objects.clone()), ..self.rest.clone() }
    }

    /// A process keeps nothing of objects: another one with another client finds the same bucket.
    async fn crash(&self) -> Box<dyn Harness> {
        let objects = Arc::new(self.by(&self.endpoint).await);
        Box::new(World { objects, ..self.clone() })
    }
}

pub fn key(text: &str) -> BlobKey {
    text.parse().unwrap()
}
