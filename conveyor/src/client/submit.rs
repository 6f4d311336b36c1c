//! `conveyor submit`: a list becomes a job.

use super::args::SubmitArgs;
use super::failure::Failure;
use super::list::{Input, List, Single, Told};
use super::print::{self, Output};
use super::progress::ctrl_c;
use super::upload::{self, Staged};
use super::{dry_run, ingest, limits, status};
use crate::domain_limit;
use conveyor_client::wire::{
    Decimal, ExternalId, JobType, RetryBody, SubmitJob, SubmitStatus, Submitted, ZenRowsParams,
};
use conveyor_client::{Answer, Client};
use conveyor_domain::IngestStatus;
use serde_json::Value;
use std::process::ExitCode;

/// A job whose tasks are as the user wrote them, and whose schedule has the right form: the server says what is wrong.
pub type Submission = SubmitJob<Vec<Value>, Value>;

pub async fn run(api: &Client, args: SubmitArgs, output: Output) -> Result<ExitCode, Failure> {
    // Before anything is uploaded for a job that cannot be.
    let job = job(&args)?;
    let prepared = prepare(api, &args, output).await?;
    if args.dry_run {
        return try_out(api, job, &args, prepared, output).await;
    }
    let was_staged = matches!(prepared, Prepared::Staged(_));
    let answer = match prepared {
        Prepared::Inline(list) => submit_inline(api, job, list, output).await?,
        Prepared::Staged(staging) => submit_staged(api, job, &args, &staging).await?,
    };
    let Submitted { job_id, accepted_tasks, latest_run, .. } = &answer.document;
    let ingest_status = latest_run.as_ref().and_then(|run| run.ingest_status.as_ref());
    output.remark(&match ingest_status.is_some_and(|status| *status == IngestStatus::Pending) {
        true => "accepted; the list is being read".to_owned(),
        false => format!("{accepted_tasks} tasks accepted"),
    });
    if !output.json {
        // Alone on its line: `JOB=$(conveyor submit urls.txt)`.
        print::line(&job_id.to_string())?;
    }
    if args.watch {
        return status::watch(api, &job_id.to_string(), output).await;
    }
    if output.json {
        print::line(&answer.text)?;
    } else if let Some(run) = latest_run.as_ref().filter(|_| was_staged) {
        ingest::remark_rejected(ingest::find(api, *job_id, run.run_id).await?.as_ref(), *job_id, output);
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks what the submit would come to.
async fn try_out(
    api: &Client,
    mut job: Submission,
    args: &SubmitArgs,
    prepared: Prepared<'_>,
    output: Output,
) -> Result<ExitCode, Failure> {
    match prepared {
        Prepared::Inline(mut list) => {
            job.tasks = Some(std::mem::take(&mut list.tasks));
            dry_run::run(api, &job, |row| list.place(row.index), output).await
        }
        Prepared::Staged(staging) => {
            let (job, name) = (of_upload(job, args, &staging), Input::of(&args.inputs[0]).name());
            let said = dry_run::run(api, &job, |row| Some(format!("{name}:{}", row.line?)), output).await?;
            output.remark(&format!("nothing was submitted; the list is uploaded as {}", staging.upload));
            Ok(said)
        }
    }
}

enum Prepared<'a> {
    /// To be sent with the submit.
    Inline(List),
    Staged(Staged<'a>),
}

/// Gathers what is to be submitted, or uploads it.
async fn prepare<'a>(api: &Client, args: &'a SubmitArgs, output: Output) -> Result<Prepared<'a>, Failure> {
    let told = Told { format: args.format, delimiter: args.delimiter };
    let single = match args.inputs.as_slice() {
        [one] => Some(Input::of(one)).filter(|input| !matches!(input, Input::Url(_))),
        _ => None,
    };
    let Some(input) = single else {
        if args.resume.is_some() || args.on_invalid_rows.is_some() {
            let detail = "--resume and --on-invalid-rows are for one list: a single file, or `-`";
            return Err(Failure::usage(detail));
        }
        return List::read(&args.inputs, told).await.map(Prepared::Inline);
    };
    if let Some(upload) = &args.resume {
        return upload::resume(api, upload, args, output).await.map(Prepared::Staged);
    }
    let list = Single::open(input, told).await?;
    if args.on_invalid_rows.is_none()
        && let Some(bytes) = list.short()
        && let Some(list) = List::of_bytes(&list.name, bytes, told).await.map_err(with_way_out)?
    {
        return Ok(Prepared::Inline(list));
    }
    upload::stage(api, list, args, output).await.map(Prepared::Staged)
}

async fn submit_inline(
    api: &Client,
    mut job: Submission,
    mut list: List,
    output: Output,
) -> Result<Answer<Submitted>, Failure> {
    for remark in &list.remarks {
        output.remark(remark);
    }
    job.tasks = Some(std::mem::take(&mut list.tasks));
    let answer = api.submit(&job).await.map_err(Failure::from);
    answer.map_err(|e| with_way_out(e.with_places(|task| list.place(task.index?))))
}

async fn submit_staged(
    api: &Client,
    job: Submission,
    args: &SubmitArgs,
    staging: &Staged<'_>,
) -> Result<Answer<Submitted>, Failure> {
    let job = of_upload(job, args, staging);
    let answer = tokio::select! {
        biased;
        () = ctrl_c() => Err(Failure::submit_interrupted()),
        answer = api.submit(&job) => answer.map_err(Failure::from),
    };
    let name = Input::of(&args.inputs[0]).name();
    let placed = |failure: Failure| failure.with_places(|task| Some(format!("{name}:{}", task.line?)));
    answer.map_err(|failure| staging.explained(placed(failure)))
}

fn of_upload(job: Submission, args: &SubmitArgs, staged: &Staged<'_>) -> Submission {
    let on_invalid_rows = args.on_invalid_rows.map(Into::into);
    SubmitJob { file_input_id: Some(staged.upload.to_string()), on_invalid_rows, ..job }
}

fn with_way_out(failure: Failure) -> Failure {
    match failure.has_invalid_tasks() {
        true => {
            failure.with_hint("correct them, or submit the others of a list with `--on-invalid-rows skip`")
        }
        false => failure,
    }
}

/// The job without its tasks.
fn job(args: &SubmitArgs) -> Result<Submission, Failure> {
    let mut schedule = args.schedule.clone();
    if let Some(schedule) = schedule.as_mut().filter(|schedule| schedule.get("rate").is_none()) {
        // An interval has no zone.
        schedule["timezone"] = args.timezone.as_deref().unwrap_or("UTC").into();
    }
    let domain_limits = domain_limit::gather(&args.domain_limits).map_err(Failure::usage)?;
    let mut params = ZenRowsParams::default();
    for (key, value) in &args.params {
        if params.0.insert(key.clone(), value.as_str().into()).is_some() {
            return Err(Failure::usage(format!("--param {key} is given twice")));
        }
    }
    Ok(SubmitJob {
        kind: Some(if schedule.is_some() { JobType::Scheduled } else { JobType::Regular }),
        status: Some(SubmitStatus::Closed),
        schedule,
        name: args.name.as_deref().map(Into::into),
        external_id: args.external_id.clone().map(ExternalId),
        max_inflight: args.max_inflight.map(Into::into),
        rate_limit: args.rate.map(|rate| limits::rate_limit(rate, args.burst)),
        retry: args.attempts_max.map(|n| RetryBody { attempts_max: Some(n.into()), ..RetryBody::default() }),
        max_failure_ratio: args.max_failure_ratio.map(Decimal),
        result_ttl_days: args.result_ttl_days.map(Into::into),
        domain_limits: domain_limit::to_wire(&domain_limits),
        zenrows_params: Some(params).filter(|params| !params.0.is_empty()),
        ..SubmitJob::default()
    })
}
