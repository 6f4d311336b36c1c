//! What operators do, and what an audit counts (SPEC 6.14, 6.15, 6.17): how the API asks for it. Who carries it out is wired
//! by the binary; this crate does not know the repairs.

use crate::show;
use async_trait::async_trait;
use conveyor_domain::repair::dead_letter::{LetterFilter, LetterView, LettersPage, Redriven};
use conveyor_domain::{Audit, BodiesAudit, JobId, LetterId, Reconciled, TaskId};
use conveyor_store::Result;
use conveyor_store::port::RunKey;

#[async_trait]
pub trait Operations: Send + Sync {
    /// `None` if there is no such run.
    async fn audit(&self, key: RunKey) -> Result<Option<Audit>>;

    /// Reads bodies of a run behind that of a task, for a bounded time.
    async fn audit_bodies(&self, key: RunKey, after: Option<TaskId>) -> Result<BodiesAudit>;

    /// Looks, and repairs unless it is a dry run, for a bounded time. `NotFound` for a job that is not there: it must not look
    /// like one that is in order.
    async fn reconcile(&self, asked: Reconcile) -> Result<Reconciled>;

    /// Letters behind the one that is named. A page may be short, or empty, though `next` says that more follow.
    async fn letters(
        &self,
        filter: &LetterFilter,
        after: Option<LetterId>,
        limit: u32,
    ) -> Result<LettersPage>;

    async fn letter(&self, letter: LetterId) -> Result<Option<LetterView>>;

    /// `None` if there is no such letter; `Conflict` if somebody else was quicker.
    async fn redrive(&self, letter: LetterId) -> Result<Option<Redriven>>;

    /// False if there is no such letter.
    async fn purge(&self, letter: LetterId) -> Result<bool>;
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconcile {
    /// At this job alone.
    pub job: Option<JobId>,
    pub dry_run: bool,
    /// What an earlier answer gave as `next`.
    pub from: Option<String>,
}

/// A reconciliation as the API answers it, for a process that does one without a server.
pub fn reconciled_document(reconciled: &Reconciled) -> conveyor_wire::Reconciled {
    show::reconciled(reconciled)
}
