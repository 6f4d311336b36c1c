//! What workers share: the pure arithmetic of the domain on one row a job or site, written if nobody else wrote it
//! meanwhile (SPEC 6.7).

use super::item::{Draft, Item, Row, json, number};
use super::read::Range;
use super::transact::Condition;
use super::{Table, keys};
use async_trait::async_trait;
use conveyor_domain::dispatch::grant::{Ask, Change, Scope};
use conveyor_domain::{Budget, BudgetView, CallerId, Grant, Timestamp};
use conveyor_store::Result;
use conveyor_store::port::Coordinator;
use std::time::Duration;

/// A row that nobody wrote to for so long is removed. Not when it is empty: its version must not begin anew while somebody
/// may still hold on to an earlier one.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// The same for a site: a list may go to very many of them.
const SITE_KEPT: Duration = Duration::from_secs(3600);
/// Looks for sites that still have something to say, of a megabyte each.
const LOOKS_MAX: usize = 4;
/// Whoever meets others more often than this asks again in its own time, by a fresh clock: about three seconds.
const TRIES_MAX: u32 = 16;

fn decode(item: &Item) -> Result<Budget> {
    Row(item).json("doc")
}

impl Table {
    async fn load_budget(&self, scope: &Scope) -> Result<Option<(Budget, i64)>> {
        let Some(item) = self.get(&keys::budget(scope)).await? else { return Ok(None) };
        Ok(Some((decode(&item)?, Row(&item).number(keys::TTL)?)))
    }

    /// Decides on the row as it is and writes it under its version. A write whose answer was lost looks like one that lost a
    /// race, and is decided again on top of itself: permits are absolute, so nothing comes of that; starts are taken twice,
    /// so the first ones are lost to everybody. The rate is never exceeded.
    async fn change_budget<T>(
        &self,
        scope: &Scope,
        now: Timestamp,
        change: impl Fn(&mut Budget) -> T,
    ) -> Result<T> {
        let mut backoff = self.backoff().at_most(TRIES_MAX);
        loop {
            let seen = self.load_budget(scope).await?;
            let condition = match &seen {
                Some((budget, _)) => Condition::version(budget.version),
                None => Condition::absent(),
            };
            let (before, kept_until) = seen.unwrap_or_default();
            let mut budget = before.clone();
            let answer = change(&mut budget);
            if !budget.differs(&before) {
                // Whoever gets nothing leaves nothing: many may ask at once for what one has.
                return Ok(answer);
            }
            // A slow rate is in debt, and a hold lasts, for longer than anybody may ask.
            let kept = if matches!(scope, Scope::Domain(..)) { SITE_KEPT } else { KEPT };
            let needed = now.after(kept).max(budget.idle_from());
            let ttl = kept_until.max(needed.as_ms().saturating_add(999) / 1000);
            let row = Draft::at(&keys::budget(scope))
                .set("v", number(budget.version))
                .set("doc", json(&budget)?)
                .set(keys::TTL, number(ttl));
            if self.put_if(row.item(), condition).await? {
                return Ok(answer);
            }
            backoff.wait("a budget").await?;
        }
    }
}

#[async_trait]
impl Coordinator for Table {
    async fn ask(&self, scope: &Scope, ask: Ask, now: Timestamp) -> Result<Grant> {
        self.change_budget(scope, now, |budget| budget.ask(&ask, now)).await
    }

    async fn change(&self, scope: &Scope, change: Change, now: Timestamp) -> Result<()> {
        self.change_budget(scope, now, |budget| budget.change(change.clone(), now)).await
    }

    async fn budget(&self, scope: &Scope, now: Timestamp) -> Result<BudgetView> {
        let (budget, _) = self.load_budget(scope).await?.unwrap_or_default();
        Ok(budget.view(now))
    }

    async fn domain_budgets(
        &self,
        caller: CallerId,
        limit: u32,
        now: Timestamp,
    ) -> Result<Vec<(String, BudgetView)>> {
        let range = Range::everything(keys::budgets_of(caller));
        let (mut budgets, mut from) = (Vec::new(), None);
        for _ in 0..LOOKS_MAX {
            let step = self.step(&range, from).await?;
            for item in &step.items {
                let (site, budget) = (Row(item).text(keys::SK)?, decode(item)?);
                // Rows stay for longer than they say anything.
                if !budget.is_idle(now) {
                    budgets.push((site.to_owned(), budget.view(now)));
                }
            }
            from = step.next;
            if from.is_none() || budgets.len() >= limit as usize {
                break;
            }
        }
        budgets.truncate(limit as usize);
        Ok(budgets)
    }
}
