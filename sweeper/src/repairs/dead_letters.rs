//! Messages that were received too often, and letters about which something can be decided (SPEC 6.15).

use crate::facts;
use crate::letters::{self, ingest_of, verdict_of};
use crate::repair::{About, Fixed, Found, Look, Next, Pace, Repair, Scope, after, key_of, misplaced};
use crate::sweep::Sweep;
use async_trait::async_trait;
use conveyor_domain::repair::dead_letter::Verdict;
use conveyor_domain::repair::{Finding, Kind, Subject};
use conveyor_domain::{DeadLetter, LetterId, QueueName, Timestamp, limits};
use conveyor_store::port::{Delivery, Reader};
use conveyor_store::{Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
pub(super) struct DeadLetters {
    /// Letters on the pages so far.
    counted: AtomicU64,
}

#[async_trait]
impl Repair for DeadLetters {
    fn about(&self) -> About {
        About::new("dead_letters", Kind::Damage, Pace::Messages)
    }

    async fn find(&self, look: &Look<'_>, from: Option<String>) -> Result<Found> {
        let mut found = Found::default();
        let kept = match look.scope {
            Scope::All => {
                if from.is_none() {
                    self.counted.store(0, Ordering::Relaxed);
                    found.findings.extend(self.waiting(look).await?);
                    if !found.findings.is_empty() {
                        // A page of their own: what becomes of them is told by the next.
                        found.next = Some(Next::After(LETTERS.to_owned()));
                        return Ok(found);
                    }
                }
                let from = from.filter(|from| from != LETTERS);
                let kept = look.backend.store.letters(after::<LetterId>(from)?, look.page()).await?;
                let full = kept.len() >= look.page() as usize;
                found.next = kept.last().filter(|_| full).map(|last| Next::After(last.id.to_string()));
                self.count(kept.len(), full);
                kept
            }
            Scope::Job(_) => letters_of_job(look).await?,
        };
        let looks = kept.into_iter().map(|letter| {
            let subject = Subject::Letter(letter.id);
            (subject, async move { self.explain(look, &letter).await })
        });
        let ended = found.look_at(self, look, looks.collect()).await?;
        if let (Scope::All, Some(Subject::Letter(last))) = (look.scope, ended) {
            found.next = Some(Next::After(last.to_string()));
        }
        Ok(found)
    }

    async fn fix(&self, sweep: &Sweep<'_>, finding: &Finding) -> Result<Fixed> {
        match finding.subject {
            Subject::Queue(_) => take(sweep).await,
            Subject::Letter(letter) => letters::decide(sweep, letter).await,
            Subject::Run(..) | Subject::Job(_) | Subject::Upload(_) => Err(misplaced(finding)),
        }
    }
}

/// The cursor of the first page of letters.
const LETTERS: &str = "letters";

impl DeadLetters {
    fn count(&self, letters: usize, more: bool) {
        let all = self.counted.fetch_add(letters as u64, Ordering::Relaxed) + letters as u64;
        if !more {
            metrics::gauge!("conveyor_dead_letters").set(all as f64);
        }
    }

    /// Messages that are not letters yet. Not received to look at them: that would hide them.
    async fn waiting(&self, look: &Look<'_>) -> Result<Option<Finding>> {
        let waiting =
            look.backend.queue.depth(QueueName::ControlDead, Reader::Role, look.now()).await?.visible;
        Ok((waiting > 0).then(|| {
            self.about().finding(
                Subject::Queue(QueueName::ControlDead),
                format!("{waiting} control messages were received {} times", limits::CONTROL_MAX_RECEIVES),
                "keeps each as a dead letter",
            )
        }))
    }

    async fn explain(&self, look: &Look<'_>, letter: &DeadLetter) -> Result<Option<Finding>> {
        let (now, id) = (look.now(), letter.id);
        let ingest = ingest_of(look.backend, letter).await?;
        let verdict = verdict_of(letter, ingest.as_ref(), now);
        let remedy = match &verdict {
            Verdict::Acknowledge => "drops the letter: nobody needs it any more".to_owned(),
            Verdict::SendAgain => "sends the message again: it was not at fault".to_owned(),
            Verdict::FailRun(why) => format!("fails the run: {why}"),
            Verdict::Keep => {
                format!("an operator decides: `conveyor dlq redrive {id}` or `conveyor dlq purge {id}`")
            }
        };
        Ok(Some(Finding {
            fixable: verdict != Verdict::Keep,
            ..self.about().finding(
                Subject::Letter(id),
                why(letter, ingest.as_ref().and_then(|(_, state)| state.last_error.as_deref()), now),
                remedy,
            )
        }))
    }
}

fn why(letter: &DeadLetter, last_error: Option<&str>, now: Timestamp) -> String {
    let since = facts::ago(letter.first, now);
    match letter.ingest() {
        None => format!("a control message that nobody can read was given up {since}"),
        Some(message) => {
            let error = last_error.unwrap_or("no ingester lived to say why");
            format!(
                "the control message of run {} was given up {since}; the last try said: {error}",
                message.run
            )
        }
    }
}

async fn letters_of_job(look: &Look<'_>) -> Result<Vec<DeadLetter>> {
    let mut letters = Vec::new();
    for active in look.runs().await? {
        if active.run.ingest.is_some() {
            let id = letters::id_of(key_of(active));
            letters.extend(look.backend.store.letter(id).await?);
        }
    }
    Ok(letters)
}

/// Makes letters of the messages in the queue.
async fn take(sweep: &Sweep<'_>) -> Result<Fixed> {
    let queue = &sweep.backend.queue;
    let mut taken = 0;
    while taken < limits::SWEEP_MESSAGES_MAX && !sweep.is_over() {
        let (max, now) = (sweep.backend.capabilities.receive_max, sweep.clock.now());
        let received = queue.receive(QueueName::ControlDead, max, limits::VISIBILITY, now).await?;
        if received.is_empty() {
            break;
        }
        taken += received.len();
        for delivery in received {
            // One that fails comes back by itself.
            if let Err(error) = keep(sweep, delivery).await {
                tracing::warn!(%error, "a message that was given up is not a dead letter yet");
            }
        }
    }
    Ok(Fixed::Changed(taken as u64))
}

/// The row is written before the message is acknowledged: a crash between them finds it there.
async fn keep(sweep: &Sweep<'_>, delivery: Delivery) -> Result<()> {
    let letter = DeadLetter::new(delivery.body, sweep.clock.now());
    sweep.backend.store.keep_letter(letter.clone()).await?;
    letters::note(sweep, &letter).await?;
    match letters::decide(sweep, letter.id).await {
        // The letter is kept, and found again as what it is.
        Ok(_) | Err(Error::Corrupt(_)) => {}
        Err(error) => return Err(error),
    }
    sweep.backend.queue.ack(QueueName::ControlDead, vec![delivery.receipt]).await
}
