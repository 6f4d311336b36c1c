//! `loadtest proxy`: an HTTP proxy before an AWS-compatible server, which misbehaves as AWS or a network can.
//!
//! The servers that run on one machine never throttle, never see two transactions meet, and never lose an answer.

mod call;
mod faults;
mod partial;
mod refusal;
mod service;
mod stats;

use crate::process::stop_signal;
use anyhow::{Context, ensure};
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::uri::Authority;
use axum::routing::get;
use axum::{Json, Router};
use clap::Args;
use fastrand::Rng;
use faults::{Faults, Luck};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use service::Service;
use stats::{Counts, Fault, Stats};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tower::service_fn;
use url::Url;

/// More than all roles of a test open together.
const CONNECTIONS_MAX: usize = 4096;
/// Shorter than servers keep idle connections: one that they close just then would fail a call that was not meant to.
const IDLE_MAX: Duration = Duration::from_secs(2);
/// What to wait after the system had no socket for us.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Stand between Conveyor and an AWS-compatible server, and misbehave like AWS or a network
///
/// Point AWS_ENDPOINT_URL_DYNAMODB (_SQS, _S3) at it. Requests are passed on byte for byte,
/// with their Host, so that signatures and presigned URLs hold; bodies are streamed. Shares
/// are of the calls, 0 to 1, and drawn from --seed: calls that arrive in the same order meet
/// the same luck.
///
/// stdout says `listening on <URL>`, and with --control `control on <URL>`. There, GET /stats
/// counts calls by operation and faults by kind, GET /faults shows the faults, and PUT /faults
/// replaces them while it runs:
///
///   {"throttle": 0.3, "drop_requests": 0.05, "drop_answers": 0.05, "conflict": 0.1,
///    "partial": 0.1, "delay_ms": [0, 200], "blocked": false, "only": "Job#01M7..."}
///
/// What is left out of it does not happen. With `only`, faults befall calls whose body has that
/// text, and no others. As long as `blocked` is true, connections are
/// accepted and nothing is answered; calls that have waited go on afterwards. It runs until
/// SIGTERM or Ctrl-C.
#[derive(Clone, Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Settings {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The server that does the work, over plain HTTP
    #[arg(long, value_name = "URL")]
    upstream: Url,
    /// Whose calls these are: it decides what errors look like
    #[arg(long, value_name = "SERVICE")]
    service: Service,
    /// Address of the control endpoint; none without it
    #[arg(long, value_name = "ADDRESS")]
    control: Option<SocketAddr>,
    #[command(flatten)]
    faults: Faults,
    /// Decides every random choice
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
}

/// What all calls share.
#[derive(Debug)]
struct Proxy {
    service: Service,
    upstream: Authority,
    client: Client<HttpConnector, Body>,
    faults: watch::Sender<Faults>,
    chance: Mutex<Rng>,
    stats: Stats,
}

pub async fn run(settings: Settings) -> anyhow::Result<()> {
    let Settings { service, upstream, faults, seed, .. } = settings;
    let proxy = Arc::new(Proxy::new(service, &upstream, faults, seed)?);
    let calls = listen(settings.listen).await?;
    let control = match settings.control {
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    println!("listening on http://{}", calls.local_addr()?);
    if let Some(control) = &control {
        println!("control on http://{}", control.local_addr()?);
    }
    let controlled = async {
        match control {
            Some(listener) => axum::serve(listener, control_of(proxy.clone())).await,
            None => std::future::pending().await,
        }
    };
    // Calls that are held back would hold a graceful shutdown up; this one just ends.
    tokio::select! {
        () = serve(calls, proxy.clone()) => Ok(()),
        served = controlled => served.context("the control endpoint stopped"),
        signal = stop_signal() => signal,
    }
}

/// The proxy's own HTTP: faults are changed and counts are read while it runs.
fn control_of(proxy: Arc<Proxy>) -> Router {
    Router::new()
        .route("/faults", get(show_faults).put(set_faults))
        .route("/stats", get(show_stats))
        .with_state(proxy)
}

async fn show_faults(State(proxy): State<Arc<Proxy>>) -> Json<Faults> {
    Json(proxy.faults.borrow().clone())
}

/// All of them at once: what is left out does not happen any more.
async fn set_faults(
    State(proxy): State<Arc<Proxy>>,
    Json(faults): Json<Faults>,
) -> Result<Json<Faults>, (StatusCode, String)> {
    faults.check(proxy.service).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
    proxy.faults.send_replace(faults.clone());
    Ok(Json(faults))
}

async fn show_stats(State(proxy): State<Arc<Proxy>>) -> Json<Counts> {
    Json(proxy.stats.counts())
}

/// A proxy in this process, for as long as this is kept.
#[derive(Debug)]
pub struct Serving {
    pub url: String,
    proxy: Arc<Proxy>,
    calls: JoinHandle<()>,
}

impl Serving {
    /// In front of a DynamoDB, without a fault.
    pub async fn start(dynamodb_url: &str) -> anyhow::Result<Serving> {
        let upstream = Url::parse(dynamodb_url)?;
        let proxy = Arc::new(Proxy::new(Service::DynamoDb, &upstream, Faults::default(), 1)?);
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let calls = tokio::spawn(serve(listener, proxy.clone()));
        Ok(Serving { url, proxy, calls })
    }

    /// Throttles this share of the calls that name something.
    pub fn throttle(&self, share: f64, only: &str) {
        let faults = Faults { throttle: share, only: Some(only.to_owned()), ..Faults::default() };
        self.proxy.faults.send_replace(faults);
    }

    pub fn throttled(&self) -> u64 {
        self.proxy.stats.counts().faults.get(&Fault::Throttle).copied().unwrap_or(0)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.calls.abort();
    }
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))
}

/// Serves connections for ever. `axum::serve` cannot end one without an answer, so the loop is ours.
async fn serve(listener: TcpListener, proxy: Arc<Proxy>) {
    // One request at a time on a connection, so that closing it fails that one alone.
    let builder = Builder::new(TokioExecutor::new()).http1_only();
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let permit = room.clone().acquire_owned().await;
        let stream = accept(&listener).await;
        let proxy = proxy.clone();
        let service = service_fn(move |request| {
            let proxy = proxy.clone();
            async move { call::answer(&proxy, request).await }
        });
        let connection =
            builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)).into_owned();
        tokio::spawn(async move {
            // A connection that ends early was meant to, or its caller went away.
            let _ = connection.await;
            drop(permit);
        });
    }
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            // Answers are small and whole: waiting to fill a packet only delays them.
            let _ = stream.set_nodelay(true);
            return stream;
        }
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

impl Proxy {
    fn new(service: Service, upstream: &Url, faults: Faults, seed: u64) -> anyhow::Result<Proxy> {
        faults.check(service)?;
        ensure!(upstream.scheme() == "http", "--upstream is an http URL");
        ensure!(upstream.path() == "/" && upstream.query().is_none(), "--upstream has no path");
        let upstream = upstream.authority().parse().context("--upstream has no host")?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_MAX)
            .pool_timer(TokioTimer::new())
            .build(connector);
        let chance = Mutex::new(Rng::with_seed(seed));
        let (faults, _) = watch::channel(faults);
        Ok(Proxy { service, upstream, client, faults, chance, stats: Stats::default() })
    }

    fn draw(&self) -> Luck {
        Luck::draw(&mut self.chance.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
