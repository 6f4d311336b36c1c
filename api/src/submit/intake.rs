//! Takes in the body of a submit. Few tasks stay in memory; as soon as there are too many for that, they are staged as
//! they arrive, a line each, like a list that was uploaded.

use crate::body;
use crate::idempotency::Intent;
use crate::incoming::{Incoming, slow};
use crate::problem::{ApiError, Code, Result};
use crate::shares::{Room, in_flight};
use crate::split::{Lines, Rest, SplitError, Splitter};
use crate::staged;
use crate::state::{ApiState, Shared};
use crate::wire::{input, not_json};
use axum::extract::Request;
use bytes::Bytes;
use conveyor_domain::{CallerId, HeaderSeal, ListSpec, Staged, Upload, UploadId, limits};
use futures::stream;
use std::borrow::Cow;
use tokio::sync::oneshot;

/// A body, with its tasks apart.
#[derive(Debug)]
pub(crate) struct Received {
    pub rest: Rest,
    pub tasks: Tasks,
    /// Its share of the room for bodies.
    pub room: Room,
    /// All of the body has passed by it.
    pub intent: Option<Intent>,
}

#[derive(Debug)]
pub(crate) enum Tasks {
    Inline(Lines),
    Staged(StagedTasks),
}

impl Tasks {
    pub fn count(&self) -> usize {
        match self {
            Tasks::Inline(lines) => lines.count,
            Tasks::Staged(tasks) => tasks.count as usize,
        }
    }

    /// A job was made of them.
    pub fn keep(self) {
        match self {
            Tasks::Inline(_) => {}
            Tasks::Staged(tasks) => tasks.upload.keep(),
        }
    }

    /// They came to nothing.
    pub async fn abandon(self) {
        match self {
            Tasks::Inline(_) => {}
            Tasks::Staged(tasks) => tasks.upload.abandon().await,
        }
    }
}

/// Tasks that are staged, and not checked yet.
#[derive(Debug)]
pub(crate) struct StagedTasks {
    pub upload: OwnUpload,
    pub staged: Staged,
    pub count: u32,
}

impl StagedTasks {
    pub const SPEC: ListSpec = ListSpec::Jsonl;
}

/// An upload that the API made by itself. Until a job is made of it, it goes with whoever holds this: also when the caller
/// hangs up and the request is dropped where it stands.
#[derive(Debug)]
pub(crate) struct OwnUpload {
    state: Shared,
    pub caller: CallerId,
    pub id: UploadId,
    settled: bool,
}

impl OwnUpload {
    fn keep(mut self) {
        self.settled = true;
    }

    async fn abandon(mut self) {
        self.settled = true;
        abandon(&self.state, self.caller, self.id).await;
    }
}

impl Drop for OwnUpload {
    fn drop(&mut self) {
        if !self.settled {
            let (state, caller, id) = (self.state.clone(), self.caller, self.id);
            tokio::spawn(async move { abandon(&state, caller, id).await });
        }
    }
}

/// Refused, and rightly so, if a job was made of it after all.
async fn abandon(state: &ApiState, caller: CallerId, upload: UploadId) {
    if let Err(error) = staged::abort(state, caller, upload).await {
        tracing::warn!(%upload, %error, "staged tasks were not removed; a sweep will");
    }
}

pub(crate) async fn receive(
    state: &Shared,
    caller: CallerId,
    request: Request,
    intent: Option<Intent>,
) -> Result<Received> {
    body::check_media_type(request.headers())?;
    let max = state.config.max_body_bytes;
    let announced = body::announced_length(request.headers());
    // Only a list that is staged may be longer than a body.
    if announced.is_some_and(|length| length > state.config.list_max_bytes.max(max as u64)) {
        return Err(body::too_large(max));
    }
    let who = in_flight::who(request.extensions());
    let body = Incoming::new(request.into_body(), announced, state.config.shares.body).passing(intent);
    // What is held in memory takes room from others, and has no longer than any body; what is staged does not.
    let most = announced.and_then(|length| usize::try_from(length).ok()).unwrap_or(max).min(max);
    let until = state.bodies.until();
    let room = state.bodies.enter(who, most, until).await?;
    let held = hold(state, body, room, max);
    match tokio::time::timeout_at(until, held).await.map_err(|_| slow())?? {
        Held::All(submitted) => Ok(*submitted),
        Held::Begun(sorting) => {
            let (End { rest, room, intent, .. }, tasks) = stage(state, caller, *sorting).await?;
            Ok(Received { rest, tasks: Tasks::Staged(tasks), room, intent })
        }
    }
}

enum Held {
    All(Box<Received>),
    /// There are more tasks than are written on a request.
    Begun(Box<Sorting>),
}

async fn hold(state: &ApiState, body: Incoming, room: Room, max: usize) -> Result<Held> {
    let splitter = Splitter::new(limits::SUBMIT_REST_MAX_BYTES.min(max));
    let tasks_max = state.config.run_tasks_max;
    let mut sorting = Sorting { body, room, splitter, lines: Lines::default(), tasks_max };
    while sorting.more().await? {
        if sorting.body.received() > max as u64 {
            return Err(body::too_large(max));
        }
        if sorting.lines.count > state.config.inline_tasks_max {
            // What was gathered is handed on at once; from then on no more than a task and the rest of the body is held.
            let most = limits::SUBMIT_REST_MAX_BYTES + limits::TASK_JSON_MAX_BYTES;
            sorting.room.expect(sorting.held(), most);
            return Ok(Held::Begun(Box::new(sorting)));
        }
    }
    let Sorting { body, mut room, splitter, lines, .. } = sorting;
    let rest = splitter.finish().map_err(refuse)?;
    room.settle(rest.bytes.len() + lines.bytes.len());
    let intent = body.passed();
    Ok(Held::All(Box::new(Received { rest, tasks: Tasks::Inline(lines), room, intent })))
}

/// A body that is being taken apart.
#[derive(Debug)]
struct Sorting {
    body: Incoming,
    room: Room,
    splitter: Splitter,
    lines: Lines,
    tasks_max: u32,
}

impl Sorting {
    /// Takes in a piece of the body; false at its end.
    async fn more(&mut self) -> Result<bool> {
        let Some(piece) = self.room.next(&mut self.body).await? else { return Ok(false) };
        self.splitter.feed(&piece, &mut self.lines).map_err(refuse)?;
        self.room.grow_to(self.held()).await?;
        if self.lines.count > self.tasks_max as usize {
            let detail =
                format!("`tasks` has more than {} items, which is what a run takes.", self.tasks_max);
            return Err(ApiError::new(Code::TooManyTasks, detail));
        }
        Ok(true)
    }

    /// Bytes of the body that are in memory.
    fn held(&self) -> usize {
        self.splitter.held() + self.lines.bytes.len()
    }
}

fn refuse(error: SplitError) -> ApiError {
    match error {
        SplitError::NotJson(place) => not_json(place),
        SplitError::RestTooLarge => body::too_large(limits::SUBMIT_REST_MAX_BYTES),
    }
}

/// Stages the tasks under an upload of their own, so that whatever breaks off is found and removed with it.
async fn stage(state: &Shared, caller: CallerId, sorting: Sorting) -> Result<(End, StagedTasks)> {
    let now = state.now();
    let upload = Upload::new(UploadId::new(now, &state.entropy), caller, StagedTasks::SPEC, now);
    let id = upload.id;
    // Not one that the caller made: it does not count against what a caller may make.
    state.store().create_upload(upload, u32::MAX).await?;
    let upload = OwnUpload { state: state.clone(), caller, id, settled: false };
    match write(state, id, sorting).await {
        Ok((end, staged)) => {
            let count = end.count;
            Ok((end, StagedTasks { upload, staged, count }))
        }
        Err(error) => {
            upload.abandon().await;
            Err(error)
        }
    }
}

async fn write(state: &ApiState, upload: UploadId, sorting: Sorting) -> Result<(End, Staged)> {
    let (done, sorted) = oneshot::channel();
    let writing =
        Writing { sorting, done, max: state.config.list_max_bytes, upload, headers: state.headers() };
    let staged = staged::write(state, upload, stream::try_unfold(writing, Writing::next)).await?;
    let end = sorted.await.map_err(|_| ApiError::internal("tasks were staged, but not all seen"))?;
    state.store().put_staged(upload, staged.clone(), None, state.now()).await?;
    Ok((end, staged))
}

/// What is left of a body when its tasks are staged.
struct End {
    rest: Rest,
    room: Room,
    count: u32,
    intent: Option<Intent>,
}

/// The lines of a body, on their way to the store.
struct Writing {
    sorting: Sorting,
    done: oneshot::Sender<End>,
    max: u64,
    /// Headers are not for those who can read what is staged.
    headers: HeaderSeal,
    upload: UploadId,
}

impl Writing {
    async fn next(mut self) -> Result<Option<(Bytes, Writing)>> {
        while self.sorting.lines.bytes.is_empty() {
            if !self.sorting.more().await? {
                let Sorting { body, mut room, splitter, lines, .. } = self.sorting;
                let rest = splitter.finish().map_err(refuse)?;
                room.settle(rest.bytes.len());
                let count = u32::try_from(lines.count).map_err(|e| ApiError::internal(e.to_string()))?;
                // Nobody is there to hear it only if nobody waits for the answer.
                let _ = self.done.send(End { rest, room, count, intent: body.passed() });
                return Ok(None);
            }
            if self.sorting.body.received() > self.max {
                return Err(input::too_large(self.max));
            }
        }
        let lines = self.sorting.lines.bytes.split().freeze();
        self.sorting.room.shrink_to(self.sorting.splitter.held());
        let sealed = match self.headers.seal_lines(&self.upload, &lines) {
            Cow::Borrowed(_) => None,
            Cow::Owned(sealed) => Some(Bytes::from(sealed)),
        };
        Ok(Some((sealed.unwrap_or(lines), self)))
    }
}
