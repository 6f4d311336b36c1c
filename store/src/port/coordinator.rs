use super::Result;
use super::over::port;
use conveyor_domain::dispatch::grant::{Ask, Change, Scope};
use conveyor_domain::{BudgetView, CallerId, Grant, Timestamp};

port! {
    /// What workers share: permits and rates of jobs and of sites (SPEC 6.7). Every method is one atomic step on one row, decided
    /// by `domain/src/dispatch/grant.rs`.
    pub trait Coordinator, decorated by OverCoordinator over coordinator {
        /// Sets what a worker holds, and takes starts of the rate. A request that is repeated may take starts twice: they are
        /// lost, never exceeded.
        async fn ask(&self, scope: &Scope, ask: Ask, now: Timestamp) -> Result<Grant>;

        /// Gives back what a worker holds, makes new limits known, or says what is waited for.
        async fn change(&self, scope: &Scope, change: Change, now: Timestamp) -> Result<()>;

        /// As it is; one that nobody ever asked for is as new.
        async fn budget(&self, scope: &Scope, now: Timestamp) -> Result<BudgetView>;

        /// The budgets of sites that a caller's jobs used lately, by name; at most `limit` of them, and not all if they are
        /// very many.
        async fn domain_budgets(
            &self,
            caller: CallerId,
            limit: u32,
            now: Timestamp,
        ) -> Result<Vec<(String, BudgetView)>>;
    }
}
