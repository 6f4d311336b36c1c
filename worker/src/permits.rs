//! What this worker may have in flight of each job: its share of the job's permits, and how much of it is used (SPEC 6.7).

use crate::Worker;
use conveyor_domain::grant::Holding;
use conveyor_domain::{Job, JobId, Timestamp, limits};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::Instant;

/// One task's use of its job's permits; given back when dropped.
#[derive(Debug)]
pub struct Permit {
    used: Arc<AtomicU32>,
    freed: Arc<Notify>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.used.fetch_sub(1, Ordering::SeqCst);
        self.freed.notify_one();
    }
}

/// One of the worker's slots; given back when dropped.
#[derive(Debug)]
pub struct Slot {
    permit: Option<OwnedSemaphorePermit>,
    freed: Arc<Notify>,
}

impl Slot {
    pub fn new(permit: OwnedSemaphorePermit, freed: Arc<Notify>) -> Slot {
        Slot { permit: Some(permit), freed }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // Free first, then tell: whoever is woken must find it free.
        drop(self.permit.take());
        self.freed.notify_one();
    }
}

#[derive(Debug)]
struct Share {
    job: Job,
    holding: Holding,
    asked: Instant,
    used: Arc<AtomicU32>,
}

#[derive(Debug)]
pub struct Permits {
    shares: HashMap<JobId, Share>,
    freed: Arc<Notify>,
}

impl Permits {
    pub fn new(freed: Arc<Notify>) -> Permits {
        Permits { shares: HashMap::new(), freed }
    }

    /// How many tasks of the job may be started now. Asks the coordinator when the share is due for renewal, or is smaller
    /// than it could be.
    pub async fn free(&mut self, worker: &Worker, job: &Job) -> conveyor_store::Result<u32> {
        let want = job.spec.max_inflight.min(worker.config.slots);
        let due = self.shares.get(&job.id).is_none_or(|share| {
            let age = share.asked.elapsed();
            age >= limits::GRANT_RENEW_EVERY
                || (share.holding.permits < want && age >= limits::DISCOVER_EVERY)
        });
        if due {
            self.ask(worker, job, want).await?;
        }
        Ok(self.shares.get(&job.id).map_or(0, |share| share.free(worker.clock.now())))
    }

    async fn ask(&mut self, worker: &Worker, job: &Job, want: u32) -> conveyor_store::Result<()> {
        // Read before the call: the grant lapses counting from when it was asked for, never later.
        let asked = Instant::now();
        let coordinator = &worker.backend.coordinator;
        let (cap, now) = (job.spec.max_inflight, worker.clock.now());
        let holding = coordinator.grant(job.id, worker.id, want, cap, limits::GRANT_TTL, now).await?;
        let used = self.shares.remove(&job.id).map_or_else(Arc::default, |share| share.used);
        self.shares.insert(job.id, Share { job: job.clone(), holding, asked, used });
        Ok(())
    }

    /// Uses one permit. The caller has seen that one is free.
    pub fn take(&self, job: JobId) -> Option<Permit> {
        let share = self.shares.get(&job)?;
        share.used.fetch_add(1, Ordering::SeqCst);
        Some(Permit { used: share.used.clone(), freed: self.freed.clone() })
    }

    /// Renews shares that are in use, whether or not their runs still take new work, and gives back those of jobs that
    /// have nothing left to do here.
    pub async fn upkeep(&mut self, worker: &Worker, active: &HashSet<JobId>) {
        let jobs: Vec<Job> = self.shares.values().map(|share| share.job.clone()).collect();
        for job in jobs {
            let Some(share) = self.shares.get(&job.id) else { continue };
            let in_use = share.used.load(Ordering::SeqCst) > 0;
            let outcome = if in_use && share.asked.elapsed() >= limits::GRANT_RENEW_EVERY {
                self.ask(worker, &job, job.spec.max_inflight.min(worker.config.slots)).await
            } else if !in_use && !active.contains(&job.id) {
                self.give_back(worker, job.id).await
            } else {
                Ok(())
            };
            if let Err(error) = outcome {
                tracing::warn!(job = %job.id, %error, "a grant could not be renewed or given back");
            }
        }
    }

    async fn give_back(&mut self, worker: &Worker, job: JobId) -> conveyor_store::Result<()> {
        worker.backend.coordinator.release(job, worker.id).await?;
        self.shares.remove(&job);
        Ok(())
    }

    pub async fn give_all_back(&mut self, worker: &Worker) {
        let jobs: Vec<JobId> = self.shares.keys().copied().collect();
        for job in jobs {
            if let Err(error) = self.give_back(worker, job).await {
                tracing::warn!(%job, %error, "a grant could not be given back; it lapses by itself");
            }
        }
    }
}

impl Share {
    fn free(&self, now: Timestamp) -> u32 {
        // Near its end a grant starts nothing: what is started must be over, or renewed, before others may have the permits.
        if now.after(limits::GRANT_MARGIN) >= self.holding.expires {
            return 0;
        }
        self.holding.permits.saturating_sub(self.used.load(Ordering::SeqCst))
    }
}
