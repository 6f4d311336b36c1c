//! Submits that were given up before anything of them became visible: rows that nobody can see (SPEC 5.4).

use super::remove_rows;
use crate::facts;
use crate::repair::{About, Fixed, Found, Look, Pace, Repair, Scope, job_of, page_due};
use crate::sweep::Sweep;
use async_trait::async_trait;
use conveyor_domain::repair::{Finding, Kind};
use conveyor_domain::{Timestamp, limits};
use conveyor_store::Result;
use conveyor_store::port::{Chore, Removal};
use std::time::Duration;

pub(super) struct AbandonedSubmits;

#[async_trait]
impl Repair for AbandonedSubmits {
    fn about(&self) -> About {
        About::new("abandoned_submits", Kind::Damage, Pace::Slowly)
    }

    async fn find(&self, look: &Look<'_>, from: Option<String>) -> Result<Found> {
        if look.scope != Scope::All {
            // Whoever asks for a job asks for one that can be seen.
            return Ok(Found::default());
        }
        let begun_before = earlier(look.removal_time().await?, limits::SUBMIT_GIVEN_UP);
        let given_up = facts::span(limits::SUBMIT_GIVEN_UP);
        page_due(look, Chore::AbandonedSubmits { begun_before }, from, |subject| {
            self.about().finding(
                subject,
                format!("a submit was begun more than {given_up} ago and never became visible"),
                "removes its rows, so that it never does",
            )
        })
        .await
    }

    async fn fix(&self, sweep: &Sweep<'_>, finding: &Finding) -> Result<Fixed> {
        let done = remove_rows(sweep, Removal::Submit(job_of(finding)?)).await?;
        Ok(if done { Fixed::ONE } else { Fixed::Unfinished })
    }
}

pub(super) fn earlier(now: Timestamp, by: Duration) -> Timestamp {
    Timestamp(now.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}
