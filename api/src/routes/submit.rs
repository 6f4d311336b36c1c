//! A submit: written on the request if it is short (201), otherwise accepted and ingested later (202) (SPEC 6.1, 6.10).

use super::inputs::upload_of;
use super::schedule::scheduled;
use super::{send, webhook};
use crate::admission;
use crate::auth::Caller;
use crate::counting;
use crate::direct;
use crate::dry_run::dry_run;
use crate::idempotency::{self, Begun, Intent, Turn};
use crate::invalid_tasks::InvalidTasks;
use crate::problem::{ApiError, Result};
use crate::query::Query;
use crate::shares::bodies::room_within;
use crate::shares::in_flight;
use crate::split::{Lines, Rest};
use crate::staged;
use crate::state::{ApiState, Shared};
use crate::submit::{self, Accepted, ShortList, StagedTasks, Submitted, Tasks, answer, source_of};
use crate::warnings::{STRICT, Warnings};
use crate::wire::submit::{NamedList, SubmitRequest};
use crate::wire::tasks::{self, CHECKED_AT_ONCE};
use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use conveyor_domain::access::quota::Wanted;
use conveyor_domain::ingest::Source;
use conveyor_domain::job::lifecycle::Decision;
use conveyor_domain::job::run::Expected;
use conveyor_domain::{
    Job, JobId, JobSpec, ListCount, OnInvalidRows, Params, Purpose, RejectedRow, RowCount, Run, RunId,
    Staged, TaskInput, lifecycle, limits,
};
use conveyor_lists::Record;
use conveyor_store::Error;
use conveyor_store::port::{Acceptance, BlobKey, Submission, SubmittedList};

pub(super) async fn submit(
    caller: Caller,
    State(state): State<Shared>,
    query: Query,
    request: Request,
) -> Result<Response> {
    let query = query.only(&["dry_run", STRICT])?;
    let warnings = Warnings::of(&request, &query)?;
    let dry = query.choice("dry_run", &[("true", true), ("false", false)])?.unwrap_or(false);
    // Whatever a dry run is repeated for, it is not to happen once; a key that is none is told all the same.
    let intent = Intent::of(&request, caller.id)?.filter(|_| !dry);
    let in_flight = in_flight::of(request.extensions());
    let Submitted { rest, tasks, room, intent } = submit::receive(&state, caller.id, request, intent).await?;
    if dry {
        let report = try_out(&state, &caller, &rest, &tasks, &warnings).await;
        tasks.abandon().await;
        return report;
    }
    // The room is kept until the rows are written: they take as much again.
    in_flight::to_the_end(in_flight, room, make(state, caller, rest, tasks, intent, warnings)).await
}

/// Makes the job.
async fn make(
    state: Shared,
    caller: Caller,
    rest: Rest,
    tasks: Tasks,
    intent: Option<Intent>,
    warnings: Warnings,
) -> Result<Response> {
    let mut turn = match idempotency::begin(&state, intent, warnings).await {
        Ok(Begun::Fresh(turn)) => turn,
        // What was staged for nothing goes.
        Ok(Begun::Replay(answer)) => {
            tasks.abandon().await;
            return Ok(answer);
        }
        Err(refused) => {
            tasks.abandon().await;
            return Err(refused);
        }
    };
    let made = match tasks {
        Tasks::Inline(lines) => short(&state, &caller, &mut turn, &rest, lines).await,
        Tasks::Staged(tasks) => {
            let made = long(&state, &caller, &mut turn, &rest, &tasks).await;
            match made.is_ok() {
                true => tasks.upload.keep(),
                false => tasks.upload.abandon().await,
            }
            made
        }
    };
    turn.end(&state, made).await
}

/// All that a submit checks, and what it would come to.
async fn try_out(
    state: &ApiState,
    caller: &Caller,
    rest: &Rest,
    tasks: &Tasks,
    warnings: &Warnings,
) -> Result<Response> {
    let mut request = SubmitRequest::parse(rest, tasks.count(), state.config.param_policy, warnings)?;
    webhook::admit(state, caller, &mut request).await?;
    let spec = scheduled(request.spec, request.schedule, state.now())?;
    let report = dry_run(state, caller.id, &spec, request.list, tasks, warnings).await?;
    Ok(Json(report).into_response())
}

async fn short(
    state: &ApiState,
    caller: &Caller,
    turn: &mut Turn,
    rest: &Rest,
    lines: Lines,
) -> Result<Response> {
    let policy = state.config.param_policy;
    let mut request = SubmitRequest::parse(rest, lines.count, policy, turn.warnings())?;
    webhook::admit(state, caller, &mut request).await?;
    let spec = scheduled(request.spec, request.schedule, state.now())?;
    if let Some(list) = request.list {
        return from_upload(state, caller, turn, spec, list).await;
    }
    let tasks = tasks::check(lines.iter(), &spec.params, policy, turn.warnings()).await?;
    drop(lines);
    let count = u32::try_from(tasks.len()).map_err(|e| ApiError::internal(e.to_string()))?;
    let ids = Ids::new(state);
    let spec = ids.fix(state, caller, spec, u64::from(count), request.open);
    let (job, run) = match spec.schedule {
        None => {
            let now = state.now();
            let rows = lifecycle::submit(ids.job, ids.run, caller.id, spec, request.open, count, now);
            (rows.job, Some(rows.run))
        }
        Some(_) => (lifecycle::scheduled(ids.job, ids.run, caller.id, spec, count, state.now()), None),
    };
    write(state, turn, job, run, (0..).zip(tasks).collect(), None).await
}

/// Tasks of a body that had too many: all are checked, then accepted.
async fn long(
    state: &ApiState,
    caller: &Caller,
    turn: &mut Turn,
    rest: &Rest,
    tasks: &StagedTasks,
) -> Result<Response> {
    let count = tasks.count as usize;
    let mut request = SubmitRequest::parse(rest, count, state.config.param_policy, turn.warnings())?;
    webhook::admit(state, caller, &mut request).await?;
    let spec = scheduled(request.spec, request.schedule, state.now())?;
    check_staged(state, tasks, &spec.params, turn.warnings()).await?;
    let rules = turn.warnings().task_rules(state.config.param_policy);
    let counted = ListCount::Rows(RowCount::checked(rules.params, tasks.count, tasks.count));
    let source = Source {
        upload: tasks.upload.id,
        staged: Staged { count: Some(Box::new(counted)), ..tasks.staged.clone() },
        spec: StagedTasks::SPEC,
        on_invalid_rows: OnInvalidRows::default(),
        param_policy: Some(rules.params),
        unknown_fields: rules.unknown_fields,
    };
    let expected = source.expected(&spec.params);
    if spec.schedule.is_some() {
        return keep_list(state, caller, turn, spec, source, expected).await;
    }
    accept(state, caller, turn, spec, request.open, source, expected).await
}

async fn check_staged(
    state: &ApiState,
    tasks: &StagedTasks,
    job: &Params,
    warnings: &Warnings,
) -> Result<()> {
    // All of a long list is read, in a thread at first.
    let _turn = state.checks.turn(tasks.upload.caller).await;
    // What was measured as it arrived needs no measuring now.
    let (_, mut reader) = staged::open(state, &tasks.staged, &StagedTasks::SPEC, u64::MAX)
        .await
        .map_err(staged::list_failed)?;
    let (mut invalid, headers) = (InvalidTasks::default(), state.headers());
    let rules = warnings.task_rules(state.config.param_policy);
    while let Some(Record { index, row, .. }) = reader.next().await.map_err(staged::list_failed)? {
        if (index as usize).is_multiple_of(CHECKED_AT_ONCE) {
            tokio::task::yield_now().await;
        }
        let row = row.map(|row| row.opened(&headers, &tasks.upload.id));
        if let Ok(row) = &row {
            tasks::warn(index as usize, row.unknown_fields().iter().map(String::as_str), warnings);
        }
        if let Err(why) = row.and_then(|row| row.check(job, rules)) {
            invalid.add(index as usize, None, why);
        }
    }
    match invalid.is_empty() {
        true => Ok(()),
        false => Err(ApiError::invalid_tasks(tasks.count as usize, &invalid)),
    }
}

async fn from_upload(
    state: &ApiState,
    caller: &Caller,
    turn: &mut Turn,
    spec: JobSpec,
    list: NamedList,
) -> Result<Response> {
    let rules = turn.warnings().task_rules(state.config.param_policy);
    let Some(direct) = state.direct() else {
        let upload = upload_of(state, caller.id, list.upload).await?;
        let source = source_of(upload, list.on_invalid_rows, rules)?;
        return from_staged(state, caller, turn, spec, source).await;
    };
    let mut looks = 0;
    loop {
        looks += 1;
        let submitted = async {
            let upload = upload_of(state, caller.id, list.upload).await?;
            let upload = direct::stage(state, direct, upload).await?;
            let source = source_of(upload, list.on_invalid_rows, rules)?;
            from_staged(state, caller, turn, spec.clone(), source).await
        };
        match submitted.await {
            // By another submit of the same list, or by a caller that sends another one right now. No job was made.
            Err(error) if error.is_source_changed() && looks < direct::LOOKS_MAX => {}
            answer => return answer,
        }
    }
}

async fn from_staged(
    state: &ApiState,
    caller: &Caller,
    turn: &mut Turn,
    spec: JobSpec,
    mut source: Source,
) -> Result<Response> {
    let is_long = |rows: &RowCount| rows.records as usize > state.config.inline_tasks_max;
    if source.staged.size <= limits::SYNC_LIST_MAX_BYTES && !source.counted().is_some_and(is_long) {
        let _room = room_within(limits::SYNC_LIST_EXPANDED_MAX_BYTES, caller.id, &state.bodies).await?;
        if let Some(short) = submit::read_short(state, &source, &spec.params).await? {
            turn.warnings().unknown_in_rows(&short.unknown)?;
            if spec.schedule.is_some() {
                short.check(source.on_invalid_rows, state.config.run_tasks_max)?;
                source.staged.count = Some(Box::new(short.count(state.config.param_policy)?));
                let expected = source.expected(&spec.params);
                return keep_list(state, caller, turn, spec, source, expected).await;
            }
            return write_list(state, caller, turn, spec, source, short).await;
        }
    }
    let expected = counting::briefly(state, caller.id, &mut source, &spec.params).await?;
    if spec.schedule.is_some() {
        return keep_list(state, caller, turn, spec, source, expected).await;
    }
    accept(state, caller, turn, spec, false, source, expected).await
}

/// A scheduled job whose tasks are in a list: every run of it reads the list anew.
async fn keep_list(
    state: &ApiState,
    caller: &Caller,
    turn: &mut Turn,
    mut spec: JobSpec,
    source: Source,
    expected: Option<Expected>,
) -> Result<Response> {
    let ids = Ids::new(state);
    let likely = likely_rows(&source, expected);
    if let Some(schedule) = &mut spec.schedule {
        schedule.source = Some(source);
    }
    let spec = ids.fix(state, caller, spec, likely, false);
    let job = lifecycle::scheduled(ids.job, ids.run, caller.id, spec, 0, state.now());
    let (view, wanted) = (answer::made(&job, None), run_of_new(&job, 0));
    let once = turn.claim(state, move |view| answer::kept(view, expected)).await?;
    let submission = Submission { job, run: None, tasks: Vec::new(), list: None, once };
    let submit = async { state.store().submit(submission).await.map_err(ApiError::of_upload) };
    admission::within(state, caller.id, wanted, submit).await?;
    Ok(answer::kept(&view, expected).into_response())
}

/// A staged list that was read on the request: its tasks are written, and the log of its ingest with them.
async fn write_list(
    state: &ApiState,
    caller: &Caller,
    turn: &mut Turn,
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
    let list_log = Some(Box::new(SubmittedList { source, log }));
    let written = write(state, turn, job, Some(run), list.rows, list_log).await;
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
        if let Some(schedule) = &mut spec.schedule {
            schedule.template = self.run;
        }
        spec.task_shard_count = state.store().task_shards(expected, open);
        state.headers().seal(&self.job, &mut spec.params);
        if state.config.forward_keys {
            let (context, key) = (self.job.to_string(), caller.key.as_bytes());
            spec.credential = Some(state.secret.seal(Purpose::Credential, &context, key, &state.entropy));
        }
        spec
    }
}

async fn write(
    state: &ApiState,
    turn: &mut Turn,
    job: Job,
    run: Option<Run>,
    mut tasks: Vec<(u32, TaskInput)>,
    list: Option<Box<SubmittedList>>,
) -> Result<Response> {
    let headers = state.headers();
    tasks.iter_mut().for_each(|(_, task)| headers.seal(&job.id, &mut task.params));
    let count = tasks.len();
    let (view, from_list) = (answer::made(&job, run.as_ref()), list.is_some());
    let once = turn.claim(state, move |view| answer::created(view, count)).await?;
    let (caller, wanted) = (job.caller, run_of_new(&job, count));
    let submit = async {
        match state.store().submit(Submission { job, run, tasks, list, once }).await {
            Err(Error::NotFound) if from_list => Err(ApiError::upload_not_found()),
            unsent => Ok(unsent?),
        }
    };
    let unsent = admission::within(state, caller, wanted, submit).await?;
    send(state, view.job.latest_run, &unsent).await;
    Ok(answer::created(&view, count).into_response())
}

async fn accept(
    state: &ApiState,
    caller: &Caller,
    turn: &mut Turn,
    spec: JobSpec,
    open: bool,
    source: Source,
    expected: Option<Expected>,
) -> Result<Response> {
    let ids = Ids::new(state);
    let spec = ids.fix(state, caller, spec, likely_rows(&source, expected), open);
    let Decision { job, mut run } = lifecycle::accept(ids.job, ids.run, caller.id, spec, open, state.now());
    run.doc.expected = expected;
    let view = answer::made(&job, Some(&run));
    let document = Accepted::new(&job, &run, source.clone());
    let once = turn.claim(state, move |view| answer::accepted(view, expected)).await?;
    // Where nobody has counted it, it has one at least.
    let wanted = run_of_new(&job, expected.map_or(1, |expected| expected.tasks.max(1)) as usize);
    let accept = async {
        state.store().accept(Acceptance { job, run, source, once }).await.map_err(ApiError::of_upload)
    };
    admission::while_read(state, caller.id, wanted, accept).await?;
    submit::keep(state, &document).await;
    Ok(answer::accepted(&view, expected).into_response())
}

/// How many rows a list is likely to have, to choose where they go.
fn likely_rows(source: &Source, expected: Option<Expected>) -> u64 {
    let by_size = source.staged.size / limits::ROW_LIKELY_BYTES;
    match expected {
        Some(Expected { tasks, exact: true }) => tasks.into(),
        Some(Expected { tasks, exact: false }) => by_size.max(tasks.into()),
        None => by_size,
    }
}

/// What a new job asks for of its caller's quotas. The tasks of a schedule count when it fires.
fn run_of_new(job: &Job, tasks: usize) -> Wanted {
    let scheduled = job.spec.schedule.is_some();
    let tasks = if scheduled { 0 } else { u32::try_from(tasks).unwrap_or(u32::MAX) };
    Wanted { job: job.id, active: !scheduled, scheduled, tasks }
}
