//! Permits: the pure arithmetic of the domain on one row a job, written if nobody else wrote it meanwhile (SPEC 6.7).

use super::item::{Draft, Row, json, number};
use super::transact::Condition;
use super::{Table, keys};
use async_trait::async_trait;
use conveyor_domain::grant::{Grants, Holding};
use conveyor_domain::{JobId, Timestamp, WorkerId};
use conveyor_store::Result;
use conveyor_store::port::Coordinator;
use std::time::Duration;

/// A row that nobody wrote to for so long is removed. Not when it is empty: its version must not begin anew while somebody
/// may still hold on to an earlier one.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

impl Table {
    async fn load_grants(&self, job: JobId) -> Result<Option<(Grants, i64)>> {
        let Some(item) = self.get(&keys::grants(job)).await? else { return Ok(None) };
        Ok(Some((Row(&item).json("doc")?, Row(&item).number(keys::TTL)?)))
    }

    async fn change_grants<T>(
        &self,
        job: JobId,
        now: Timestamp,
        change: impl Fn(&mut Grants) -> T,
    ) -> Result<T> {
        let mut backoff = self.backoff();
        loop {
            let seen = self.load_grants(job).await?;
            let condition = match &seen {
                Some((grants, _)) => Condition::version(grants.version),
                None => Condition::absent(),
            };
            let (mut grants, kept_until) = seen.unwrap_or_default();
            let before = grants.clone();
            let answer = change(&mut grants);
            if grants.same_holders(&before) {
                // Whoever gets nothing leaves nothing: many may ask at once for what one has.
                return Ok(answer);
            }
            let ttl = kept_until.max(now.after(KEPT).as_ms() / 1000);
            let row = Draft::at(&keys::grants(job))
                .set("v", number(grants.version))
                .set("doc", json(&grants)?)
                .set(keys::TTL, number(ttl));
            if self.put_if(row.item(), condition).await? {
                return Ok(answer);
            }
            backoff.wait("a grant").await?;
        }
    }
}

#[async_trait]
impl Coordinator for Table {
    async fn grant(
        &self,
        job: JobId,
        worker: WorkerId,
        want: u32,
        cap: u32,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Holding> {
        self.change_grants(job, now, |grants| grants.grant(worker, want, cap, ttl, now)).await
    }

    async fn release(&self, job: JobId, worker: WorkerId) -> Result<()> {
        let held = self.load_grants(job).await?;
        if held.is_none_or(|(grants, _)| !grants.holds(worker)) {
            return Ok(());
        }
        self.change_grants(job, Timestamp(0), |grants| grants.release(worker)).await
    }

    async fn holders(&self, job: JobId, now: Timestamp) -> Result<Vec<(WorkerId, Holding)>> {
        let held = self.load_grants(job).await?;
        Ok(held.map(|(grants, _)| grants.live(now).collect()).unwrap_or_default())
    }
}
