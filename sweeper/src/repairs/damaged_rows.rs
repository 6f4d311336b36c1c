//! Jobs and runs whose rows cannot be read (SPEC 6.14). Lists leave them out; here they are named, on request. Nothing here
//! can mend them.

use crate::repair::{About, Fixed, Found, Look, Next, Pace, Repair, Scope, after, unreadable};
use crate::sweep::Sweep;
use async_trait::async_trait;
use conveyor_domain::repair::{Finding, Kind, Subject};
use conveyor_store::Result;
use conveyor_store::port::{Damaged, DamagedRow};

pub(super) struct DamagedRows;

#[async_trait]
impl Repair for DamagedRows {
    fn about(&self) -> About {
        About::new("damaged_rows", Kind::Damage, Pace::Slowly)
    }

    async fn find(&self, look: &Look<'_>, from: Option<String>) -> Result<Found> {
        // Every job is read for it: only on request.
        if !look.thorough {
            return Ok(Found::default());
        }
        let of = match look.scope {
            Scope::All => Damaged::Behind(after(from)?),
            Scope::Job(job) => Damaged::Of(job),
        };
        let page = look.backend.store.damage(of).await?;
        let finding = |DamagedRow { job, run, why }| {
            let subject = run.map_or(Subject::Job(job), |run| Subject::Run(job, run));
            unreadable(self, subject, why)
        };
        Ok(Found {
            findings: page.rows.into_iter().map(finding).collect(),
            next: page.next.map(|job| Next::After(job.to_string())),
            ..Found::default()
        })
    }

    async fn fix(&self, _: &Sweep<'_>, _: &Finding) -> Result<Fixed> {
        Ok(Fixed::NOTHING)
    }
}
