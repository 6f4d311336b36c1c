//! What this worker may have in flight of each job: its share of the job's permits, and how much of it is used (SPEC 6.7).

use crate::Worker;
use conveyor_domain::grant::Holding;
use conveyor_domain::{Job, JobId, Timestamp, limits};
use futures::future::join_all;
use std::collections::HashMap;
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
        let want = self.want(worker, job);
        let due = self.shares.get(&job.id).is_none_or(|share| {
            let age = share.asked.elapsed();
            age >= limits::GRANT_RENEW_EVERY
                || (share.holding.permits < want && age >= limits::DISCOVER_EVERY)
        });
        if due {
            let (holding, asked) = request(worker, job, want).await?;
            self.keep(job, holding, asked);
        }
        Ok(self.shares.get(&job.id).map_or(0, |share| share.free(worker.clock.now())))
    }

    fn want(&self, worker: &Worker, job: &Job) -> u32 {
        job.spec.max_inflight.min(worker.config.slots)
    }

    fn keep(&mut self, job: &Job, holding: Holding, asked: Instant) {
        let used = self.shares.remove(&job.id).map_or_else(Arc::default, |share| share.used);
        self.shares.insert(job.id, Share { job: job.clone(), holding, asked, used });
    }

    /// Uses one permit. The caller has seen that one is free.
    pub fn take(&self, job: JobId) -> Option<Permit> {
        let share = self.shares.get(&job)?;
        share.used.fetch_add(1, Ordering::SeqCst);
        Some(Permit { used: share.used.clone(), freed: self.freed.clone() })
    }

    /// Renews shares that are in use, whether or not their runs still take new work, and gives back those that are not:
    /// others may have a use for them, and a renewal is a write. All at once, so that they share their commits.
    pub async fn upkeep(&mut self, worker: &Worker) {
        let due = |share: &&Share| share.asked.elapsed() >= limits::GRANT_RENEW_EVERY;
        let (in_use, idle): (Vec<&Share>, Vec<&Share>) =
            self.shares.values().filter(due).partition(|share| share.used.load(Ordering::SeqCst) > 0);
        let in_use: Vec<Job> = in_use.into_iter().map(|share| share.job.clone()).collect();
        let idle: Vec<JobId> = idle.into_iter().map(|share| share.job.id).collect();
        let renewals = in_use.iter().map(|job| request(worker, job, self.want(worker, job)));
        for (job, renewed) in in_use.iter().zip(join_all(renewals).await) {
            match renewed {
                Ok((holding, asked)) => self.keep(job, holding, asked),
                Err(error) => tracing::warn!(job = %job.id, %error, "a grant could not be renewed"),
            }
        }
        self.give_back(worker, idle).await;
    }

    pub async fn give_all_back(&mut self, worker: &Worker) {
        let jobs = self.shares.keys().copied().collect();
        self.give_back(worker, jobs).await;
    }

    async fn give_back(&mut self, worker: &Worker, jobs: Vec<JobId>) {
        let releases = jobs.iter().map(|job| worker.backend.coordinator.release(*job, worker.id));
        for (job, released) in jobs.iter().zip(join_all(releases).await) {
            match released {
                Ok(()) => drop(self.shares.remove(job)),
                Err(error) => {
                    tracing::warn!(%job, %error, "a grant could not be given back; it lapses by itself")
                }
            }
        }
    }
}

/// Asks for a share; also says when it was asked for, as the grant lapses counting from then, never later.
async fn request(worker: &Worker, job: &Job, want: u32) -> conveyor_store::Result<(Holding, Instant)> {
    let (asked, now) = (Instant::now(), worker.clock.now());
    let coordinator = &worker.backend.coordinator;
    let holding =
        coordinator.grant(job.id, worker.id, want, job.spec.max_inflight, limits::GRANT_TTL, now).await?;
    Ok((holding, asked))
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
