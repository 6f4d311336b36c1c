use crate::on_aws::real_time;
use async_trait::async_trait;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{Builder, Credentials, Region};
use aws_sdk_sqs::types::QueueAttributeName;
use conveyor_aws::queue::{Queues, provision};
use conveyor_aws::{Clients, Settings};
use conveyor_aws_servers::{Environment, Kind, shared};
use conveyor_domain::{Entropy, QueueName, RunId, Timestamp};
use conveyor_store::Backend;
use conveyor_store::conformance::Harness;
use conveyor_store::embedded::Embedded;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;

pub const NOW: Timestamp = Timestamp(1_800_000_000_000);

static WORLDS: AtomicU32 = AtomicU32::new(0);

pub fn settings() -> Settings {
    let number = WORLDS.fetch_add(1, Ordering::SeqCst);
    Settings::named(&format!("queue-{}-{number}", std::process::id()))
}

/// The client that a process would have, but for where it goes.
pub async fn client(settings: &Settings, towards: impl FnOnce(Builder) -> Builder) -> Client {
    let (id, secret) = (Environment::ACCESS_KEY_ID, Environment::SECRET_ACCESS_KEY);
    let known = Clients::connect(settings).await.sqs.config().to_builder();
    let known = known.credentials_provider(Credentials::new(id, secret, None, None, "tests"));
    Client::from_conf(towards(known.region(Region::new(Environment::REGION))).build())
}

/// Queues of its own on a server, and the embedded store for everything else.
pub struct OnSqs {
    pub sqs: Client,
    pub settings: Settings,
    rest: Backend,
    _dir: Arc<TempDir>,
}

impl OnSqs {
    /// Before anybody has provisioned anything.
    pub async fn new(kind: Kind) -> OnSqs {
        let url = tokio::task::spawn_blocking(move || shared::url(kind)).await.unwrap().unwrap();
        let settings = settings();
        let sqs = client(&settings, |config| config.endpoint_url(url)).await;
        let dir = TempDir::new().unwrap();
        let rest = Embedded::open(dir.path(), NOW).unwrap().backend();
        OnSqs { sqs, settings, rest, _dir: Arc::new(dir) }
    }

    pub async fn provisioned(kind: Kind) -> OnSqs {
        let world = OnSqs::new(kind).await;
        assert!(provision(&world.sqs, &world.settings).await.unwrap());
        world
    }

    /// As another process has them, which knows nothing of what this one knows.
    pub fn queues(&self) -> Queues {
        Queues::new(self.sqs.clone(), &self.settings)
    }

    pub fn name(&self, queue: QueueName) -> String {
        format!("{}-{queue}", self.settings.queue_prefix)
    }

    pub async fn url(&self, queue: QueueName) -> String {
        let found = self.sqs.get_queue_url().queue_name(self.name(queue)).send().await.unwrap();
        found.queue_url.unwrap()
    }

    pub async fn attributes(&self, queue: QueueName) -> HashMap<QueueAttributeName, String> {
        let look = self.sqs.get_queue_attributes().queue_url(self.url(queue).await);
        look.attribute_names(QueueAttributeName::All).send().await.unwrap().attributes.unwrap()
    }
}

pub fn run_queue() -> QueueName {
    let number = u64::from(WORLDS.fetch_add(1, Ordering::SeqCst));
    QueueName::Run(RunId::new(NOW, &Entropy::from_number(number)))
}

#[async_trait]
impl Harness for OnSqs {
    fn backend(&self) -> Backend {
        let queues = Arc::new(self.queues());
        Backend { changed: queues.changes(), queue: queues, ..self.rest.clone() }
    }

    /// Nothing is kept here but where the queues are.
    async fn crash(&self) -> Box<dyn Harness> {
        let (sqs, settings) = (self.sqs.clone(), self.settings.clone());
        Box::new(OnSqs { sqs, settings, rest: self.rest.clone(), _dir: self._dir.clone() })
    }

    async fn wait(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn clock(&self) -> Option<Duration> {
        Some(real_time())
    }
}
