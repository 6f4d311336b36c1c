//! The loop of an ingester: takes control messages, keeps them while it works on them, and gives each the end it deserves.

use crate::Ingester;
use crate::attempt::{End, Trouble};
use crate::intake::{Intake, Looked};
use conveyor_domain::{Exponential, IngestEvent, IngestRef, QueueName, limits};
use conveyor_store::port::{Delivery, Receipt, RunKey};
use conveyor_turns::Working;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often an idle ingester looks for itself.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long messages that found no place wait for the next look, unless a place becomes free.
const PASSED_OVER_PAUSE: Duration = Duration::from_secs(1);
/// How long a try that failed waits for the next; doubles with each.
const RETRY: Exponential = Exponential::new(Duration::from_secs(1), Duration::from_secs(30));

/// Ingests until `stop`. Steps that are under way then are finished, and the messages given back.
pub async fn run(ingester: Arc<Ingester>, stop: CancellationToken) {
    let mut changes = ingester.backend.changes();
    let (mut intake, mut working) = (Intake::new(ingester.config.ingests_max), Working::default());
    while !stop.is_cancelled() {
        let is_full = intake.is_full();
        let looked = if is_full {
            intake.give_back(&ingester).await;
            Looked::default()
        } else {
            intake.look(&ingester).await
        };
        let begun = !looked.begin.is_empty();
        for (ticket, delivery) in looked.begin {
            let (ingester, stop) = (ingester.clone(), stop.clone());
            working.spawn(ticket, async move { handle(&ingester, delivery, &stop).await });
        }
        if looked.again || begun && !looked.passed_over {
            continue;
        }
        // Messages that were passed over can be received again at once: what was sent is no news.
        let pause = if looked.passed_over { PASSED_OVER_PAUSE } else { LOOK_EVERY };
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
            Ok(()) = changes.changed(), if !is_full && !looked.passed_over => {}
            (ticket, _) = working.ended() => intake.leave(ticket),
        }
    }
    while !working.is_empty() {
        let (ticket, _) = working.ended().await;
        intake.leave(ticket);
    }
    intake.give_back(&ingester).await;
}

/// What becomes of a message.
enum Fate {
    Acknowledge,
    /// Comes back by itself once its visibility ends.
    Leave,
    GiveBack(Duration),
    /// There was progress since it was sent: a fresh one takes its place, with all its tries.
    Replace(IngestRef),
}

/// Works on one control message, and gives it its end.
pub async fn handle(ingester: &Ingester, delivery: Delivery, stop: &CancellationToken) {
    let Ok(message) = delivery.body.parse::<IngestRef>() else {
        tracing::error!(
            body = delivery.body,
            "not a message that this version knows; it will be a dead letter"
        );
        let receipt = delivery.receipt;
        settle(ingester, receipt, Fate::GiveBack(RETRY.delay(delivery.receives))).await;
        return;
    };
    let mut receipt = delivery.receipt;
    let working = work_on(ingester, message, delivery.receives, stop);
    tokio::pin!(working);
    let fate = loop {
        tokio::select! {
            fate = &mut working => break fate,
            () = tokio::time::sleep(limits::extend_every(ingester.config.visibility)) => keep(ingester, &mut receipt).await,
        }
    };
    settle(ingester, receipt, fate).await;
}

/// Hides the message for longer. That it became somebody else's does not end the work: the log decides who goes on.
async fn keep(ingester: &Ingester, receipt: &mut Receipt) {
    let (queue, now) = (&ingester.backend.queue, ingester.clock.now());
    let kept = queue.extend(QueueName::Control, vec![receipt.clone()], ingester.config.visibility, now).await;
    if let Ok(kept) = kept
        && let [Some(fresh)] = &kept[..]
    {
        *receipt = fresh.clone();
    }
}

async fn settle(ingester: &Ingester, receipt: Receipt, fate: Fate) {
    let (queue, now) = (&ingester.backend.queue, ingester.clock.now());
    let control = QueueName::Control;
    let outcome = match fate {
        Fate::Leave => Ok(()),
        Fate::Acknowledge => queue.ack(control, vec![receipt]).await,
        Fate::GiveBack(delay) => queue.release(control, vec![(receipt, delay)], now).await,
        // First the new one: a crash between the two leaves one too many, never none.
        Fate::Replace(fresh) => match queue.send(control, vec![fresh.to_string()], now).await {
            Ok(()) => queue.ack(control, vec![receipt]).await,
            Err(error) => Err(error),
        },
    };
    if let Err(error) = outcome {
        tracing::warn!(%error, "a control message could not be settled; it comes back");
    }
}

async fn work_on(ingester: &Ingester, message: IngestRef, receives: u32, stop: &CancellationToken) -> Fate {
    let key = RunKey { job: message.job, run: message.run };
    if receives > 1
        && let Ok(Some(work)) = ingester.load(key).await
        && work.state.progress > message.progress
    {
        return Fate::Replace(IngestRef { progress: work.state.progress, ..message });
    }
    let ended = ingester.ingest(key, stop).await;
    let name = match &ended {
        Ok(End::Over) => "over",
        Ok(End::Gone) => "gone",
        Ok(End::Lost) => "lost",
        Ok(End::Stopped) => "stopped",
        Err(_) => "failed",
    };
    metrics::counter!("conveyor_ingest_attempts_total", "end" => name).increment(1);
    match ended {
        Ok(End::Over | End::Gone) => Fate::Acknowledge,
        // Whoever won works under its own message. Ours comes back and finds the ingest over.
        Ok(End::Lost) => Fate::Leave,
        Ok(End::Stopped) => Fate::GiveBack(Duration::ZERO),
        Err(trouble) => {
            let last = receives >= limits::CONTROL_MAX_RECEIVES;
            tracing::warn!(run = %key.run, receives, last, error = %trouble, "an ingest could not go on");
            match note_failure(ingester, message, &trouble, last).await {
                // The last try got further, so it is not one of many without progress.
                Some(progress) if last && progress > message.progress => {
                    Fate::Replace(IngestRef { progress, ..message })
                }
                // The next receive finds that it was the last one, and makes it a dead letter.
                Some(_) | None => Fate::GiveBack(if last { Duration::ZERO } else { RETRY.delay(receives) }),
            }
        }
    }
}

/// Best effort: what keeps an ingest from going on may well keep this from being written. How far the ingest is, if that
/// can be told.
async fn note_failure(ingester: &Ingester, message: IngestRef, trouble: &Trouble, last: bool) -> Option<u32> {
    let key = RunKey { job: message.job, run: message.run };
    let mut work = ingester.load(key).await.ok()??;
    let progress = work.state.progress;
    if !work.state.phase.is_over() {
        let dead_lettered = last && progress <= message.progress;
        let error =
            conveyor_domain::job::failure::cut(&trouble.to_string(), limits::FAILURE_DETAIL_MAX_CHARS)
                .to_owned();
        let _ = work.append(IngestEvent::AttemptFailed { error, dead_lettered }).await;
    }
    Some(progress)
}
