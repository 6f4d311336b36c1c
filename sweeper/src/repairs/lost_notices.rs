//! Notifications that were never written though a run ended (SPEC 6.21): of a store that was damaged or restored, because the
//! write that ends a run writes them too. They are made anew under the ids that they had.

use crate::repair::{About, Fixed, Found, Look, Next, Pace, Repair, Scope, key_of, page, run_of, window};
use crate::sweep::Sweep;
use async_trait::async_trait;
use conveyor_domain::delivery::missed;
use conveyor_domain::job::record::Expected;
use conveyor_domain::repair::{Finding, Kind, Subject};
use conveyor_domain::{Delivery, RecordVersion, RecordWrite, Timestamp};
use conveyor_store::port::{Chore, RunKey};
use conveyor_store::{Backend, Result};

pub(super) struct LostNotices;

#[async_trait]
impl Repair for LostNotices {
    fn about(&self) -> About {
        About::new("lost_notices", Kind::Damage, Pace::Slowly)
    }

    /// Of everything, those runs whose queue is still there: each is looked at once, before that is removed.
    async fn find(&self, look: &Look<'_>, from: Option<String>) -> Result<Found> {
        let mut first = 0;
        let (keys, next) = match look.scope {
            Scope::All => {
                let window = window(look, from)?;
                let ended = look.backend.store.due(Chore::EndedQueues, window.1).await?;
                let ended: Vec<RunKey> = ended.into_iter().filter_map(RunKey::of).collect();
                // Most of them are no findings: the next page begins behind all of them.
                let more = page(ended.iter().collect(), window, |key| self.finding(*key)).next.is_some();
                let next = more.then(|| Next::After(window.1.to_string()));
                first = window.0;
                (ended.into_iter().skip(window.0 as usize).collect::<Vec<_>>(), next)
            }
            Scope::Job(_) => {
                let (runs, next) = look.runs_from(from).await?;
                let keys = runs.iter().map(key_of);
                (keys.collect(), next)
            }
        };
        let mut found = Found { next, ..Found::default() };
        let ours = keys.iter().copied().filter(|key| look.is_ours(Subject::from(*key)));
        let looks = ours.map(|key| {
            let told = async move {
                let lost = lost(look.backend, key, look.now()).await?;
                Ok((!lost.is_empty()).then(|| self.finding(key)))
            };
            (Subject::from(key), told)
        });
        if let Some(last) = found.look_at(self, look, looks.collect()).await? {
            let place = keys.iter().position(|key| Subject::from(*key) == last).unwrap_or(keys.len());
            found.next = match look.scope {
                Scope::All => Some(Next::After((first as usize + place + 1).to_string())),
                Scope::Job(_) => keys.get(place).map(|key| Next::After(key.run.to_string())),
            };
        }
        Ok(found)
    }

    async fn fix(&self, sweep: &Sweep<'_>, finding: &Finding) -> Result<Fixed> {
        let (key, now) = (run_of(finding)?, sweep.clock.now());
        let mut made = 0;
        for delivery in lost(sweep.backend, key, now).await? {
            let record = delivery.record(RecordVersion::of(key.run), Some(now));
            let write = RecordWrite::put(record, Expected::Absent);
            made += u64::from(sweep.backend.store.write_record(write).await?);
        }
        Ok(Fixed::Changed(made))
    }
}

impl LostNotices {
    fn finding(&self, key: RunKey) -> Finding {
        self.about().finding(
            Subject::from(key),
            "the run has ended, and nobody who waits for that is to be told",
            "makes the notification anew, under the id that it had",
        )
    }
}

/// What should have been written when the run ended, and is not there.
async fn lost(backend: &Backend, key: RunKey, now: Timestamp) -> Result<Vec<Delivery>> {
    let Some(view) = backend.store.job(None, key.job).await? else { return Ok(Vec::new()) };
    let run = match view.job.latest_run == key.run {
        true => view.latest,
        false => backend.store.run(key.job, key.run).await?,
    };
    let Some(run) = run else { return Ok(Vec::new()) };
    let mut lost = Vec::new();
    for delivery in missed(&view.job, &run.run, run.stats, now) {
        if backend.store.record(&delivery.key()).await?.is_none() {
            lost.push(delivery);
        }
    }
    Ok(lost)
}
