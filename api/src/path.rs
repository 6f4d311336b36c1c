//! What a path names: ids, and as its caller has it, a job, one of its runs, an upload. These extractors come first in a
//! handler, so the order of checks is the same everywhere: the key, whose it is, the query, the body. What is another
//! caller's, or cannot be parsed, is answered like what is not there, before a check of anything else could tell them apart.

use crate::auth::Caller;
use crate::problem::{ApiError, Result};
use crate::show::is_there;
use crate::state::{ApiState, Shared};
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use conveyor_domain::job::retention::{is_over, rows_are_over};
use conveyor_domain::{
    CallerId, Command, Job, JobId, JobStatus, Run, RunId, RunStatus, Task, TaskId, Upload, UploadId, limits,
};
use conveyor_store::port::{JobView, RunKey, RunView, RunsQuery};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error};
use std::str::FromStr;

/// An id in a path. As an extractor, the last one of the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Id<T>(pub T);

impl<T: FromStr, S: Send + Sync> FromRequestParts<S> for Id<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Id<T>> {
        let params = RawPathParams::from_request_parts(parts, state).await.ok();
        let last = params.iter().flatten().last().and_then(|(_, text)| text.parse().ok());
        last.map(Id).ok_or_else(ApiError::not_found)
    }
}

impl<'de, T: FromStr> Deserialize<'de> for Id<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Id).map_err(|_| D::Error::custom("not an id"))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>> {
        let path = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        path.map(|found| Path(found.0)).map_err(|_| ApiError::not_found())
    }
}

/// A job, with the latest of its runs that was not deleted.
#[derive(Debug)]
pub(crate) struct OwnedJob {
    pub state: Shared,
    pub caller: Caller,
    pub view: JobView,
}

impl FromRequestParts<Shared> for OwnedJob {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<OwnedJob> {
        Ok(OwnedJob::find(parts, state).await?.0)
    }
}

#[derive(serde::Deserialize)]
struct Ids {
    job: Id<JobId>,
    run: Option<Id<RunId>>,
}

impl OwnedJob {
    /// The job, and the run of it that the path names.
    async fn find(parts: &mut Parts, state: &Shared) -> Result<(OwnedJob, Option<Id<RunId>>)> {
        let caller = Caller::from_request_parts(parts, state).await?;
        let Path(Ids { job: Id(job), run }) = Path::from_request_parts(parts, state).await?;
        let view = state.store().job(Some(caller.id), job).await?.ok_or_else(ApiError::not_found)?;
        let view = with_latest_kept(state, caller.id, view).await?;
        Ok((OwnedJob { state: state.clone(), caller, view }, run))
    }

    pub fn id(&self) -> JobId {
        self.view.job.id
    }

    /// The job as readers see it, once a command changed it. The store does not ask whose job it is; a job never changes
    /// hands, so having looked is enough.
    pub async fn apply(&self, command: Command) -> Result<JobView> {
        let view = self.state.store().apply(self.id(), command, self.state.now()).await?;
        with_latest_kept(&self.state, self.caller.id, view).await
    }
}

/// If its latest run was deleted, the one before takes its place for readers; with none before, it stays until it is removed.
/// Only a job whose latest run was deleted costs this read.
pub(crate) async fn with_latest_kept(
    state: &ApiState,
    caller: CallerId,
    mut view: JobView,
) -> Result<JobView> {
    let is_deleted = |view: &RunView| view.run.status == RunStatus::Deleted;
    if view.job.status == JobStatus::Deleted || !view.latest.as_ref().is_some_and(is_deleted) {
        return Ok(view);
    }
    let mut query = RunsQuery::newest(view.job.id, limits::PAGE_MAX);
    loop {
        let page = state.list(caller, state.store().runs(query)).await?;
        let last = page.rows.last().map(|view| view.run.id);
        if let Some(kept) = page.rows.into_iter().find(|view| !is_deleted(view)) {
            view.latest = Some(kept);
            return Ok(view);
        }
        match page.next.or(last) {
            Some(before) => query.before = Some(before),
            None => return Ok(view),
        }
    }
}

/// A run, with its job: the latest where the path names none.
#[derive(Debug)]
pub(crate) struct OwnedRun {
    pub state: Shared,
    pub caller: Caller,
    pub job: Job,
    pub view: RunView,
}

impl FromRequestParts<Shared> for OwnedRun {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<OwnedRun> {
        let (OwnedJob { state, caller, view }, run) = OwnedJob::find(parts, state).await?;
        let JobView { job, latest } = view;
        let view = match run {
            Some(Id(run)) if latest.as_ref().is_none_or(|latest| run != latest.run.id) => {
                state.store().run(job.id, run).await?
            }
            Some(_) | None => latest,
        };
        let view = view.filter(|view| is_there(&view.run)).ok_or_else(ApiError::not_found)?;
        Ok(OwnedRun { state, caller, job, view })
    }
}

impl OwnedRun {
    pub fn key(&self) -> RunKey {
        RunKey { job: self.job.id, run: self.view.run.id }
    }

    /// The key of its task rows. 410 if the run was deleted or its rows are past their retention.
    pub async fn rows(&self) -> Result<RunKey> {
        rows_of(&self.state, &self.view.run).await
    }

    /// One of its tasks. 410 if it is past its retention.
    pub async fn task(&self, task: TaskId) -> Result<Task> {
        task_of(&self.state, &self.view.run, task).await
    }
}

pub(crate) async fn rows_of(state: &ApiState, run: &Run) -> Result<RunKey> {
    if run.status == RunStatus::Deleted {
        // They are being removed: half of a list must not pass for one.
        return Err(ApiError::expired("The run was deleted."));
    }
    let now = state.judged_at(|now| rows_are_over(run, now)).await?;
    match rows_are_over(run, now) {
        true => Err(ApiError::expired("The run ended so long ago that its tasks are no longer kept.")),
        false => Ok(RunKey { job: run.job, run: run.id }),
    }
}

/// A task of a run, unless it or all of them are past their time: then it makes no difference whether its row is still
/// there. A store finds a task by its index alone, so without the check of the run's seed any digest would do (SPEC 4).
pub(crate) async fn task_of(state: &ApiState, run: &Run, id: TaskId) -> Result<Task> {
    let key = rows_of(state, run).await?;
    if !id.belongs_to(run.id_seed) {
        return Err(ApiError::not_found());
    }
    let found = state.store().task(key, id).await?;
    let is_past = |now| match &found {
        Some(task) => is_over(task, now),
        None => id.index() < run.next_index && run.created.after(limits::ROWS_KEPT) <= now,
    };
    let is_past = is_past(state.judged_at(is_past).await?);
    match found {
        Some(task) if !is_past => Ok(task),
        None if !is_past => Err(ApiError::not_found()),
        Some(_) | None => Err(ApiError::expired("The task ended so long ago that it is no longer kept.")),
    }
}

/// An upload slot.
#[derive(Debug)]
pub(crate) struct OwnedUpload {
    pub state: Shared,
    pub caller: CallerId,
    pub upload: Upload,
}

impl FromRequestParts<Shared> for OwnedUpload {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<OwnedUpload> {
        let Caller { id: caller, .. } = Caller::from_request_parts(parts, state).await?;
        let id = Id::from_request_parts(parts, state).await;
        let Id(id) = id.map_err(|_| ApiError::upload_not_found())?;
        Ok(OwnedUpload { state: state.clone(), caller, upload: upload_of(state, caller, id).await? })
    }
}

/// An upload of this caller.
pub(crate) async fn upload_of(state: &ApiState, caller: CallerId, upload: UploadId) -> Result<Upload> {
    let found = state.store().upload(caller, upload, state.now()).await?;
    found.ok_or_else(ApiError::upload_not_found)
}
