use super::Result;
use async_trait::async_trait;
use conveyor_domain::dispatch::grant::{Ask, Hold, Limits, Scope};
use conveyor_domain::{BudgetView, CallerId, Grant, Timestamp, WorkerId};

/// What workers share: permits and rates of jobs and of sites (SPEC 6.7). Every method is one atomic step on one row, decided
/// by `domain/src/dispatch/grant.rs`.
#[async_trait]
pub trait Coordinator: Send + Sync {
    /// Sets what a worker holds, and takes starts of the rate. A request that is repeated may take starts twice: they are
    /// lost, never exceeded.
    async fn ask(&self, scope: &Scope, ask: Ask, now: Timestamp) -> Result<Grant>;

    async fn give_back(&self, scope: &Scope, worker: WorkerId, now: Timestamp) -> Result<()>;

    /// Says that nothing may start for a while, or what is waited for.
    async fn hold(&self, scope: &Scope, hold: Hold, now: Timestamp) -> Result<()>;

    /// Makes new limits known to whoever asks from now on.
    async fn change(&self, scope: &Scope, limits: Limits, now: Timestamp) -> Result<()>;

    /// As it is; one that nobody ever asked for is as new.
    async fn budget(&self, scope: &Scope, now: Timestamp) -> Result<BudgetView>;

    /// The budgets of sites that a caller's jobs used lately, by name; at most `limit` of them, and not all if they are very
    /// many.
    async fn domain_budgets(
        &self,
        caller: CallerId,
        limit: u32,
        now: Timestamp,
    ) -> Result<Vec<(String, BudgetView)>>;
}
