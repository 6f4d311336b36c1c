//! Counters that the rows contradict (SPEC 6.14): what is missing is added, while workers go on.

use crate::facts;
use crate::proofs::{Proof, Proofs};
use crate::repair::{
    About, Fixed, Found, Look, Next, Pace, Repair, Scope, after, key_of, run_of, unreadable,
};
use crate::sweep::Sweep;
use async_trait::async_trait;
use conveyor_domain::repair::{Finding, Kind, Subject};
use conveyor_domain::{RunId, Sums, Timestamp, limits};
use conveyor_store::Result;
use conveyor_store::port::{ActiveRun, Chore, RunKey, Tally};
use std::future::ready;
use std::sync::Arc;

pub(super) struct WrongCounters(pub Arc<Proofs>);

#[async_trait]
impl Repair for WrongCounters {
    fn about(&self) -> About {
        About::new("wrong_counters", Kind::Damage, Pace::Slowly)
    }

    async fn find(&self, look: &Look<'_>, from: Option<String>) -> Result<Found> {
        if from.is_none() {
            self.0.forget_old(look.now());
        }
        let after: Option<RunId> = after(from)?;
        let mut found = Found::default();
        let due = self.due(look).await?;
        for (n, key) in (1..).zip(due.into_iter().filter(|key| Some(key.run) > after)) {
            let explained = self.explain(look, key).await;
            if explained.is_err() {
                // One that cannot be told must not have every first turn.
                self.0.put_off(key.run, look.now());
            }
            found.look_at(self, look, vec![(Subject::from(key), ready(explained))]).await?;
            if n >= look.page() || look.is_over() {
                found.next = Some(Next::After(key.run.to_string()));
                break;
            }
        }
        Ok(found)
    }

    async fn fix(&self, sweep: &Sweep<'_>, finding: &Finding) -> Result<Fixed> {
        let corrected = self.0.correct(sweep.backend, run_of(finding)?, sweep.clock.now()).await?;
        Ok(Fixed::Changed(u64::from(corrected)))
    }
}

impl WrongCounters {
    /// Runs to be proved, by their ids.
    async fn due(&self, look: &Look<'_>) -> Result<Vec<RunKey>> {
        let now = look.now();
        let runs = look.runs().await?.iter();
        let mut due: Vec<RunKey> =
            runs.filter(|active| look.thorough || self.is_due(active, now)).map(key_of).collect();
        if look.scope == Scope::All {
            // Before their queues go, and with them the sign that nobody has looked at them yet.
            let ended = look.backend.store.due(Chore::EndedQueues, limits::SWEEP_PAGE).await?;
            let ended = ended.into_iter().filter_map(RunKey::of);
            due.extend(ended.filter(|key| look.thorough || !self.0.is_done(key.run)));
        }
        due.retain(|key| {
            look.is_ours(Subject::from(*key)) && (look.thorough || !self.0.is_put_off(key.run, now))
        });
        due.sort_by_key(|key| key.run);
        due.dedup();
        Ok(due)
    }

    fn is_due(&self, active: &ActiveRun, now: Timestamp) -> bool {
        let last = self.0.last(active.run.id).unwrap_or(active.run.created);
        let done = active.stats.counts.completed();
        // Where nothing seems to be left, a worker or a sweep would end it.
        let seems_done = done > 0 && done >= active.stats.total && !active.run.is_ingesting();
        seems_done
            || done > active.stats.total
            || self.0.is_suspect(active.run.id)
            || last.after(limits::PROVE_EVERY) <= now
    }

    async fn explain(&self, look: &Look<'_>, key: RunKey) -> Result<Option<Finding>> {
        let suspect = self.0.is_suspect(key.run);
        match self.0.prove(look.backend, key, look.now()).await? {
            Proof::Impossible if suspect => Ok(Some(Finding { fixable: false, ..self.about().finding(Subject::from(key), "its queue and its counters do not agree about what is left, and rows of it may be gone by age", "none: rows that may be gone prove nothing. Stop the run, or wait until its tasks are over") })),
            Proof::RowsLost(tally) => Ok(Some(self.lost(key, &tally))),
            Proof::Agrees | Proof::Impossible => Ok(None),
            Proof::Differs { tally, missing } => Ok(Some(self.finding(key, &tally, &missing))),
        }
    }

    /// Nothing here can bring rows back, and counters that were right must not be made to agree with what is left.
    fn lost(&self, key: RunKey, tally: &Tally) -> Finding {
        let (rows, total, damaged) = (tally.rows.all(), tally.run.total, tally.damaged.count);
        if damaged > 0 {
            let why = format!("of {total} tasks only {rows} rows can be read; {damaged} are damaged");
            return unreadable(self, Subject::from(key), why);
        }
        Finding {
            fixable: false,
            ..self.about().finding(
                Subject::from(key),
                format!("of {total} tasks only {rows} rows are there; the others were lost"),
                format!("`conveyor rebuild {}` makes them anew, if the job has a staged list", key.job),
            )
        }
    }

    fn finding(&self, key: RunKey, tally: &Tally, missing: &Sums) -> Finding {
        let mut settled = Sums::from(tally.rows.settled);
        settled.failed[conveyor_domain::FailureClass::Other as usize] += i64::from(tally.rows.unclassified);
        let (rows, counters) = (facts::sums(&settled), facts::sums(&tally.counters));
        self.about().finding(
            Subject::from(key),
            format!("of {} tasks, the rows say {rows}; the counters say {counters}", tally.run.total),
            format!("adds {} to the counters", facts::sums(missing)),
        )
    }
}
