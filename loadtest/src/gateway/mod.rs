//! `loadtest gateway`: a real HTTP gateway (SPEC 9) whose answers are scripted by the target URLs.

mod answer;
mod behaviour;
mod record;
mod stats;

use crate::history::History;
use crate::process::stop_signal;
use anyhow::{Context, ensure};
use axum::Router;
use axum::routing::{get, post};
use clap::Args;
use fastrand::Rng;
use record::Log;
use stats::{Counts, Stats};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Serve a gateway whose answers are scripted by the target URLs
///
/// The first line on stdout says where it listens. Every GET or POST with a `url` parameter
/// is a call; the path of that URL says what it answers:
///
///   /status/404              that status, as a problem
///   /status/429?retry_after=1   the same, with a Retry-After
///   /flaky/2                 503 for the first 2 calls of this URL, then a page
///   /slow/500                a page, after 500 ms
///   /size/70000              a page of that many bytes
///   /account/credits         402, the account has no credit
///   /account/cap             402, the key has reached its cap
///   /account/subscription    401, the subscription has ended
///   /hang                    no answer at all
///   anything else            a page of --body-bytes
///
/// GET /_stats counts calls, the most in flight at once, and URLs that were called more
/// than once. POST /_reset forgets them. With --record it also keeps when each of the first
/// million calls began and ended: GET /_log has `arrivals_us`, `hosts` with the same by the
/// host of the target, and `changes`, which are pairs of
/// a time in microseconds and what was in flight from then on; GET /_stats has the average,
/// since the first call or of ?from_us=1000000&to_us=2000000.
#[derive(Clone, Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Settings {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// How long each answer takes
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub latency_ms: u64,
    /// A random addition to the latency, at most this
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub jitter_ms: u64,
    /// The share of calls that fail by chance, 0 to 1
    #[arg(long, value_name = "RATIO", default_value_t = 0.0)]
    pub fail_ratio: f64,
    /// The status of those failures
    #[arg(long, value_name = "STATUS", default_value_t = 503, value_parser = clap::value_parser!(u16).range(400..=599))]
    pub fail_status: u16,
    /// The size of a page
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    pub body_bytes: usize,
    /// Decides every random choice; calls that arrive in the same order meet the same luck
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Keep when each call began and ended
    #[arg(long)]
    pub record: bool,
    /// Say that each call costs this, in X-Request-Cost
    #[arg(long, value_name = "COST")]
    pub cost: Option<String>,
}

impl Settings {
    /// Pages after so long, and a record of the calls.
    pub fn recording(latency_ms: u64) -> Settings {
        Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            latency_ms,
            jitter_ms: 0,
            fail_ratio: 0.0,
            fail_status: 503,
            body_bytes: 1024,
            seed: 1,
            record: true,
            cost: None,
        }
    }
}

/// What all calls share.
#[derive(Debug)]
struct Shared {
    settings: Settings,
    stats: Stats,
    chance: Mutex<Rng>,
}

pub async fn run(settings: Settings) -> anyhow::Result<()> {
    ensure!((0.0..=1.0).contains(&settings.fail_ratio), "--fail-ratio is a number from 0 to 1");
    ensure!(settings.body_bytes <= behaviour::SIZE_MAX, "--body-bytes is at most {}", behaviour::SIZE_MAX);
    let listener = TcpListener::bind(settings.listen)
        .await
        .with_context(|| format!("cannot listen on {}", settings.listen))?;
    println!("listening on http://{}", listener.local_addr()?);
    // Calls that hang would hold a graceful shutdown up for ever; this one just ends.
    tokio::select! {
        served = axum::serve(listener, router(Shared::new(settings))) => served.context("the server stopped"),
        signal = stop_signal() => signal,
    }
}

/// A gateway inside this process that keeps every call waiting. It ends with the process.
pub async fn serve_silence() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen on 127.0.0.1")?;
    let address = listener.local_addr()?;
    let silence = Router::new().fallback(async || std::future::pending::<()>().await);
    tokio::spawn(async move { axum::serve(listener, silence).await });
    Ok(address)
}

/// A gateway inside this process, until it is dropped.
#[derive(Debug)]
pub struct Serving {
    pub url: String,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

impl Serving {
    pub async fn start(settings: Settings) -> anyhow::Result<Serving> {
        let listener = TcpListener::bind(settings.listen).await.context("the gateway cannot listen")?;
        let url = format!("http://{}", listener.local_addr()?);
        let shared = Shared::new(settings);
        let router = router(shared.clone());
        let serving = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                eprintln!("the gateway stopped: {error}");
            }
        });
        Ok(Serving { url, shared, serving })
    }

    pub fn counts(&self) -> Counts {
        self.shared.stats.counts()
    }

    /// All that happened so far, and the time. A record with holes proves nothing, and is an error.
    pub fn history(&self) -> anyhow::Result<(History, u64)> {
        let log = self.log()?;
        Ok((History::new(log.changes), log.now_us))
    }

    /// When the calls of each host began, in microseconds. A record with holes is an error.
    pub fn arrivals_by_host(&self) -> anyhow::Result<BTreeMap<String, Vec<u64>>> {
        Ok(self.log()?.hosts)
    }

    fn log(&self) -> anyhow::Result<Log> {
        let log = self.shared.stats.log().context("this gateway does not record")?;
        ensure!(log.unrecorded == 0, "the gateway had more calls than it records");
        Ok(log)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/_stats", get(answer::stats))
        .route("/_log", get(answer::log))
        .route("/_reset", post(answer::reset))
        .fallback(answer::call)
        .with_state(shared)
}

impl Shared {
    fn new(settings: Settings) -> Arc<Shared> {
        let chance = Mutex::new(Rng::with_seed(settings.seed));
        let stats = if settings.record { Stats::recording() } else { Stats::default() };
        Arc::new(Shared { settings, stats, chance })
    }

    /// How long this call takes, and whether it fails by chance. Both are drawn every time, so that turning one knob
    /// does not shift the luck of the other.
    fn draw(&self) -> (Duration, bool) {
        let mut chance = self.chance.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let jitter_ms = chance.u64(..=self.settings.jitter_ms);
        let fails = chance.f64() < self.settings.fail_ratio;
        (Duration::from_millis(self.settings.latency_ms.saturating_add(jitter_ms)), fails)
    }
}
