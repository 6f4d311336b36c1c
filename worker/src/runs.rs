//! The runs that have work, as far as this worker knows.

use crate::Worker;
use crate::gateway::Credential;
use conveyor_domain::message::QueueName;
use conveyor_domain::seal::{NotAuthentic, Purpose};
use conveyor_domain::{Job, RunId, limits};
use conveyor_store::port::{ActiveRun, RunKey};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// One run, for as long as this worker works on it.
#[derive(Debug)]
pub struct RunContext {
    pub key: RunKey,
    pub job: Job,
    pub queue: QueueName,
    pub credential: Option<Credential>,
    /// Cannot be worked on here: its forwarded key does not open.
    pub unusable: bool,
    /// Messages of this run between their receipt and their acknowledgement.
    held: AtomicU32,
}

impl RunContext {
    fn new(worker: &Worker, active: ActiveRun) -> RunContext {
        let own = worker.config.gateway_credential.clone();
        let credential = if own.is_some() { Ok(own) } else { unseal(worker, &active.job) };
        RunContext {
            unusable: credential.is_err(),
            credential: credential.unwrap_or_default(),
            key: RunKey { job: active.job.id, run: active.run.id },
            queue: QueueName::Run(active.run.id),
            job: active.job,
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

/// The key that the job forwards. Without it every call would be refused and every task fail, for what is the fault of
/// whoever started this process with another secret: such a run waits until it is started with the right one.
fn unseal(worker: &Worker, job: &Job) -> Result<Option<Credential>, NotAuthentic> {
    let Some(sealed) = &job.spec.credential else { return Ok(None) };
    let opened = worker.secret.open(Purpose::Credential, &job.id.to_string(), sealed);
    let key = opened.and_then(|key| String::from_utf8(key).map_err(|_| NotAuthentic));
    if key.is_err() {
        tracing::error!(job = %job.id, "the forwarded key does not open with the present secret; the job waits");
    }
    key.map(|key| Some(Credential::new(key)))
}

/// A run, and whether something happened to it since its end was last looked for.
#[derive(Debug)]
pub struct KnownRun {
    pub context: Arc<RunContext>,
    pub worked: bool,
    /// Every task was terminal when the runs were last discovered.
    pub drained: bool,
    pub receives: Receives,
}

/// What the last receives from a run's queue were like: an empty one is not repeated at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Receives {
    last: Option<Instant>,
    /// How long the queue is left alone after the last one.
    pause: Duration,
}

impl Receives {
    pub fn are_due(&self) -> bool {
        self.last.is_none_or(|at| at.elapsed() >= self.pause)
    }

    /// Whether the last one is long enough ago for one that could bring more, if it waited.
    pub fn waited_for_more(&self) -> bool {
        self.last.is_none_or(|at| at.elapsed() >= limits::RECEIVE_LINGER)
    }

    pub fn note(&mut self, messages: usize) {
        self.last = Some(Instant::now());
        self.pause = match messages {
            0 => (self.pause * 2).clamp(limits::EMPTY_RECEIVE_PAUSE, limits::EMPTY_RECEIVE_PAUSE_MAX),
            _ => Duration::ZERO,
        };
    }
}

#[derive(Debug, Default)]
pub struct Runs {
    known: HashMap<RunId, KnownRun>,
    /// In the order in which they take turns.
    turns: Vec<RunId>,
    refreshed: Option<Instant>,
}

impl Runs {
    /// Whether to look again: often if something may be new, but not at every message.
    pub fn is_stale(&self, hint: bool) -> bool {
        let age = if hint { limits::REDISCOVER_AFTER } else { limits::DISCOVER_EVERY };
        self.refreshed.is_none_or(|at| at.elapsed() >= age)
    }

    /// Adds what is new, drops what no longer runs.
    pub async fn refresh(&mut self, worker: &Worker) -> conveyor_store::Result<()> {
        let active = worker.backend.store.active_runs().await?;
        let mut known = HashMap::with_capacity(active.len());
        for run in active {
            let (id, drained) = (run.run.id, run.run.is_drained(&run.stats.counts));
            let (context, worked, receives) = match self.known.remove(&id) {
                Some(before) => (before.context, before.worked, before.receives),
                None => {
                    self.turns.push(id);
                    (Arc::new(RunContext::new(worker, run)), false, Receives::default())
                }
            };
            known.insert(id, KnownRun { context, worked, drained, receives });
        }
        // Whose turn it is stays as it was: a run must not lose its place whenever another one is discovered.
        self.turns.retain(|id| known.contains_key(id));
        (self.known, self.refreshed) = (known, Some(Instant::now()));
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

    /// Something was sent, perhaps to a queue that was left alone for being empty.
    pub fn something_was_sent(&mut self) {
        self.known.values_mut().for_each(|run| run.receives = Receives::default());
    }

    pub fn get_mut(&mut self, run: RunId) -> Option<&mut KnownRun> {
        self.known.get_mut(&run)
    }
}
