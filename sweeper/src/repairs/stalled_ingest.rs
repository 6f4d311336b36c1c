//! Ingests that nobody works on: their control message was lost, or whoever had it is gone (SPEC 6.13).
//!
//! Sending one message too many is harmless: the log decides who goes on. But a list that takes its ingester down every time
//! must not be tried for ever, so the tries without progress are counted, in the log itself.

use crate::facts;
use crate::letters::{letter_of, state_of};
use crate::repair::{About, Fixed, Found, Look, Next, Pace, Repair, Scope, after, key_of, run_of};
use crate::sweep::Sweep;
use async_trait::async_trait;
use conveyor_domain::repair::{Finding, Kind, Subject};
use conveyor_domain::{IngestEvent, IngestRef, IngestState, QueueName, Run, Timestamp, limits};
use conveyor_store::port::{Appended, Emptiness, Ingest, Reader, RunKey};
use conveyor_store::{Backend, Error, Result};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

#[derive(Default)]
pub(super) struct StalledIngest {
    /// When messages were last seen waiting [ms]. An ingester receives even those that it passes over (SPEC 6.11), so that
    /// for a moment none is visible.
    waiting_seen: AtomicI64,
}

/// What is to be done about an ingest that nobody works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Call,
    GiveUp,
    /// It was given up, and nobody has said so to an operator.
    KeepLetter,
}

fn step(run: &Run, state: &IngestState, has_letter: bool) -> Option<Step> {
    // What has a letter is decided by it.
    if state.phase.is_over() || has_letter && state.dead_lettered {
        return None;
    }
    // An ended run has only to be cut, which no list can keep from happening.
    if run.status.is_terminal() {
        return Some(Step::Call);
    }
    Some(match state {
        state if state.dead_lettered => Step::KeepLetter,
        state if state.resends >= limits::INGEST_RESENDS_MAX => Step::GiveUp,
        _ => Step::Call,
    })
}

#[async_trait]
impl Repair for StalledIngest {
    fn about(&self) -> About {
        About::new("stalled_ingest", Kind::Damage, Pace::Messages)
    }

    async fn find(&self, look: &Look<'_>, from: Option<String>) -> Result<Found> {
        let (ingesting, next) = ingesting(look, from).await?;
        let mut found = Found::default();
        if ingesting.is_empty() {
            return Ok(found);
        }
        let (queue, now) = (&look.backend.queue, look.now());
        if queue.depth(QueueName::Control, Reader::Role, now).await?.visible > 0 {
            self.waiting_seen.store(now.as_ms(), Ordering::Relaxed);
            // Messages that nobody takes: the ingesters are busy, or there are none. More messages would not help.
            return Ok(found);
        }
        // Asked for by itself: a count may be a moment old, and a message that is worked on look like none.
        let (enough, state_of_queue) = match queue.emptiness(QueueName::Control, now).await? {
            Emptiness::Empty => (limits::INGEST_QUIET, "the control queue is empty"),
            Emptiness::Messages => (limits::INGEST_STALLED, "whoever has its message says nothing"),
            Emptiness::Unsure(until) => {
                if ingesting.iter().any(|(_, last)| last.until(now) >= limits::INGEST_QUIET) {
                    found.unsure.push((Subject::Queue(QueueName::Control), until));
                }
                (limits::INGEST_STALLED, "the control queue looks empty")
            }
        };
        let waiting_seen = Timestamp(self.waiting_seen.load(Ordering::Relaxed));
        let quiet = ingesting.into_iter().filter(|(_, last)| {
            let last = if enough == limits::INGEST_STALLED { (*last).max(waiting_seen) } else { *last };
            last.until(now) >= enough
        });
        let looks = quiet.map(|(key, _)| (Subject::from(key), self.explain(look, key, state_of_queue)));
        found.next = next;
        found.look_at_runs(self, look, looks.collect()).await
    }

    async fn fix(&self, sweep: &Sweep<'_>, finding: &Finding) -> Result<Fixed> {
        let (key, now) = (run_of(finding)?, sweep.clock.now());
        let Some(Stalled { run, state, quiet, has_letter }) = load(sweep.backend, key, now).await? else {
            return Ok(Fixed::NOTHING);
        };
        if quiet < limits::INGEST_QUIET {
            return Ok(Fixed::NOTHING);
        }
        match step(&run, &state, has_letter) {
            None => Ok(Fixed::NOTHING),
            Some(Step::Call) => call(sweep, key, &state).await,
            Some(Step::GiveUp) => give_up(sweep, key, &state).await,
            Some(Step::KeepLetter) => {
                sweep.backend.store.keep_letter(letter_of(key, &state, now)).await?;
                Ok(Fixed::ONE)
            }
        }
    }
}

impl StalledIngest {
    async fn explain(&self, look: &Look<'_>, key: RunKey, queue: &str) -> Result<Option<Finding>> {
        let Some(stalled) = load(look.backend, key, look.now()).await? else { return Ok(None) };
        let Stalled { run, state, quiet, has_letter } = stalled;
        let Some(step) = step(&run, &state, has_letter) else { return Ok(None) };
        let calls = 1 + state.resends;
        let remedy = match step {
            Step::Call => "sends the control message again".to_owned(),
            Step::GiveUp => format!("gives it up after {calls} calls, with a dead letter"),
            Step::KeepLetter => "keeps a dead letter of it, for an operator".to_owned(),
        };
        let last = facts::last_event(look.backend, key, look.now()).await?;
        let for_how_long = facts::span(quiet);
        let why = format!(
            "its list is not read to the end, nothing was logged for {for_how_long} after {calls} calls, and {queue}; {last}"
        );
        Ok(Some(self.about().finding(Subject::from(key), why, remedy)))
    }
}

/// Runs whose list is not all there, with when their log last said something.
async fn ingesting(
    look: &Look<'_>,
    from: Option<String>,
) -> Result<(Vec<(RunKey, Timestamp)>, Option<Next>)> {
    if look.scope == Scope::All {
        let runs = look.backend.store.ingesting_runs(after(from)?, look.page()).await?;
        let full = runs.len() >= look.page() as usize;
        let next = runs.last().filter(|_| full).map(|(last, _)| Next::After(last.run.to_string()));
        return Ok((runs, next));
    }
    let (runs, next) = look.runs_from(from).await?;
    let mut ingesting = Vec::new();
    for key in runs.iter().filter(|active| active.run.is_ingesting()).map(key_of) {
        let last = match look.backend.store.ingest(key, Reader::Role).await {
            Ok(Some(Ingest { log, .. })) => log.last().map(|last| last.at),
            Ok(None) => continue,
            // Then it has said nothing that anybody could read.
            Err(Error::Corrupt(_)) => None,
            Err(error) => return Err(error),
        };
        ingesting.push((key, last.unwrap_or(Timestamp(0))));
    }
    Ok((ingesting, next))
}

struct Stalled {
    run: Run,
    state: IngestState,
    quiet: Duration,
    has_letter: bool,
}

async fn load(backend: &Backend, key: RunKey, now: Timestamp) -> Result<Option<Stalled>> {
    let Some(ingest) = backend.store.ingest(key, Reader::Role).await? else { return Ok(None) };
    let state = state_of(&ingest)?;
    let quiet = ingest.log.last().map_or(Duration::MAX, |last| last.at.until(now));
    let has_letter =
        state.dead_lettered && backend.store.letter(letter_of(key, &state, now).id).await?.is_some();
    Ok(Some(Stalled { run: ingest.run, state, quiet, has_letter }))
}

/// The event first: it is what bounds the tries, and of several sweepers only one gets to send.
async fn call(sweep: &Sweep<'_>, key: RunKey, state: &IngestState) -> Result<Fixed> {
    if append(sweep, key, state, IngestEvent::Resent).await? != Appended::Done {
        return Ok(Fixed::NOTHING);
    }
    let message = IngestRef { job: key.job, run: key.run, progress: state.progress };
    sweep.backend.queue.send(QueueName::Control, vec![message.to_string()], sweep.clock.now()).await?;
    Ok(Fixed::ONE)
}

/// The event first here as well: a crash before the letter leaves what is found as given up without one.
async fn give_up(sweep: &Sweep<'_>, key: RunKey, state: &IngestState) -> Result<Fixed> {
    let error = format!("no ingester got anywhere with it after {} calls", 1 + state.resends);
    let event = IngestEvent::AttemptFailed { error, dead_lettered: true };
    if append(sweep, key, state, event).await? != Appended::Done {
        return Ok(Fixed::NOTHING);
    }
    sweep.backend.store.keep_letter(letter_of(key, state, sweep.clock.now())).await?;
    Ok(Fixed::ONE)
}

async fn append(sweep: &Sweep<'_>, key: RunKey, state: &IngestState, event: IngestEvent) -> Result<Appended> {
    let entry = state.entry(event)?;
    sweep.backend.store.append(key, entry, sweep.clock.now()).await
}
