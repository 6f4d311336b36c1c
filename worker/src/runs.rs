//! The runs that have work, as far as this worker knows.

use crate::Worker;
use crate::gateway::Credential;
use conveyor_domain::message::QueueName;
use conveyor_domain::seal::Purpose;
use conveyor_domain::{Job, RunId, limits};
use conveyor_store::port::{ActiveRun, RunKey};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::time::Instant;

/// One run, for as long as this worker works on it.
#[derive(Debug)]
pub struct RunContext {
    pub key: RunKey,
    pub job: Job,
    pub queue: QueueName,
    pub credential: Option<Credential>,
    /// Messages of this run between their receipt and their acknowledgement.
    held: AtomicU32,
}

impl RunContext {
    fn new(worker: &Worker, active: ActiveRun) -> RunContext {
        let credential = worker.config.gateway_credential.clone().or_else(|| unseal(worker, &active.job));
        RunContext {
            key: RunKey { job: active.job.id, run: active.run.id },
            queue: QueueName::Run(active.run.id),
            job: active.job,
            credential,
            held: AtomicU32::new(0),
        }
    }

    pub fn hold(&self, messages: u32) {
        self.held.fetch_add(messages, Ordering::SeqCst);
    }

    pub fn let_go(&self, messages: u32) {
        self.held.fetch_sub(messages, Ordering::SeqCst);
    }

    pub fn holds_any(&self) -> bool {
        self.held.load(Ordering::SeqCst) > 0
    }
}

fn unseal(worker: &Worker, job: &Job) -> Option<Credential> {
    let sealed = job.spec.credential.as_ref()?;
    match worker.secret.open(Purpose::Credential, &job.id.to_string(), sealed) {
        Ok(key) => String::from_utf8(key).ok().map(Credential::new),
        Err(_) => {
            // The secret was changed: calls go out without a key, and the gateway's own refusal says so to the caller.
            tracing::warn!(job = %job.id, "the forwarded key cannot be opened with the present secret");
            None
        }
    }
}

/// A run and when it is worth looking at its end again.
#[derive(Debug)]
pub struct KnownRun {
    pub context: Arc<RunContext>,
    pub end_checked: Option<Instant>,
}

#[derive(Debug, Default)]
pub struct Runs {
    known: HashMap<RunId, KnownRun>,
    /// In the order in which they take turns.
    turns: Vec<RunId>,
    refreshed: Option<Instant>,
}

impl Runs {
    pub fn is_stale(&self) -> bool {
        self.refreshed.is_none_or(|at| at.elapsed() >= limits::DISCOVER_EVERY)
    }

    /// Adds what is new, drops what no longer runs.
    pub async fn refresh(&mut self, worker: &Worker) -> conveyor_store::Result<()> {
        let active = worker.backend.store.active_runs().await?;
        let mut known = HashMap::with_capacity(active.len());
        let mut turns = Vec::with_capacity(active.len());
        for run in active {
            let id = run.run.id;
            let entry = self.known.remove(&id).unwrap_or_else(|| KnownRun {
                context: Arc::new(RunContext::new(worker, run)),
                end_checked: None,
            });
            known.insert(id, entry);
            turns.push(id);
        }
        (self.known, self.turns, self.refreshed) = (known, turns, Some(Instant::now()));
        Ok(())
    }

    pub fn turns(&self) -> &[RunId] {
        &self.turns
    }

    /// The next pass begins with another run, so that no run is always first to the free slots.
    pub fn rotate(&mut self) {
        if !self.turns.is_empty() {
            self.turns.rotate_left(1);
        }
    }

    pub fn get_mut(&mut self, run: RunId) -> Option<&mut KnownRun> {
        self.known.get_mut(&run)
    }

    pub fn contexts(&self) -> impl Iterator<Item = &Arc<RunContext>> {
        self.known.values().map(|k| &k.context)
    }
}
