//! Events of a job as they happen, in the format of server-sent events.

use crate::problem::{Code, Result};
use crate::shares::Place;
use crate::show;
use crate::state::Shared;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use conveyor_domain::{CallerId, JobId, JobStatus, RunId, TimelineEntry, limits};
use futures::{StreamExt, stream};
use std::convert::Infallible;
use std::fmt::Write;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

pub(crate) const CONTENT_TYPE: &str = "text/event-stream";

/// How soon a client that lost us comes back.
const HELLO: &str = "retry: 1000\n\n";
const HEARTBEAT: &str = ": still here\n\n";
/// The time between two looks of one caller's streams.
const LOOK: Duration = Duration::from_millis(1_000 / limits::EVENT_LOOKS_PER_SECOND as u64);

pub(crate) fn answer(
    state: Shared,
    caller: CallerId,
    job: JobId,
    hidden: Option<RunId>,
    after: u64,
) -> Result<Response> {
    let detail = "The caller has as many event streams as it may; end one, or ask for pages.";
    let place = state.streams.take(caller).map_err(|full| full.refuse(Code::TooManyStreams, detail))?;
    let following = Following::new(state, caller, job, hidden, after, place);
    let events = stream::unfold(following, |mut following| async move {
        let text = following.next().await?;
        Some((text, following))
    });
    let hello = stream::once(async { HELLO.to_owned() });
    let body = hello.chain(events).map(|text| Ok::<_, Infallible>(Bytes::from(text)));
    // A proxy that gathers an answer before it passes it on would keep events back.
    let headers = [("content-type", CONTENT_TYPE), ("x-accel-buffering", "no")];
    Ok((headers, Body::from_stream(body)).into_response())
}

/// A caller that follows a job.
struct Following {
    state: Shared,
    caller: CallerId,
    job: JobId,
    /// A run of it that nobody can look at.
    hidden: Option<RunId>,
    after: u64,
    changes: watch::Receiver<u64>,
    shutting_down: watch::Receiver<bool>,
    /// When events were last looked for, the job was last looked at, and something was last said.
    looked: Instant,
    checked: Instant,
    said: Instant,
    place: Place<CallerId>,
}

impl Following {
    fn new(
        state: Shared,
        caller: CallerId,
        job: JobId,
        hidden: Option<RunId>,
        after: u64,
        place: Place<CallerId>,
    ) -> Following {
        let (changes, shutting_down) = (state.backend.changes(), state.shutting_down.clone());
        let (looked, checked, said) = (Instant::now(), Instant::now(), Instant::now());
        Following { state, caller, job, hidden, after, changes, shutting_down, looked, checked, said, place }
    }

    /// The next thing to say; `None` at the end of the job, or of this process.
    async fn next(&mut self) -> Option<String> {
        let text = match self.find().await {
            Ok(text) => text?,
            // The client comes back, and says what it has.
            Err(error) => {
                tracing::warn!(job = %self.job, %error, "a stream of events ends");
                return None;
            }
        };
        self.said = Instant::now();
        Some(text)
    }

    async fn find(&mut self) -> conveyor_store::Result<Option<String>> {
        loop {
            self.changes.mark_unchanged();
            self.looked = Instant::now();
            // Asked before the events are read: nothing can happen to a job after its end, so then they are all of them.
            let ended = self.has_ended().await?;
            let page = self.state.store().events(self.job, self.after, limits::EVENTS_PAGE_MAX);
            let entries = self.state.list_stored(self.caller, page).await?;
            if let Some(last) = entries.last() {
                self.after = last.number;
                return Ok(Some(entries.iter().map(|entry| said(entry, self.hidden)).collect()));
            }
            if ended || self.wait().await.is_none() {
                return Ok(None);
            }
            if self.said.elapsed() >= limits::EVENTS_HEARTBEAT_EVERY {
                return Ok(Some(HEARTBEAT.to_owned()));
            }
        }
    }

    async fn has_ended(&mut self) -> conveyor_store::Result<bool> {
        if self.checked.elapsed() < limits::EVENTS_LOOK_EVERY {
            return Ok(false);
        }
        self.checked = Instant::now();
        let found = self.state.store().job(Some(self.caller), self.job).await?;
        Ok(found.is_none_or(|view| view.job.status == JobStatus::Deleted))
    }

    /// Waits until there may be something new; `None` if the process shuts down, which must not wait for us.
    async fn wait(&mut self) -> Option<()> {
        // The streams of a caller share its looks, and take turns after a change that all of them hear of.
        let streams = u32::try_from(self.place.of_caller()).unwrap_or(u32::MAX);
        let before = u32::try_from(self.place.number).unwrap_or(u32::MAX).min(streams);
        let (round, turn) = (streams * LOOK, before * LOOK);
        let every = self.looked + limits::EVENTS_LOOK_EVERY.max(round);
        let changed = async {
            match timeout_at(every, self.changes.changed()).await {
                // A busy process changes all the time: not every change is worth a look.
                Ok(Ok(())) => {
                    let after = self.looked + limits::EVENTS_LOOK_AFTER.max(round);
                    sleep_until(after.max(Instant::now() + turn)).await;
                }
                // Nobody left to tell of changes: the clock has to do.
                Ok(Err(_)) => sleep_until(every).await,
                Err(_) => {}
            }
        };
        tokio::select! {
            _ = self.shutting_down.wait_for(|down| *down) => None,
            () = changed => Some(()),
        }
    }
}

fn said(entry: &TimelineEntry, hidden: Option<RunId>) -> String {
    let event = show::event(entry, hidden);
    let data = serde_json::to_string(&event).unwrap_or_default();
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write!(text, "id: {}\nevent: {}\ndata: {data}\n\n", event.id, event.kind);
    text
}
