//! Whether the process can serve (SPEC 15). An answer is used again for `READY_KEPT`, and requests that come meanwhile wait
//! for the same look: however often probes ask, the backend is asked once a second at most.

use crate::problem::{ApiError, Code, Result};
use crate::state::{ApiState, Shared};
use conveyor_domain::clock::watch::Watch;
use conveyor_domain::{QueueName, Timestamp, limits};
use conveyor_store::port::Reader;
use conveyor_store::{Error, clock_watch};
use futures::{FutureExt, TryFutureExt};
use std::sync::Arc;
use tokio::sync::Mutex;

#[derive(Debug, Default)]
pub(crate) struct Readiness(Arc<Mutex<Latest>>);

/// When the latest look was, and what it found.
type Latest = Option<(Timestamp, Look)>;

#[derive(Debug)]
struct Look {
    not_ready: Vec<NotReady>,
    watch: Option<Watch>,
}

/// One reason why the process is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NotReady {
    /// What is not ready: a stable name.
    what: &'static str,
    why: String,
    /// Something that an operator has to create; said to whoever asks.
    missing: Option<String>,
}

impl NotReady {
    fn because(what: &'static str, error: &Error) -> NotReady {
        let missing = match error {
            Error::Missing(missing) => Some(missing.clone()),
            _ => None,
        };
        NotReady { what, why: error.to_string(), missing }
    }

    fn shown(&self) -> String {
        self.missing.as_ref().map_or_else(|| self.what.to_owned(), |why| format!("{} ({why})", self.what))
    }
}

/// The time that sweepers have seen (SPEC 6.26), or an error that names every reason why the process is not ready.
pub(crate) async fn check(state: &Shared) -> Result<Option<Watch>> {
    let mut latest = state.readiness.0.clone().lock_owned().await;
    let is_fresh = |at: Timestamp| (at..at.after(limits::READY_KEPT)).contains(&state.now());
    if latest.as_ref().is_none_or(|(at, _)| !is_fresh(*at)) {
        // The lock goes with the look, which is finished even if the request is not: those behind it find the answer, and
        // probes that give up early do not make more looks.
        let state = state.clone();
        let looking = tokio::spawn(async move {
            let found = look(&state).await;
            *latest = Some((state.now(), found));
            latest
        });
        latest = looking.await.map_err(|error| ApiError::internal(error.to_string()))?;
    }
    let Some((_, Look { not_ready: reasons, watch })) = latest.as_ref() else { return Ok(None) };
    if reasons.is_empty() {
        return Ok(*watch);
    }
    let named: Vec<String> = reasons.iter().map(NotReady::shown).collect();
    let cause: Vec<String> =
        reasons.iter().map(|reason| format!("{}: {}", reason.what, reason.why)).collect();
    Err(ApiError::new(Code::Unavailable, format!("Not ready: {}.", named.join(", ")))
        .caused_by(cause.join("; ")))
}

/// Every reason, in the order of this list. More conditions are more entries.
async fn look(state: &ApiState) -> Look {
    let backend = &state.backend;
    // Not whether it is empty: that would be a look that a sweeper of this process counts as one of its own.
    let queue = backend.queue.depth(QueueName::Control, Reader::Role, state.now()).map_ok(drop).boxed();
    let within = |asked| tokio::time::timeout(limits::READY_WITHIN, asked);
    let (store, queue, objects, watch) = tokio::join!(
        within(backend.store.ready()),
        within(queue),
        within(backend.blobs.ready()),
        tokio::time::timeout(limits::READY_WITHIN, clock_watch::look(state.store()))
    );
    let asked = [("store", store), ("queue", queue), ("objects", objects)];
    let reason = |(what, answer)| match answer {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(NotReady::because(what, &error)),
        Err(_) => Some(NotReady { what, why: "no answer in time".to_owned(), missing: None }),
    };
    Look {
        not_ready: asked.into_iter().filter_map(reason).collect(),
        // A clock that is wrong is no reason not to serve: nothing is lost by it.
        watch: watch.ok().and_then(std::result::Result::ok).flatten(),
    }
}
