//! Ingests that nobody works on: their control message was lost, or whoever had it is gone (SPEC 6.13).
//!
//! Sending one message too many is harmless: the log decides who goes on. But a list that takes its ingester down every time
//! must not be tried for ever, so the tries without progress are counted, in the log itself.

use crate::{Sweep, or_leave};
use conveyor_domain::ingest::{IngestEvent, IngestState};
use conveyor_domain::message::{IngestRef, QueueName};
use conveyor_domain::{Timestamp, limits};
use conveyor_store::port::{Appended, Ingest, RunKey};
use conveyor_store::{Error, Result};

const RUNS_A_PAGE: u32 = 500;

pub async fn repair(sweep: &Sweep<'_>) -> Result<u64> {
    let (mut sent, mut after) = (0, None);
    loop {
        let page = sweep.backend.store.ingesting_runs(after, RUNS_A_PAGE).await?;
        let Some((last, _)) = page.last() else { return Ok(sent) };
        after = Some(last.run);
        let depth = sweep.backend.queue.depth(QueueName::Control, sweep.clock.now()).await?;
        if depth.visible > 0 {
            // Messages that nobody takes: the ingesters are busy, or there are none. More messages would not help.
            return Ok(sent);
        }
        // Asked for by itself: a count may be a moment old, and a message that is worked on look like none.
        let empty = sweep.backend.queue.is_empty(QueueName::Control, sweep.clock.now()).await?;
        let enough = if empty { limits::INGEST_QUIET } else { limits::INGEST_STALLED };
        for (key, last) in page {
            if sweep.stop.is_cancelled() {
                return Ok(sent);
            }
            if last.until(sweep.clock.now()) >= enough {
                sent += or_leave("stalled_ingest", key.run, call_again(sweep, key, last).await);
            }
        }
    }
}

async fn call_again(sweep: &Sweep<'_>, key: RunKey, seen: Timestamp) -> Result<u64> {
    let store = &sweep.backend.store;
    let Some(Ingest { run, log, .. }) = store.ingest(key).await? else { return Ok(0) };
    let corrupt = |e: conveyor_domain::ingest::LogOutOfOrder| Error::Corrupt(e.to_string());
    let state = IngestState::fold(&log).map_err(corrupt)?;
    let moved = log.last().is_some_and(|last| last.at > seen);
    if state.phase.is_over() || moved {
        return Ok(0);
    }
    let now = sweep.clock.now();
    // An ended run has only to be cut, which no list can keep from happening.
    if !run.status.is_terminal() {
        if state.dead_lettered {
            return Ok(0);
        }
        if state.resends >= limits::INGEST_RESENDS_MAX {
            let error = format!("no ingester got anywhere with it after {} calls", 1 + state.resends);
            let given_up = IngestEvent::AttemptFailed { error, dead_lettered: true };
            let entry = state.entry(given_up).map_err(corrupt)?;
            return Ok(u64::from(store.append(key, entry, now).await? == Appended::Done));
        }
    }
    let entry = state.entry(IngestEvent::Resent).map_err(corrupt)?;
    // The event first: it is what bounds the tries, and of several sweepers only one gets to send.
    if store.append(key, entry, now).await? != Appended::Done {
        return Ok(0);
    }
    let message = IngestRef { job: key.job, run: key.run, progress: state.progress };
    sweep.backend.queue.send(QueueName::Control, vec![message.to_string()], now).await?;
    Ok(1)
}
