//! The server roles: open the backend, start what the role is made of, and end it in good order.

mod args;
mod observe;
mod secrets;
mod system;

pub use args::ServerArgs;

use anyhow::Context;
use conveyor_api::ApiConfig;
use conveyor_domain::seal::Secret;
use conveyor_domain::{Clock, Entropy};
use conveyor_store::Backend;
use conveyor_store::embedded::Embedded;
use conveyor_worker::gateway::{self, Credential};
use conveyor_worker::{Worker, WorkerConfig};
use std::process::ExitCode;
use std::sync::Arc;
use system::SystemClock;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Dev,
    Api,
    Worker,
}

impl Role {
    fn serves_api(self) -> bool {
        matches!(self, Role::Dev | Role::Api)
    }
    fn works(self) -> bool {
        matches!(self, Role::Dev | Role::Worker)
    }
    fn sweeps(self) -> bool {
        matches!(self, Role::Dev)
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
}

pub async fn run(role: Role, args: ServerArgs) -> anyhow::Result<ExitCode> {
    observe::start_logs(args.log_format);
    let metrics = observe::start_metrics()?;
    let mut signals = Signals::new()?;
    // First the port, then the data: a port that is taken must not cost the other process its lock's note.
    let listener = match role.serves_api() {
        true => Some(bind(&args).await?),
        false => None,
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let store = Embedded::open(&args.data_dir, clock.now())?;
    let parts = Parts {
        backend: store.backend(),
        secret: secrets::load_secret(&args)?,
        entropy: Arc::new(system::entropy()?),
        clock,
        stop: CancellationToken::new(),
        running: TaskTracker::new(),
        args,
    };
    let (shutting_down, is_shutting_down) = watch::channel(false);
    if role.works() {
        start_worker(&parts)?;
    }
    if role.sweeps() {
        let sweeper = conveyor_sweeper::run(parts.backend.clone(), parts.clock.clone(), parts.stop.clone());
        parts.running.spawn(sweeper);
    }
    if let Some(listener) = listener {
        let own_key = secrets::ensure_api_keys(
            &parts.args,
            parts.backend.store.as_ref(),
            parts.clock.as_ref(),
            &parts.entropy,
            role == Role::Dev,
        )
        .await?;
        let render = Arc::new(move || metrics.render());
        serve(&parts, listener, render, is_shutting_down, own_key)?;
    }

    tokio::select! {
        name = signals.next() => tracing::info!(signal = name, "shutting down; again to exit at once"),
        reason = store.broken() => {
            // Nothing that is still in memory can be made durable: go, and let the next start read what is really there.
            anyhow::bail!("the store can no longer be trusted: {reason}");
        }
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

async fn bind(args: &ServerArgs) -> anyhow::Result<TcpListener> {
    let hint = "is another process using the port? choose one with --listen";
    TcpListener::bind(args.listen).await.with_context(|| format!("cannot listen on {} ({hint})", args.listen))
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
    parts.running.spawn(conveyor_worker::run(worker, parts.stop.clone()));
    Ok(())
}

/// Starts serving and says so on stdout, where scripts wait for it.
fn serve(
    parts: &Parts,
    listener: TcpListener,
    metrics: Arc<dyn Fn() -> String + Send + Sync>,
    shutting_down: watch::Receiver<bool>,
    own_key: Option<String>,
) -> anyhow::Result<()> {
    let args = &parts.args;
    let address = listener.local_addr().context("listening address")?;
    let config = ApiConfig {
        max_body_bytes: args.max_body_bytes,
        run_tasks_max: args.run_tasks_max,
        param_policy: args.param_policy(),
        public_url: args.public_url.as_ref().map(|url| url.trim_end_matches('/').to_owned()),
        forward_keys: args.forwards_keys(),
    };
    let app = conveyor_api::router(
        parts.backend.clone(),
        parts.secret.clone(),
        parts.clock.clone(),
        parts.entropy.clone(),
        config,
        metrics,
        shutting_down,
    );
    let (stop, grace) = (parts.stop.clone(), args.shutdown_grace());
    parts.running.spawn(async move {
        let stopped = stop.clone();
        let server =
            axum::serve(listener, app).with_graceful_shutdown(async move { stopped.cancelled().await });
        let deadline = async {
            stop.cancelled().await;
            tokio::time::sleep(grace).await;
        };
        tokio::select! {
            served = server => if let Err(error) = served {
                tracing::error!(%error, "the HTTP server failed");
            },
            () = deadline => tracing::warn!("requests were still open at the end of the grace period"),
        }
    });
    println!("listening on http://{address}");
    println!("data in {}, gateway {}", args.data_dir.display(), args.gateway());
    if let Some(key) = own_key {
        println!("API key {key} (kept in {})", args.data_dir.join(secrets::API_KEY_FILE).display());
    }
    Ok(())
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}
