//! One notification on its way: when it is tried, what came of each try, and when it is over (SPEC 6.21). Pure; who sends it
//! is the deliverer.

pub mod signing_keys;
pub mod webhook;

use crate::delivery::webhook::Target;
use crate::job::failure::cut;
use crate::{
    CallerId, Entropy, EventId, EventType, Job, JobId, JobStatus, Record, RecordKey, RecordKind,
    RecordVersion, Run, RunId, RunStats, RunStatus, Sealed, Timestamp, WebhookConfig, WebhookEvent, limits,
};
use serde::{Deserialize, Serialize};

crate::words! {
    pub enum DeliveryState as json {
        Pending = "pending",
        Delivered = "delivered",
        /// Nobody will try again by itself.
        Failed = "failed",
        /// There is nobody to tell any more.
        Cancelled = "cancelled",
    }
}

/// Stored as JSON: new fields need a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    pub event: EventId,
    pub kind: EventType,
    pub target: Target,
    pub caller: CallerId,
    pub job: JobId,
    pub run: RunId,
    /// When it happened. What is kept of it is kept from then on.
    pub occurred: Timestamp,
    /// What is sent, to the byte: fixed when it happened, because it is signed and may be sent more than once.
    pub body: String,
    /// For a state machine: what it is answered with, sealed for the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Sealed>,
    /// The job's receiver when it happened. A hint for who takes turns with whom: what is sent goes where the job says then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver: Option<String>,
    pub state: DeliveryState,
    /// Why it is failed or cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The latest, oldest first.
    #[serde(default)]
    pub attempts: Vec<Attempt>,
    #[serde(default)]
    pub attempts_made: u32,
    /// When it was first due, or last replayed: retries go on from there.
    pub since: Timestamp,
    #[serde(default)]
    pub attempts_since: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub started: Timestamp,
    /// Nothing yet: it is under way, or whoever made it did not live to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<AttemptEnd>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptEnd {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_code: Option<u16>,
    /// None if it was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub elapsed_ms: u64,
}

/// What came of a try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Status(u16),
    Timeout,
    /// Not connected, or broken off; in words.
    Transport(String),
    /// A service took it, without a status of HTTP that would mean something.
    Taken,
    /// A service will never take it; why, as a code.
    Refused(String),
}

/// What follows from an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Delivered,
    Again,
    /// The receiver wants nothing more, ever.
    Gone,
    Never,
}

impl Answer {
    pub fn verdict(&self) -> Verdict {
        match self {
            Answer::Taken | Answer::Status(200..=299) => Verdict::Delivered,
            Answer::Status(410) => Verdict::Gone,
            Answer::Refused(_) => Verdict::Never,
            // Redirects too: a notification is not carried to where its caller did not send it.
            Answer::Status(_) | Answer::Timeout | Answer::Transport(_) => Verdict::Again,
        }
    }

    /// Whether somebody was there, whatever the answer was.
    pub fn was_heard(&self) -> bool {
        match self {
            Answer::Status(_) | Answer::Taken | Answer::Refused(_) => true,
            Answer::Timeout | Answer::Transport(_) => false,
        }
    }

    pub fn status_code(&self) -> Option<u16> {
        match self {
            Answer::Status(code) => Some(*code),
            Answer::Timeout | Answer::Transport(_) | Answer::Taken | Answer::Refused(_) => None,
        }
    }

    /// In the words of the batch client; `None` if it was taken.
    pub fn error(&self) -> Option<String> {
        match self {
            Answer::Taken | Answer::Status(200..=299) => None,
            Answer::Status(code) => Some(format!("http_{}xx:{code}", code / 100)),
            Answer::Timeout => Some("timeout".to_owned()),
            Answer::Transport(why) => {
                Some(format!("transport_error:{}", cut(why, limits::DELIVERY_ERROR_MAX_CHARS)))
            }
            Answer::Refused(why) => Some(cut(why, limits::DELIVERY_ERROR_MAX_CHARS).to_owned()),
        }
    }

    fn ended(&self, elapsed_ms: u64) -> AttemptEnd {
        AttemptEnd { status_code: self.status_code(), error: self.error(), elapsed_ms }
    }
}

/// Whom the end of a run has to be told to.
pub fn of_ended_run(job: &Job, run: &Run, stats: RunStats) -> Vec<Delivery> {
    let kind = match run.status {
        RunStatus::Running | RunStatus::Pending => return Vec::new(),
        RunStatus::Completed => EventType::RunCompleted,
        RunStatus::Failed => EventType::RunFailed,
        RunStatus::Stopped => EventType::RunStopped,
        RunStatus::Deleted => EventType::RunDeleted,
    };
    let hook = job.spec.webhook.as_ref().filter(|hook| hook.is_enabled());
    // Whoever stopped it knows.
    let told = matches!(run.status, RunStatus::Completed | RunStatus::Failed);
    // A token is good for one answer: that to the run that was submitted with it.
    let token = job.spec.sfn_task_token.as_ref().filter(|_| run.sequence == 1);
    let hook = hook.filter(|_| told).map(|_| Delivery::new(Target::Webhook, kind, job, run, stats));
    let machine = token.map(|token| Delivery {
        token: Some(token.clone()),
        ..Delivery::new(Target::StepFunctions, kind, job, run, stats)
    });
    hook.into_iter().chain(machine).collect()
}

/// What should be on its way, or delivered, because of a run that ended not long ago. A webhook that came later than the end
/// was not to be told.
pub fn missed(job: &Job, run: &Run, stats: RunStats, now: Timestamp) -> Vec<Delivery> {
    if run.updated.after(limits::DELIVERY_TRIED_FOR) <= now || job.status == JobStatus::Deleted {
        return Vec::new();
    }
    let since = job.spec.webhook.as_ref().map(|hook| hook.since);
    let was_there = |delivery: &Delivery| match delivery.target {
        Target::Webhook => since.is_some_and(|since| since <= run.updated),
        Target::StepFunctions => true,
    };
    of_ended_run(job, run, stats).into_iter().filter(was_there).collect()
}

impl Delivery {
    fn new(target: Target, kind: EventType, job: &Job, run: &Run, stats: RunStats) -> Delivery {
        let event = target.event_of(run.id);
        // The total may have been settled by the very change that ended it.
        let stats = RunStats { total: run.total, ..stats };
        Delivery {
            event,
            kind,
            target,
            caller: job.caller,
            job: job.id,
            run: run.id,
            occurred: run.updated,
            body: WebhookEvent::of(event, kind, job, run, stats).body(),
            token: None,
            receiver: job
                .spec
                .webhook
                .as_ref()
                .filter(|_| target == Target::Webhook)
                .map(WebhookConfig::receiver),
            state: DeliveryState::Pending,
            reason: None,
            attempts: Vec::new(),
            attempts_made: 0,
            since: run.updated,
            attempts_since: 0,
        }
    }

    /// Deliveries with the same value go to the same receiver, as far as that was known when they were written.
    pub fn receiver(&self) -> String {
        match (self.target, &self.receiver) {
            (Target::StepFunctions, _) => self.target.as_str().to_owned(),
            (Target::Webhook, Some(receiver)) => receiver.clone(),
            (Target::Webhook, None) => self.job.to_string(),
        }
    }

    pub fn key(&self) -> RecordKey {
        delivery_key(self.job, self.event)
    }

    /// As it is stored. `due`: when somebody has to look at it next.
    pub fn record(&self, version: RecordVersion, due: Option<Timestamp>) -> Record {
        let expires = self.occurred.after(limits::DELIVERY_KEPT);
        Record::new(self.key(), version, self).due(due).expires(Some(expires))
    }

    /// Whether a try is under way, or was when whoever made it ended.
    pub fn is_open(&self) -> bool {
        self.attempts.last().is_some_and(|attempt| attempt.ended.is_none())
    }

    /// A try begins. One before it that nobody saw the end of stays without one: it may have arrived.
    pub fn start(&mut self, now: Timestamp) {
        self.attempts.push(Attempt { started: now, ended: None });
        let over = self.attempts.len().saturating_sub(limits::DELIVERY_ATTEMPTS_KEPT);
        self.attempts.drain(..over);
        self.attempts_made += 1;
        self.attempts_since += 1;
    }

    /// From then on it is given up.
    pub fn deadline(&self) -> Timestamp {
        self.since.after(limits::DELIVERY_TRIED_FOR)
    }

    /// What came of the try that was begun last. Returns when the next is due. Whether it is given up goes by
    /// `removal_time`, which is not the time while that is in doubt (SPEC 6.26).
    pub fn settle(
        &mut self,
        answer: &Answer,
        elapsed_ms: u64,
        now: Timestamp,
        removal_time: Timestamp,
        entropy: &Entropy,
    ) -> Option<Timestamp> {
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.ended = Some(answer.ended(elapsed_ms));
        }
        match answer.verdict() {
            Verdict::Delivered => self.end(DeliveryState::Delivered, None),
            Verdict::Gone => self.end(DeliveryState::Failed, Some("the receiver is gone (410)")),
            Verdict::Never => self.end(DeliveryState::Failed, Some("it will never be taken")),
            Verdict::Again => match self.next_try(now, removal_time, entropy) {
                Some(due) => return Some(due),
                None => self.end(DeliveryState::Failed, Some("given up after 3 days")),
            },
        }
        None
    }

    pub fn cancel(&mut self, why: &str) {
        self.end(DeliveryState::Cancelled, Some(why));
    }

    /// From the start again, under the same id.
    pub fn replay(&mut self, now: Timestamp) {
        self.state = DeliveryState::Pending;
        self.reason = None;
        self.since = now;
        self.attempts_since = 0;
    }

    fn end(&mut self, state: DeliveryState, reason: Option<&str>) {
        self.state = state;
        self.reason = reason.map(str::to_owned);
    }

    /// When it is tried again, or `None` if the last try was the one at the end of its time.
    fn next_try(&self, now: Timestamp, removal_time: Timestamp, entropy: &Entropy) -> Option<Timestamp> {
        let deadline = self.deadline();
        if removal_time >= deadline {
            return None;
        }
        let pauses = &limits::DELIVERY_PAUSES;
        let made = usize::try_from(self.attempts_since).unwrap_or(usize::MAX);
        let pause = pauses[made.saturating_sub(1).min(pauses.len() - 1)];
        // A receiver that was down is not to be met by everybody at once.
        let due = now.after(pause.mul_f64(0.8 + 0.4 * entropy.unit()));
        Some(if now < deadline { due.min(deadline) } else { due })
    }
}

pub fn delivery_key(job: JobId, event: EventId) -> RecordKey {
    RecordKey::new(RecordKind::Delivery, job, event)
}

#[cfg(test)]
#[path = "delivery_tests.rs"]
mod tests;
