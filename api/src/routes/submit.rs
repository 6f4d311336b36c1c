//! A submit: written on the request if it is short (201), otherwise accepted and ingested later (202) (SPEC 6.1, 6.10).

use super::inputs::upload_of;
use super::jobs::refuse_idempotency_key;
use super::{send, webhook};
use crate::auth::Caller;
use crate::body::room_within;
use crate::direct;
use crate::invalid_tasks::InvalidTasks;
use crate::problem::{ApiError, Code, Result};
use crate::query::Query;
use crate::split::{Lines, Rest};
use crate::staged;
use crate::state::{ApiState, Shared};
use crate::submit::{self, Accepted, ShortList, StagedTasks, Submitted, Tasks};
use crate::wire::job::SubmittedJson;
use crate::wire::run::RunJson;
use crate::wire::submit::{NamedList, SubmitRequest};
use crate::wire::tasks::{self, CHECKED_AT_ONCE};
use crate::wire::webhook::WebhookJson;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{LOCATION, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use conveyor_domain::ingest::Source;
use conveyor_domain::job::JobSpec;
use conveyor_domain::lifecycle::{self, Decision};
use conveyor_domain::list::{OnInvalidRows, RejectedRow};
use conveyor_domain::params::{ParamPolicy, Params};
use conveyor_domain::run::Counts;
use conveyor_domain::seal::Purpose;
use conveyor_domain::upload::Upload;
use conveyor_domain::{Job, JobId, Run, RunId, RunStats, TaskInput, limits};
use conveyor_lists::Record;
use conveyor_store::Error;
use conveyor_store::port::{Acceptance, BlobKey, RunView, Submission, SubmittedList};
use std::sync::Arc;

pub(super) async fn submit(
    caller: Caller,
    State(state): State<Shared>,
    query: Query,
    request: Request,
) -> Result<Response> {
    query.none()?;
    refuse_idempotency_key(request.headers())?;
    // The room is kept until the rows are written: they take as much again.
    let Submitted { rest, tasks, room: _room } = submit::receive(&state, caller.id, request).await?;
    match tasks {
        Tasks::Inline(lines) => short(&state, &caller, &rest, lines).await,
        Tasks::Staged(tasks) => {
            let answer = long(&state, &caller, &rest, &tasks).await;
            match answer.is_ok() {
                true => tasks.upload.keep(),
                false => tasks.upload.abandon().await,
            }
            answer
        }
    }
}

async fn short(state: &ApiState, caller: &Caller, rest: &Rest, lines: Lines) -> Result<Response> {
    let policy = state.config.param_policy;
    let mut request = SubmitRequest::parse(rest, lines.count, policy)?;
    webhook::admit(state, caller, &mut request).await?;
    if let Some(list) = request.list {
        return from_upload(state, caller, request.spec, list).await;
    }
    let tasks = tasks::check(lines.iter(), &request.spec.params, policy).await?;
    drop(lines);
    let count = u32::try_from(tasks.len()).map_err(|e| ApiError::internal(e.to_string()))?;
    let ids = Ids::new(state);
    let spec = ids.fix(state, caller, request.spec, u64::from(count), request.open);
    let Decision { job, run } =
        lifecycle::submit(ids.job, ids.run, caller.id, spec, request.open, count, state.now());
    write(state, job, run, (0..).zip(tasks).collect(), None).await
}

/// Tasks of a body that had too many: all are checked, then accepted.
async fn long(state: &ApiState, caller: &Caller, rest: &Rest, tasks: &StagedTasks) -> Result<Response> {
    let count = tasks.count as usize;
    let mut request = SubmitRequest::parse(rest, count, state.config.param_policy)?;
    webhook::admit(state, caller, &mut request).await?;
    check_staged(state, tasks, &request.spec.params).await?;
    let source = Source {
        upload: tasks.upload.id,
        staged: tasks.staged.clone(),
        spec: StagedTasks::SPEC,
        on_invalid_rows: OnInvalidRows::default(),
        param_policy: Some(state.config.param_policy),
    };
    accept(state, caller, request.spec, request.open, source, count).await
}

async fn check_staged(state: &ApiState, tasks: &StagedTasks, job: &Params) -> Result<()> {
    // What was measured as it arrived needs no measuring now.
    let (_, mut reader) = staged::open(state, &tasks.staged, &StagedTasks::SPEC, u64::MAX)
        .await
        .map_err(staged::list_failed)?;
    let mut invalid = InvalidTasks::default();
    while let Some(Record { index, row, .. }) = reader.next().await.map_err(staged::list_failed)? {
        if (index as usize).is_multiple_of(CHECKED_AT_ONCE) {
            tokio::task::yield_now().await;
        }
        if let Err(why) = row.and_then(|row| row.check(job, state.config.param_policy)) {
            invalid.add(index as usize, None, why);
        }
    }
    match invalid.is_empty() {
        true => Ok(()),
        false => Err(ApiError::invalid_tasks(tasks.count as usize, &invalid)),
    }
}

async fn from_upload(state: &ApiState, caller: &Caller, spec: JobSpec, list: NamedList) -> Result<Response> {
    let Some(direct) = state.direct() else {
        let upload = upload_of(state, caller.id, list.upload).await?;
        return from_staged(
            state,
            caller,
            spec,
            source_of(upload, list.on_invalid_rows, state.config.param_policy)?,
        )
        .await;
    };
    let mut looks = 0;
    loop {
        looks += 1;
        let submitted = async {
            let upload = upload_of(state, caller.id, list.upload).await?;
            let upload = direct::stage(state, direct, upload).await?;
            from_staged(
                state,
                caller,
                spec.clone(),
                source_of(upload, list.on_invalid_rows, state.config.param_policy)?,
            )
            .await
        };
        match submitted.await {
            // By another submit of the same list, or by a caller that sends another one right now. No job was made.
            Err(error) if error.is_source_changed() && looks < direct::LOOKS_MAX => {}
            answer => return answer,
        }
    }
}

async fn from_staged(state: &ApiState, caller: &Caller, spec: JobSpec, source: Source) -> Result<Response> {
    if source.staged.size <= limits::SYNC_LIST_MAX_BYTES {
        let _room = room_within(limits::SYNC_LIST_EXPANDED_MAX_BYTES, &state.bodies).await?;
        if let Some(short) = submit::read_short(state, &source, &spec.params).await? {
            return write_list(state, caller, spec, source, short).await;
        }
    }
    accept(state, caller, spec, false, source, 0).await
}

/// Pins what is staged now.
fn source_of(upload: Upload, on_invalid_rows: OnInvalidRows, policy: ParamPolicy) -> Result<Source> {
    let Upload { id, spec, multipart, staged, .. } = upload;
    let refuse = || match multipart {
        true => ApiError::new(Code::FileInputIncomplete, "The parts of the file input are not joined."),
        false => ApiError::new(Code::FileInputNotUploaded, "Nothing was uploaded to the file input."),
    };
    let param_policy = Some(policy);
    Ok(Source { upload: id, staged: staged.ok_or_else(refuse)?, spec, on_invalid_rows, param_policy })
}

/// A staged list that was read on the request: its tasks are written, and the log of its ingest with them.
async fn write_list(
    state: &ApiState,
    caller: &Caller,
    spec: JobSpec,
    source: Source,
    list: ShortList,
) -> Result<Response> {
    list.check(source.on_invalid_rows, state.config.run_tasks_max)?;
    let ids = Ids::new(state);
    let spec = ids.fix(state, caller, spec, list.rows.len() as u64, false);
    let count = u32::try_from(list.rows.len()).map_err(|e| ApiError::internal(e.to_string()))?;
    let Decision { job, mut run } =
        lifecycle::submit(ids.job, ids.run, caller.id, spec, false, count, state.now());
    // Rejected rows keep their places.
    run.next_index = list.end.index;
    let report_key = BlobKey::rejected(ids.job, ids.run, state.incarnation, 0);
    let reported = !list.rejected.is_empty();
    let log = list.log(&source, reported.then(|| report_key.to_string()));
    let log = log.map_err(|e| ApiError::internal(e.to_string()))?;
    if reported {
        state.backend.blobs.put(&report_key, RejectedRow::report(&list.rejected).into()).await?;
    }
    let document = Accepted::new(&job, &run, source.clone());
    let written = write(state, job, run, list.rows, Some(Box::new(SubmittedList { source, log }))).await;
    if written.is_ok() {
        submit::keep(state, &document).await;
    }
    if let Err(error) = &written
        && reported
        && !error.is_ambiguous()
        && let Err(error) = state.backend.blobs.delete(&report_key).await
    {
        tracing::warn!(%error, "a report of rejected rows stays behind");
    }
    written
}

/// The ids of a new job and its run.
struct Ids {
    job: JobId,
    run: RunId,
}

impl Ids {
    fn new(state: &ApiState) -> Ids {
        let now = state.now();
        Ids { job: JobId::new(now, &state.entropy), run: RunId::new(now, &state.entropy) }
    }

    /// What is decided once for the life of a job: where its rows go, for how long its results can be seen, and the key that
    /// it forwards, sealed for it alone.
    fn fix(
        &self,
        state: &ApiState,
        caller: &Caller,
        mut spec: JobSpec,
        expected: u64,
        open: bool,
    ) -> JobSpec {
        spec.result_ttl_days.get_or_insert(state.config.result_ttl_days);
        spec.task_shard_count = state.store().task_shards(expected, open);
        if state.config.forward_keys {
            let (context, key) = (self.job.to_string(), caller.key.as_bytes());
            spec.credential = Some(state.secret.seal(Purpose::Credential, &context, key, &state.entropy));
        }
        spec
    }
}

async fn write(
    state: &ApiState,
    job: Job,
    run: Run,
    tasks: Vec<(u32, TaskInput)>,
    list: Option<Box<SubmittedList>>,
) -> Result<Response> {
    let accepted = tasks.len();
    let answer = Answer::new(&job, &run, accepted);
    let from_list = list.is_some();
    let unsent = match state.store().submit(Submission { job, run, tasks, list }).await {
        Err(Error::NotFound) if from_list => return Err(ApiError::upload_not_found()),
        unsent => unsent?,
    };
    send(state, answer.view.run.id, &unsent).await;
    Ok(answer.created())
}

async fn accept(
    state: &ApiState,
    caller: &Caller,
    spec: JobSpec,
    open: bool,
    source: Source,
    accepted: usize,
) -> Result<Response> {
    let ids = Ids::new(state);
    let expected = (accepted as u64).max(source.staged.size / limits::ROW_LIKELY_BYTES);
    let spec = ids.fix(state, caller, spec, expected, open);
    let Decision { job, run } = lifecycle::accept(ids.job, ids.run, caller.id, spec, open, state.now());
    let answer = Answer::new(&job, &run, accepted);
    let document = Accepted::new(&job, &run, source.clone());
    state.store().accept(Acceptance { job, run, source }).await.map_err(ApiError::of_upload)?;
    submit::keep(state, &document).await;
    Ok(answer.accepted())
}

/// What a submit is answered with, once it is durable.
struct Answer {
    job: JobId,
    status: conveyor_domain::JobStatus,
    view: RunView,
    accepted: usize,
    spec: Arc<JobSpec>,
}

impl Answer {
    fn new(job: &Job, run: &Run, accepted: usize) -> Answer {
        let stats = RunStats { total: run.total, counts: Counts::default() };
        let view = RunView { run: run.clone(), stats };
        Answer { job: job.id, status: job.status, view, accepted, spec: job.spec.clone() }
    }

    fn created(&self) -> Response {
        (StatusCode::CREATED, [(LOCATION, self.location())], Json(self.json())).into_response()
    }

    fn accepted(&self) -> Response {
        let headers = [(LOCATION, self.location()), (RETRY_AFTER, "1".to_owned())];
        (StatusCode::ACCEPTED, headers, Json(self.json())).into_response()
    }

    fn location(&self) -> String {
        format!("/v1/jobs/{}", self.job)
    }

    fn json(&self) -> SubmittedJson<'_> {
        SubmittedJson {
            job_id: self.job,
            status: self.status,
            latest_run: RunJson::from(&self.view),
            accepted_tasks: self.accepted,
            webhook: self.spec.webhook.as_ref().map(WebhookJson::from),
        }
    }
}
