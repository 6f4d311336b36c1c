//! The server roles: open the backend, start what the role is made of, and end it in good order.

mod args;
#[cfg(feature = "aws")]
mod aws;
#[cfg(not(feature = "aws"))]
#[path = "aws/absent.rs"]
mod aws;
mod backend;
mod caller_args;
mod listen;
mod notify;
mod observe;
mod operations;
mod secrets;
mod share_args;
mod system;
mod webhooks;

pub use args::{BackendArgs, BackendKind, ListArgs, ServerArgs};
#[cfg(feature = "aws")]
pub use aws::AwsArgs;
pub use backend::Opened;
pub use operations::Repairs;
pub use secrets::{API_KEY_FILE, find_secret};
pub use system::{SystemClock, entropy};

use anyhow::Context;
use conveyor_api::{Api, ApiConfig, MetricsText, OperatorKeys};
use conveyor_domain::{Clock, Entropy, HeaderSeal, KeyHash, Secret, TaskRules, WorkerId};
use conveyor_exports::{Builder, ExportConfig};
use conveyor_ingest::{IngestConfig, Ingester};
use conveyor_notify::Notifier;
use conveyor_store::Backend;
use conveyor_sweeper::Sweeper;
use conveyor_worker::gateway::{self, Credential};
use conveyor_worker::{Worker, WorkerConfig};
use listen::Connections;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Dev,
    Api,
    Ingest,
    Worker,
    Sweeper,
}

impl Role {
    fn serves_api(self) -> bool {
        matches!(self, Role::Dev | Role::Api)
    }
    fn ingests(self) -> bool {
        matches!(self, Role::Dev | Role::Ingest)
    }
    fn works(self) -> bool {
        matches!(self, Role::Dev | Role::Worker)
    }
    fn sweeps(self) -> bool {
        matches!(self, Role::Dev | Role::Sweeper)
    }
}

/// What the parts of a role share.
struct Parts {
    args: ServerArgs,
    backend: Backend,
    secret: Secret,
    clock: Arc<dyn Clock>,
    entropy: Arc<Entropy>,
    stop: CancellationToken,
    running: TaskTracker,
    /// Names a part that ended though nobody told it to.
    ended: mpsc::UnboundedSender<&'static str>,
}

impl Parts {
    /// Runs a part of the role until it is told to stop. One that ends before that, by a defect, takes the process with it:
    /// half a server that answers "ready" is worse than none.
    fn start(&self, name: &'static str, part: impl Future<Output = ()> + Send + 'static) {
        let (stop, ended) = (self.stop.clone(), self.ended.clone());
        let task = self.running.spawn(part);
        tokio::spawn(async move {
            let outcome = task.await;
            if outcome.is_err() || !stop.is_cancelled() {
                let _ = ended.send(name);
            }
        });
    }
}

pub async fn run(role: Role, args: ServerArgs) -> anyhow::Result<ExitCode> {
    observe::start_logs(args.log_format);
    let metrics = observe::start_metrics()?;
    // What cannot be started is refused before anything is touched.
    args.domain_limits()?;
    args.share.check()?;
    let mut signals = Signals::new()?;
    // First the port, then the data: a port that is taken must not cost the other process its lock's note.
    let listener = bind(&args)?;
    let clock = Arc::new(SystemClock::new());
    let entropy = Arc::new(system::entropy()?);
    let store = Opened::open(&args.place, &entropy, &clock).await?;
    let (ended, mut unexpected) = mpsc::unbounded_channel();
    let parts = Parts {
        backend: store.backend(),
        secret: secrets::load_secret(&args, role)?,
        entropy,
        clock: clock.clone(),
        stop: CancellationToken::new(),
        running: TaskTracker::new(),
        ended,
        args,
    };
    parts.start("watch of the clock", system::watch_skew(clock, parts.stop.clone()));
    let notifier = notify::open(&parts).await?;
    let (shutting_down, is_shutting_down) = watch::channel(false);
    if role.works() {
        start_worker(&parts)?;
    }
    if role.ingests() {
        start_ingester(&parts);
        start_exports(&parts);
    }
    if role.sweeps() {
        let (backend, clock) = (parts.backend.clone(), parts.clock.clone());
        let sweeper = match parts.args.place.backend {
            // One process has the data directory.
            BackendKind::Embedded => Sweeper::alone(backend, clock),
            BackendKind::Aws => {
                let id = WorkerId::new(clock.now(), &parts.entropy);
                Sweeper::new(backend, clock, id)
            }
        };
        parts.start("sweeper", conveyor_sweeper::run(sweeper, parts.stop.clone()));
        parts.start("deliverer", conveyor_notify::run(notifier.clone(), parts.stop.clone()));
    }
    let keys = match role.serves_api() {
        true => Keys::ensure(&parts, role == Role::Dev).await?,
        false => Keys::default(),
    };
    let render = Arc::new(move || metrics.render());
    serve(&parts, role, listener, render, is_shutting_down, keys, notifier)?;

    tokio::select! {
        name = signals.next() => tracing::info!(signal = name, "shutting down; again to exit at once"),
        reason = store.broken() => {
            // Nothing that is still in memory can be made durable: go, and let the next start read what is really there.
            anyhow::bail!("the store can no longer be trusted: {reason}");
        }
        Some(part) = unexpected.recv() => anyhow::bail!("the {part} ended unexpectedly; the log says why"),
    }
    shutting_down.send_replace(true);
    parts.stop.cancel();
    parts.running.close();
    tokio::select! {
        () = parts.running.wait() => {}
        _ = signals.next() => {
            tracing::warn!("exiting at once; what was in flight is taken up again at the next start");
            return Ok(ExitCode::FAILURE);
        }
    }
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

fn bind(args: &ServerArgs) -> anyhow::Result<TcpListener> {
    let hint = "is another process using the port? choose one with --listen";
    listen::bind(args.listen).with_context(|| format!("cannot listen on {} ({hint})", args.listen))
}

fn start_worker(parts: &Parts) -> anyhow::Result<()> {
    let args = &parts.args;
    let choice = args.gateway();
    tracing::info!(gateway = %choice, "worker starts");
    let gateway = gateway::open(&choice, args.gateway_limits(), parts.clock.clone())?;
    let config = WorkerConfig {
        slots: args.slots,
        retry: args.retry(),
        shutdown_grace: args.shutdown_grace(),
        visibility: args.visibility(),
        domain_limits: args.domain_limits()?,
        gate: args.gate,
        gateway_credential: args.gateway_api_key.clone().map(Credential::new),
        ..WorkerConfig::default()
    };
    let worker = Worker::new(
        parts.backend.clone(),
        gateway,
        parts.secret.clone(),
        parts.clock.clone(),
        parts.entropy.clone(),
        config,
    );
    parts.start("worker", conveyor_worker::run(worker, parts.stop.clone()));
    Ok(())
}

fn start_ingester(parts: &Parts) {
    let args = &parts.args;
    let config = IngestConfig {
        ingests_max: args.ingests_max,
        chunk_rows: args.chunk_rows,
        rules: TaskRules::strict(args.param_policy()),
        quotas: args.caller.quotas(),
        visibility: args.visibility(),
        ..args.lists.ingest()
    };
    let ingester = Ingester::new(parts.backend.clone(), parts.clock.clone(), &parts.entropy, config)
        .sealing(HeaderSeal::new(parts.secret.clone(), parts.entropy.clone()));
    parts.start("ingester", conveyor_ingest::run(Arc::new(ingester), parts.stop.clone()));
}

fn start_exports(parts: &Parts) {
    let args = &parts.args;
    let config = ExportConfig {
        exports_max: args.exports_max,
        max_bytes: args.export_max_bytes,
        ..ExportConfig::default()
    };
    let builder = Builder::new(parts.backend.clone(), parts.clock.clone(), parts.entropy.clone(), config);
    parts.start("builder of exports", conveyor_exports::run(Arc::new(builder), parts.stop.clone()));
}

/// Who may use the API.
#[derive(Default)]
struct Keys {
    operators: OperatorKeys,
    accepted: Vec<KeyHash>,
    /// The API key to show to whoever started the process.
    own: Option<String>,
}

impl Keys {
    async fn ensure(parts: &Parts, make: bool) -> anyhow::Result<Keys> {
        let operators = secrets::operator_keys(parts, make)?;
        let own = secrets::ensure_api_keys(parts, make).await?;
        let accepted = parts.backend.store.accepted_keys().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the accepted API keys cannot be listed; each is known once it was used");
            Vec::new()
        });
        Ok(Keys { operators, accepted, own })
    }
}

/// Starts serving and says so on stdout, where scripts wait for it. A role without the API serves health and metrics alone.
fn serve(
    parts: &Parts,
    role: Role,
    listener: TcpListener,
    metrics: MetricsText,
    shutting_down: watch::Receiver<bool>,
    keys: Keys,
    notifier: Arc<Notifier>,
) -> anyhow::Result<()> {
    let args = &parts.args;
    let address = listener.local_addr().context("listening address")?;
    let connections_max = listen::connections_max(args.share.connections_max);
    let config = ApiConfig {
        max_body_bytes: args.max_body_bytes,
        inline_tasks_max: args.inline_tasks_max,
        run_tasks_max: args.lists.run_tasks_max,
        list_max_bytes: args.lists.list_max_bytes,
        list_expanded_max_bytes: args.lists.list_expanded_max_bytes,
        count_within: args.count_within(),
        param_policy: args.param_policy(),
        built_in_gateway: args.has_built_in_gateway(),
        public_url: args.public_url.as_ref().map(|url| url.trim_end_matches('/').to_owned()),
        forward_keys: args.forwards_keys(),
        result_ttl_days: args.result_ttl_days,
        result_url_ttl: args.result_url_ttl(),
        quotas: args.caller.quotas(),
        requests: args.caller.requests(),
        requests_inflight_max: listen::requests_inflight_max(connections_max),
        shares: args.share.shares(),
    };
    let repairs = Repairs::new(parts.backend.clone(), parts.clock.clone(), parts.stop.clone());
    let api = Api {
        backend: parts.backend.clone(),
        secret: parts.secret.clone(),
        clock: parts.clock.clone(),
        entropy: parts.entropy.clone(),
        config,
        operations: Arc::new(repairs),
        webhooks: Arc::new(webhooks::Reached(notifier)),
        operators: keys.operators,
        accepted: keys.accepted,
        metrics,
        shutting_down,
    };
    let app = if role.serves_api() { api.router() } else { api.operations() };
    let connections = Connections::new(connections_max, args.share.deadlines());
    let serving = listen::serve(listener, app, connections, parts.stop.clone(), args.shutdown_grace());
    parts.start("HTTP server", serving);
    println!("listening on http://{address}");
    println!("{}, gateway {}", backend::describe(&args.place)?, args.gateway());
    if role == Role::Dev && args.operator_keys.is_empty() {
        // Not the key itself: who needs it can read the file, and output is kept in places that more people can read.
        println!("operator key in {}", args.place.data_dir.join(secrets::OPERATOR_KEY_FILE).display());
    }
    if let Some(key) = keys.own {
        println!("API key {key} (kept in {})", args.place.data_dir.join(secrets::API_KEY_FILE).display());
    }
    Ok(())
}

/// What asks a process to end.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub fn new() -> anyhow::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}
