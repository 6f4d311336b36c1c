//! Resources of its own for every rule, on servers that all of them share.

use async_trait::async_trait;
use aws_sdk_dynamodb::config::{Credentials, Region};
use conveyor_aws::{Clients, Settings, Timeouts};
use conveyor_aws_servers::{Combination, Environment};
use conveyor_domain::Entropy;
use conveyor_store::Backend;
use conveyor_store::conformance::Harness;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::time::Instant;

pub struct OnAws {
    pub clients: Clients,
    pub settings: Settings,
    backend: Backend,
}

/// The time that servers go by, counted from the first look.
pub fn real_time() -> Duration {
    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    BEGIN.elapsed()
}

static WORLDS: AtomicU64 = AtomicU64::new(0);

impl OnAws {
    pub async fn new(combination: Combination, task_shards_min: u32) -> OnAws {
        let environment =
            tokio::task::spawn_blocking(move || Environment::shared(combination)).await.unwrap().unwrap();
        let number = WORLDS.fetch_add(1, Ordering::SeqCst);
        let name = format!("conformance-{}-{number}", std::process::id());
        // Beside many others, on a machine that may be slow.
        let timeouts = Timeouts {
            attempt: Duration::from_secs(20),
            operation: Duration::from_secs(60),
            ..Timeouts::default()
        };
        let settings = Settings {
            task_shards_min,
            queue_empty_after: Duration::ZERO,
            timeouts,
            ..Settings::named(&name)
        };
        let clients = clients(&environment, &settings).await;
        conveyor_aws::provision_with(&clients, &settings).await.unwrap();
        OnAws::open(clients, settings)
    }

    fn open(clients: Clients, settings: Settings) -> OnAws {
        // Servers remember the tokens of transactions, and may be those of another test process a moment ago.
        let seed = u64::from(std::process::id()) << 32 | WORLDS.fetch_add(1, Ordering::SeqCst);
        let entropy = Arc::new(Entropy::from_number(seed));
        let backend = conveyor_aws::assemble(&clients, &settings, entropy);
        OnAws { clients, settings, backend }
    }
}

/// The clients that the roles have, but for whom they ask.
async fn clients(environment: &Environment, settings: &Settings) -> Clients {
    let Clients { dynamodb, sqs, s3 } = Clients::connect(settings).await;
    let credentials =
        || Credentials::new(Environment::ACCESS_KEY_ID, Environment::SECRET_ACCESS_KEY, None, None, "test");
    let region = || Region::new(Environment::REGION);
    macro_rules! at {
        ($client:expr, $sdk:ident, $url:expr) => {
            $sdk::Client::from_conf(
                $client
                    .config()
                    .to_builder()
                    .endpoint_url($url)
                    .credentials_provider(credentials())
                    .region(region())
                    .build(),
            )
        };
    }
    let s3 = aws_sdk_s3::Client::from_conf(
        at!(s3, aws_sdk_s3, &environment.s3_url).config().to_builder().force_path_style(true).build(),
    );
    Clients {
        dynamodb: at!(dynamodb, aws_sdk_dynamodb, &environment.dynamodb_url),
        sqs: at!(sqs, aws_sdk_sqs, &environment.sqs_url),
        s3,
    }
}

#[async_trait]
impl Harness for OnAws {
    fn backend(&self) -> Backend {
        self.backend.clone()
    }

    /// Everything is on the servers: another process finds it there, and shares nothing else with this one.
    async fn crash(&self) -> Box<dyn Harness> {
        Box::new(OnAws::open(self.clients.clone(), self.settings.clone()))
    }

    async fn wait(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn clock(&self) -> Option<Duration> {
        Some(real_time())
    }
}
