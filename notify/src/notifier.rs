//! The loop: finds what is due, and has at most so many of it under way, in turns.

use crate::deliver::StateMachines;
use crate::desk::{Desk, Sent};
use crate::receivers::Receivers;
use conveyor_domain::delivery::Answer;
use conveyor_domain::delivery::signing_keys::{event_headers, signature_headers, signing_keys_key};
use conveyor_domain::{
    CallerId, Clock, Entropy, EventId, KeyId, RecordKey, RecordKind, Secret, SigningKeys, SigningSecret,
    TestSent, WebhookConfig, WebhookEvent, limits,
};
use conveyor_store::{Backend, Error, Result};
use conveyor_turns::Working;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How often tries that take long are looked for, while any are under way.
const SHIFT_EVERY: Duration = Duration::from_millis(100);

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
    let (mut desk, mut working) = (Desk::new(), Working::default());
    let mut next_look = Instant::now();
    while !stop.is_cancelled() {
        if Instant::now() >= next_look {
            if let Err(error) = desk.look(&notifier.backend.store, notifier.clock.now()).await {
                tracing::warn!(%error, "notifications that are due were not found; the next look may");
            }
            next_look = Instant::now() + limits::DELIVER_EVERY;
        }
        desk.shift(working.tickets_mut(), Instant::now());
        while let Some(ticket) = desk.next(Instant::now()) {
            let (notifier, key) = (notifier.clone(), ticket.key.clone());
            working.spawn(ticket, async move { notifier.deliver_at(&key).await });
        }
        let wake = if working.is_empty() { next_look } else { next_look.min(Instant::now() + SHIFT_EVERY) };
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep_until(wake) => {}
            (ticket, sent) = working.ended() => desk.end(&ticket, sent.flatten()),
        }
    }
    while !working.is_empty() {
        working.ended().await;
    }
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

    /// One try of a notification that was due. What was sent, if anything.
    async fn deliver_at(&self, key: &RecordKey) -> Option<Sent> {
        let now = self.clock.now();
        let tried = match self.backend.store.record(key).await {
            Ok(Some(record)) if record.due.is_some_and(|due| due <= now) => self.deliver(record).await,
            Ok(_) => Ok(None),
            Err(error) => Err(error),
        };
        tried.unwrap_or_else(|error| {
            let (job, event) = (&key.owner, &key.id);
            tracing::warn!(%job, %event, %error, "a notification is left for the next look");
            None
        })
    }

    /// Sends an event that did not happen. Nothing of it is kept.
    pub async fn send_test(&self, caller: CallerId, hook: &WebhookConfig) -> Result<TestSent> {
        let event = EventId::new(self.clock.now(), &self.entropy);
        let body = WebhookEvent::test(event, self.clock.now()).body();
        let began = Instant::now();
        let answer = self.post(caller, hook, event, &body).await?;
        Ok(TestSent { event, answer, elapsed_ms: elapsed_ms(began) })
    }

    /// The key that a caller's notifications are signed with, if it has one.
    async fn active_key(&self, caller: CallerId) -> Result<Option<(KeyId, SigningSecret)>> {
        let record = self.backend.store.record(&signing_keys_key(caller)).await?;
        let Some(record) = record else { return Ok(None) };
        let keys: SigningKeys = record.parse()?;
        let Some(key) = keys.active else { return Ok(None) };
        let opened = key.open(caller, &self.secret).map_err(|e| Error::Corrupt(e.to_string()))?;
        Ok(Some((key.kid, opened)))
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
            match self.active_key(caller).await {
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
        Ok(self.receivers.post(caller, &hook.url, &headers, body).await)
    }
}

pub(crate) fn elapsed_ms(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}
