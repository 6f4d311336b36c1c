//! Queues of runs that have ended: what is still in them is not wanted. The last that is done for such a run, so its counters
//! are proved first, once.

use super::remove_queue;
use crate::proofs::Proofs;
use crate::repair::{About, Fixed, Found, Look, Pace, Repair, Scope, key_of, page_due, run_of};
use crate::sweep::Sweep;
use async_trait::async_trait;
use conveyor_domain::QueueName;
use conveyor_domain::repair::{Finding, Kind, Subject};
use conveyor_store::port::{Chore, Depth, Mark, Reader};
use conveyor_store::{Error, Result};
use std::sync::Arc;

pub(super) struct EndedQueues(pub Arc<Proofs>);

#[async_trait]
impl Repair for EndedQueues {
    fn about(&self) -> About {
        About::new("ended_queues", Kind::Upkeep, Pace::Slowly)
    }

    async fn find(&self, look: &Look<'_>, from: Option<String>) -> Result<Found> {
        let finding = |subject| {
            self.about().finding(
                subject,
                "the run has ended, and its queue may still be there",
                "removes the queue with all its messages",
            )
        };
        if look.scope == Scope::All {
            return page_due(look, Chore::EndedQueues, from, finding).await;
        }
        let (runs, next) = look.runs_from(from).await?;
        let ended = runs.iter().filter(|active| active.run.status.is_terminal()).map(key_of);
        let looks = ended.map(|key| {
            let told = async move {
                let depth =
                    look.backend.queue.depth(QueueName::Run(key.run), Reader::Role, look.now()).await?;
                Ok((depth != Depth::default()).then(|| finding(Subject::from(key))))
            };
            (Subject::from(key), told)
        });
        Found { next, ..Found::default() }.look_at_runs(self, look, looks.collect()).await
    }

    async fn fix(&self, sweep: &Sweep<'_>, finding: &Finding) -> Result<Fixed> {
        let key = run_of(finding)?;
        if !self.0.is_done(key.run) {
            match self.0.correct(sweep.backend, key, sweep.clock.now()).await {
                // What is in flight may still settle: the next look tells.
                Ok(_) if !self.0.is_done(key.run) => return Ok(Fixed::Unfinished),
                Ok(_) => {}
                // A row that nobody can read is for an operator to look at, and needs no queue.
                Err(error @ (Error::Corrupt(_) | Error::Conflict(_))) => {
                    tracing::error!(run = %key.run, %error, "a run that ended cannot be proved");
                }
                Err(error) => return Err(error),
            }
        }
        if !remove_queue(sweep, key.run).await? {
            return Ok(Fixed::Unfinished);
        }
        sweep.backend.store.mark(key, Mark::QueueGone).await?;
        self.0.forget(key.run);
        Ok(Fixed::ONE)
    }
}
