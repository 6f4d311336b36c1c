//! One try of one notification: claim, send, write down what came of it.

use crate::desk::Sent;
use crate::notifier::{Notifier, elapsed_ms};
use async_trait::async_trait;
use conveyor_domain::delivery::webhook::Target;
use conveyor_domain::delivery::{Answer, Verdict};
use conveyor_domain::job::record::Expected;
use conveyor_domain::{
    Command, Delivery, DeliveryState, EventType, JobStatus, Purpose, Record, RecordVersion, RecordWrite,
    Timestamp, WebhookConfig, limits,
};
use conveyor_store::{Error, Result, clock_watch};
use serde_json::Value;
use tokio::time::Instant;

/// A service that runs state machines, which wait for a run. Every answer is one of a delivery: `Taken`, `Refused` for what will never be taken, or one that
/// is worth another try.
#[async_trait]
pub trait StateMachines: Send + Sync {
    async fn succeed(&self, token: &str, output: &str) -> Answer;
    async fn fail(&self, token: &str, error: &str, cause: &str) -> Answer;
}

/// Who gets it, as the job says now.
enum Aim {
    Webhook(WebhookConfig),
    Machine {
        token: String,
    },
    /// Its token does not open with the present secret: whoever starts a process with the right one goes on.
    Sealed,
    /// Nobody any more; why.
    Nobody(&'static str),
}

impl Notifier {
    /// Tries a notification that is due, and returns what was sent. Somebody else's is left alone.
    pub async fn deliver(&self, record: Record) -> Result<Option<Sent>> {
        let now = self.clock.now();
        let parsed = record.parse::<Delivery>();
        let Ok(mut delivery) = parsed else {
            tracing::error!(key = ?record.key, "a notification cannot be read, and is not tried");
            return self.let_be(record).await.map(|()| None);
        };
        let store = self.backend.store.as_ref();
        let is_late = now >= delivery.deadline() || record.is_over(now);
        let removal_time = clock_watch::judged_at(store, is_late, now).await?;
        if delivery.state != DeliveryState::Pending || record.is_over(removal_time) {
            return self.let_be(record).await.map(|()| None);
        }
        let aim = self.aim(&delivery).await?;
        if let Aim::Nobody(why) = aim {
            delivery.cancel(why);
            if self.write(&delivery, record.version, None).await?.is_some() {
                count(DeliveryState::Cancelled);
            }
            return Ok(None);
        }
        delivery.start(now);
        // The claim: whoever loses it sends nothing.
        let lease = Some(now.after(limits::DELIVERY_LEASE));
        let Some(claimed) = self.write(&delivery, record.version, lease).await? else { return Ok(None) };
        let began = Instant::now();
        let answer = self.send(&aim, &delivery).await?;
        let sent = Sent { heard: answer.was_heard(), took: began.elapsed() };
        if let (Verdict::Gone, Aim::Webhook(hook)) = (answer.verdict(), &aim) {
            // First: a crash behind it finds a webhook that is disabled, and sends nothing again.
            self.disable(&delivery, &hook.url).await?;
        }
        let now = self.clock.now();
        let removal_time = clock_watch::judged_at(store, now >= delivery.deadline(), now).await?;
        let due = delivery.settle(&answer, elapsed_ms(began), now, removal_time, &self.entropy);
        // Who lost it here was replayed, or slower than its lease: the notification is tried again, under the same id.
        if self.write(&delivery, claimed, due).await?.is_some() {
            count(delivery.state);
        }
        Ok(Some(sent))
    }

    async fn aim(&self, delivery: &Delivery) -> Result<Aim> {
        match delivery.target {
            Target::Webhook => {
                let job = self.backend.store.job(None, delivery.job).await?.map(|view| view.job);
                let Some(job) = job.filter(|job| job.status != JobStatus::Deleted) else {
                    return Ok(Aim::Nobody("the job was deleted"));
                };
                Ok(match &job.spec.webhook {
                    Some(hook) if hook.is_enabled() => Aim::Webhook(hook.clone()),
                    Some(_) => Aim::Nobody("the job's webhook is disabled"),
                    None => Aim::Nobody("the job has no webhook any more"),
                })
            }
            Target::StepFunctions => {
                let Some(sealed) = &delivery.token else { return Ok(Aim::Nobody("there is no task token")) };
                let context = delivery.caller.to_string();
                let opened = self.secret.open(Purpose::TaskToken, &context, sealed).ok();
                Ok(match opened.and_then(|bytes| String::from_utf8(bytes).ok()) {
                    Some(token) => Aim::Machine { token },
                    None => Aim::Sealed,
                })
            }
        }
    }

    async fn send(&self, aim: &Aim, delivery: &Delivery) -> Result<Answer> {
        match aim {
            Aim::Webhook(hook) => self.post(delivery.caller, hook, delivery.event, &delivery.body).await,
            Aim::Machine { token } => Ok(match &self.machines {
                Some(machines) => tell(machines.as_ref(), token, delivery).await,
                None => Answer::Transport("state machines cannot be reached from here".to_owned()),
            }),
            Aim::Sealed => {
                let why = "the task token does not open with the present secret".to_owned();
                tracing::error!(job = %delivery.job, event = %delivery.event, "{why}; it waits");
                Ok(Answer::Transport(why))
            }
            Aim::Nobody(why) => Ok(Answer::Refused((*why).to_owned())),
        }
    }

    async fn disable(&self, delivery: &Delivery, url: &str) -> Result<()> {
        let reason = "the receiver answered 410 Gone".to_owned();
        let command = Command::DisableWebhook { url: url.to_owned(), reason };
        match self.backend.store.apply(delivery.job, command, self.clock.now()).await {
            Ok(_) | Err(Error::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Writes unless somebody else did; then `None`.
    async fn write(
        &self,
        delivery: &Delivery,
        seen: RecordVersion,
        due: Option<Timestamp>,
    ) -> Result<Option<RecordVersion>> {
        let version = RecordVersion::new(&self.entropy);
        let write = RecordWrite::put(delivery.record(version, due), Expected::Version(seen));
        Ok(self.backend.store.write_record(write).await?.then_some(version))
    }

    /// Nobody has to look at it any more.
    async fn let_be(&self, record: Record) -> Result<()> {
        let seen = Expected::Version(record.version);
        let record = Record { version: RecordVersion::new(&self.entropy), due: None, ..record };
        self.backend.store.write_record(RecordWrite::put(record, seen)).await.map(|_| ())
    }
}

fn count(state: DeliveryState) {
    let outcome = match state {
        DeliveryState::Pending => "retried",
        DeliveryState::Delivered | DeliveryState::Failed | DeliveryState::Cancelled => state.as_str(),
    };
    metrics::counter!("conveyor_deliveries_total", "outcome" => outcome).increment(1);
}

/// Tells a state machine how the run that it waits for has ended.
async fn tell(machines: &dyn StateMachines, token: &str, delivery: &Delivery) -> Answer {
    let error = match delivery.kind {
        EventType::RunCompleted | EventType::Test => return machines.succeed(token, &delivery.body).await,
        EventType::RunFailed => "run_failed",
        EventType::RunStopped => "run_stopped",
        EventType::RunDeleted => "run_deleted",
    };
    let event: Value = serde_json::from_str(&delivery.body).unwrap_or_default();
    let reason = event["failure_reason"].as_str().unwrap_or(error);
    let cause = event["failure_detail"].as_str().unwrap_or_default();
    machines.fail(token, reason, cause).await
}
