//! What the API asks of the repairs: neither knows the other.

use async_trait::async_trait;
use conveyor_api::{Operations, Reconcile};
use conveyor_domain::repair::dead_letter::{LetterFilter, LetterView, LettersPage, Redriven};
use conveyor_domain::{Audit, BodiesAudit, Clock, LetterId, Reconciled, TaskId, limits};
use conveyor_store::port::RunKey;
use conveyor_store::{Backend, Error, Result};
use conveyor_sweeper::{Look, Scope, Sweep, letters};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

#[derive(Clone, Debug)]
pub struct Repairs {
    backend: Backend,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
}

impl Repairs {
    pub fn new(backend: Backend, clock: Arc<dyn Clock>, stop: CancellationToken) -> Repairs {
        Repairs { backend, clock, stop }
    }

    fn sweep(&self) -> Sweep<'_> {
        Sweep::new(&self.backend, self.clock.as_ref(), &self.stop)
    }
}

#[async_trait]
impl Operations for Repairs {
    async fn audit(&self, key: RunKey) -> Result<Option<Audit>> {
        let look = Look::new(&self.backend, self.clock.as_ref(), Scope::Job(key.job), true);
        conveyor_sweeper::audit(&look, key).await
    }

    async fn audit_bodies(&self, key: RunKey, after: Option<TaskId>) -> Result<BodiesAudit> {
        conveyor_sweeper::audit_bodies(&self.backend, key, after, limits::AUDIT_BODIES_WITHIN).await
    }

    async fn reconcile(&self, Reconcile { job, dry_run, from }: Reconcile) -> Result<Reconciled> {
        let scope = match job {
            None => Scope::All,
            Some(job) => {
                self.backend.store.job(None, job).await?.ok_or(Error::NotFound)?;
                Scope::Job(job)
            }
        };
        let within = limits::RECONCILE_WITHIN;
        let part = conveyor_sweeper::reconcile(&self.sweep(), scope, dry_run, from.as_deref(), within).await;
        // The API seals what it hands out, so this is one of another version.
        part.map_err(|error| Error::Conflict(error.to_string()))
    }

    async fn letters(
        &self,
        filter: &LetterFilter,
        after: Option<LetterId>,
        limit: u32,
    ) -> Result<LettersPage> {
        letters::list(&self.backend, filter, after, limit as usize, self.clock.now()).await
    }

    async fn letter(&self, letter: LetterId) -> Result<Option<LetterView>> {
        letters::show(&self.backend, letter, self.clock.now()).await
    }

    async fn redrive(&self, letter: LetterId) -> Result<Option<Redriven>> {
        letters::redrive(&self.sweep(), letter).await
    }

    async fn purge(&self, letter: LetterId) -> Result<bool> {
        letters::purge(&self.sweep(), letter).await
    }
}
