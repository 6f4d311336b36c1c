//! The loop: finds what is due, and has at most so many of it under way.

use crate::keys::active_key;
use crate::machines::StateMachines;
use crate::receivers::Receivers;
use conveyor_domain::delivery::Answer;
use conveyor_domain::record::RecordKind;
use conveyor_domain::seal::Secret;
use conveyor_domain::signing_keys::{event_headers, signature_headers};
use conveyor_domain::webhook::{TestSent, WebhookConfig, WebhookEvent};
use conveyor_domain::{CallerId, Clock, Entropy, EventId, limits};
use conveyor_store::{Backend, Error, Result};
use std::fmt;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What delivers. One process may have it to run the loop, another only to send tests.
pub struct Notifier {
    pub backend: Backend,
    pub secret: Secret,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<Entropy>,
    pub receivers: Receivers,
    /// Where there are none, jobs with a task token are refused.
    pub machines: Option<Arc<dyn StateMachines>>,
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notifier").field("receivers", &self.receivers).finish_non_exhaustive()
    }
}

/// Delivers until `stop`, and then waits for what is under way.
pub async fn run(notifier: Arc<Notifier>, stop: CancellationToken) {
    let (turns, under_way) = (Arc::new(Semaphore::new(limits::DELIVERIES_INFLIGHT_MAX)), TaskTracker::new());
    while !stop.is_cancelled() {
        if let Err(error) = look(&notifier, &turns, &under_way).await {
            tracing::warn!(%error, "notifications that are due were not found; the next look may");
        }
        tokio::select! {
            () = tokio::time::sleep(limits::DELIVER_EVERY) => {}
            () = stop.cancelled() => {}
        }
    }
    under_way.close();
    under_way.wait().await;
}

async fn look(notifier: &Arc<Notifier>, turns: &Arc<Semaphore>, under_way: &TaskTracker) -> Result<()> {
    let free = u32::try_from(turns.available_permits()).unwrap_or(u32::MAX);
    if free == 0 {
        return Ok(());
    }
    let due = notifier.backend.store.due_records(RecordKind::Delivery, notifier.clock.now(), free).await?;
    for record in due {
        let Ok(turn) = turns.clone().try_acquire_owned() else { break };
        let notifier = notifier.clone();
        under_way.spawn(async move {
            let (job, event) = (record.key.owner.clone(), record.key.id.clone());
            if let Err(error) = notifier.deliver(record).await {
                tracing::warn!(%job, %event, %error, "a notification is left for the next look");
            }
            drop(turn);
        });
    }
    Ok(())
}

impl Notifier {
    /// Delivers everything that is due now, one after the other, and says how many there were.
    pub async fn deliver_due(&self) -> Result<usize> {
        let limit = u32::try_from(limits::DELIVERIES_INFLIGHT_MAX).unwrap_or(u32::MAX);
        let due = self.backend.store.due_records(RecordKind::Delivery, self.clock.now(), limit).await?;
        let found = due.len();
        for record in due {
            self.deliver(record).await?;
        }
        Ok(found)
    }

    /// Sends an event that did not happen. Nothing of it is kept.
    pub async fn send_test(&self, caller: CallerId, hook: &WebhookConfig) -> Result<TestSent> {
        let event = EventId::new(self.clock.now(), &self.entropy);
        let body = WebhookEvent::test(event, self.clock.now()).body();
        let began = Instant::now();
        let answer = self.post(caller, hook, event, &body).await?;
        Ok(TestSent { event, answer, elapsed_ms: elapsed_ms(began) })
    }

    pub(crate) async fn post(
        &self,
        caller: CallerId,
        hook: &WebhookConfig,
        event: EventId,
        body: &str,
    ) -> Result<Answer> {
        let now = self.clock.now();
        let mut headers = event_headers(event, now);
        if hook.signature {
            match active_key(&self.backend, &self.secret, caller).await {
                Ok(Some((kid, signing))) => {
                    headers.extend(signature_headers(&signing, kid, event, now, body));
                }
                // Better late than unsigned.
                Ok(None) => return Ok(Answer::Transport("there is no active signing key".to_owned())),
                Err(Error::Corrupt(why)) => {
                    tracing::error!(%caller, why, "a signing key does not open with the present secret");
                    return Ok(Answer::Transport("the signing key cannot be read".to_owned()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(self.receivers.post(&hook.url, &headers, body).await)
    }
}

pub(crate) fn elapsed_ms(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}
