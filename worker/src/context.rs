//! One run, for as long as this worker works on it.

use crate::Worker;
use crate::breaker::Breaker;
use crate::gateway::Credential;
use crate::outage::SharedBackoff;
use conveyor_domain::Job;
#[cfg(test)]
use conveyor_domain::RunId;
use conveyor_domain::dispatch::grant::Scope;
use conveyor_domain::{NotAuthentic, Params, Purpose, QueueName};
use conveyor_store::port::{ActiveRun, RunKey};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

#[derive(Debug)]
pub struct RunContext {
    pub key: RunKey,
    pub job: Job,
    pub queue: QueueName,
    /// Parameters that this run has instead of its job's and tasks' own.
    pub overrides: Params,
    pub credential: Option<Credential>,
    /// Cannot be worked on here: its forwarded key does not open.
    pub unusable: bool,
    seen: Arc<Seen>,
}

/// What was seen of a run. Outlives a change of its job.
#[derive(Debug, Default)]
struct Seen {
    /// Messages of this run between their receipt and their acknowledgement.
    held: AtomicU32,
    /// How long a call takes, about, in microseconds.
    call_us: AtomicU64,
    breaker: Breaker,
    backoff: SharedBackoff,
}

impl RunContext {
    pub fn new(worker: &Worker, active: ActiveRun) -> RunContext {
        let own = worker.config.gateway_credential.clone();
        let credential = if own.is_some() { Ok(own) } else { unseal(worker, &active.job) };
        RunContext {
            unusable: credential.is_err(),
            credential: credential.unwrap_or_default(),
            key: RunKey { job: active.job.id, run: active.run.id },
            queue: QueueName::Run(active.run.id),
            overrides: active.run.doc.overrides,
            job: active.job,
            seen: Arc::default(),
        }
    }

    #[cfg(test)]
    pub fn of(job: Job, run: RunId) -> RunContext {
        RunContext {
            key: RunKey { job: job.id, run },
            queue: QueueName::Run(run),
            overrides: Params::new(),
            credential: None,
            unusable: false,
            job,
            seen: Arc::default(),
        }
    }

    /// The same run of a job that has changed.
    pub fn with_job(&self, job: Job) -> RunContext {
        RunContext {
            key: self.key,
            job,
            queue: self.queue,
            overrides: self.overrides.clone(),
            credential: self.credential.clone(),
            unusable: self.unusable,
            seen: self.seen.clone(),
        }
    }

    pub fn scope(&self) -> Scope {
        Scope::Job(self.key.job)
    }

    pub fn breaker(&self) -> &Breaker {
        &self.seen.breaker
    }

    /// Of claims and receives that fail.
    pub fn backoff(&self) -> &SharedBackoff {
        &self.seen.backoff
    }

    pub fn hold(&self, messages: u32) {
        self.seen.held.fetch_add(messages, Ordering::SeqCst);
    }

    pub fn let_go(&self, messages: u32) {
        self.seen.held.fetch_sub(messages, Ordering::SeqCst);
    }

    /// Messages that were held by another context of this run. It is the same count, unless the run was forgotten meanwhile.
    pub fn take_over(&self, from: &RunContext, messages: u32) {
        if !Arc::ptr_eq(&self.seen, &from.seen) {
            self.hold(messages);
            from.let_go(messages);
        }
    }

    pub fn holds_any(&self) -> bool {
        self.seen.held.load(Ordering::SeqCst) > 0
    }

    /// Takes note of how long a call took.
    pub fn note_call(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let before = self.seen.call_us.load(Ordering::Relaxed);
        // An eighth of the new one: about the last eight count. That two at once may lose one does not matter.
        let next = if before == 0 { took } else { before - before / 8 + took / 8 };
        self.seen.call_us.store(next, Ordering::Relaxed);
    }

    pub fn usual_call(&self) -> Duration {
        Duration::from_micros(self.seen.call_us.load(Ordering::Relaxed))
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
