//! `conveyor submit`: a list becomes a job.

use super::args::SubmitArgs;
use super::document::Submitted;
use super::failure::Failure;
use super::http::{Answer, Api};
use super::list::{Input, List, Single, Told};
use super::print::{self, Output, clean};
use super::progress::ctrl_c;
use super::upload::{self, Staging};
use super::{dry_run, ingest, limits, status};
use crate::domain_limit;
use conveyor_domain::OnInvalidRows;
use serde_json::{Map, Value, json};
use std::process::ExitCode;

pub async fn run(api: &Api, args: SubmitArgs, output: Output) -> Result<ExitCode, Failure> {
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
    let Submitted { job_id, accepted_tasks, latest_run } = &answer.document;
    let ingest_status = latest_run.as_ref().and_then(|run| run.ingest_status.as_deref());
    output.remark(&match ingest_status {
        Some("pending") => "accepted; the list is being read".to_owned(),
        Some(_) | None => format!("{accepted_tasks} tasks accepted"),
    });
    if !output.json {
        // Alone on its line: `JOB=$(conveyor submit urls.txt)`.
        print::line(&clean(job_id))?;
    }
    if args.watch {
        return status::watch(api, job_id, output).await;
    }
    if output.json {
        print::line(&answer.text)?;
    } else if let Some(run) = latest_run.as_ref().filter(|_| was_staged) {
        ingest::remark_rejected(ingest::find(api, job_id, &run.run_id).await?.as_ref(), job_id, output);
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks what the submit would come to.
async fn try_out(
    api: &Api,
    mut job: Value,
    args: &SubmitArgs,
    prepared: Prepared<'_>,
    output: Output,
) -> Result<ExitCode, Failure> {
    match prepared {
        Prepared::Inline(mut list) => {
            job["tasks"] = Value::Array(std::mem::take(&mut list.tasks));
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
    Staged(Staging<'a>),
}

/// Gathers what is to be submitted, or uploads it.
async fn prepare<'a>(api: &'a Api, args: &'a SubmitArgs, output: Output) -> Result<Prepared<'a>, Failure> {
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
    api: &Api,
    mut job: Value,
    mut list: List,
    output: Output,
) -> Result<Answer<Submitted>, Failure> {
    for remark in &list.remarks {
        output.remark(remark);
    }
    job["tasks"] = Value::Array(std::mem::take(&mut list.tasks));
    let answer = api.post_once(api.url(&["jobs"]), Some(&job)).await;
    answer.map_err(|e| with_way_out(e.with_places(|task| list.place(task.index?))))
}

async fn submit_staged(
    api: &Api,
    job: Value,
    args: &SubmitArgs,
    staging: &Staging<'_>,
) -> Result<Answer<Submitted>, Failure> {
    let job = of_upload(job, args, staging);
    let answer = tokio::select! {
        biased;
        () = ctrl_c() => Err(Failure::submit_interrupted()),
        answer = api.post_once(api.url(&["jobs"]), Some(&job)) => answer,
    };
    let name = Input::of(&args.inputs[0]).name();
    let placed = |failure: Failure| failure.with_places(|task| Some(format!("{name}:{}", task.line?)));
    answer.map_err(|failure| staging.explained(placed(failure)))
}

fn of_upload(mut job: Value, args: &SubmitArgs, staging: &Staging<'_>) -> Value {
    job["file_input_id"] = json!(staging.upload);
    if let Some(on_invalid_rows) = args.on_invalid_rows {
        job["on_invalid_rows"] = json!(OnInvalidRows::from(on_invalid_rows));
    }
    job
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
fn job(args: &SubmitArgs) -> Result<Value, Failure> {
    let mut job = json!({ "type": "regular", "status": "closed" });
    if let Some(schedule) = &args.schedule {
        job["type"] = json!("scheduled");
        job["schedule"] = schedule.clone();
        // An interval has no zone.
        if schedule.get("rate").is_none() {
            job["schedule"]["timezone"] = json!(args.timezone.as_deref().unwrap_or("UTC"));
        }
    }
    if let Some(name) = &args.name {
        job["name"] = json!(name);
    }
    if let Some(external_id) = &args.external_id {
        job["external_id"] = json!(external_id);
    }
    if let Some(max_inflight) = args.max_inflight {
        job["max_inflight"] = json!(max_inflight);
    }
    if let Some(rate) = args.rate {
        job["rate_limit"] = limits::rate_limit(rate, args.burst);
    }
    if let Some(attempts_max) = args.attempts_max {
        job["retry"] = json!({ "attempts_max": attempts_max });
    }
    if let Some(ratio) = args.max_failure_ratio {
        job["max_failure_ratio"] = json!(ratio);
    }
    if let Some(days) = args.result_ttl_days {
        job["result_ttl_days"] = json!(days);
    }
    let domain_limits = domain_limit::gather(&args.domain_limits).map_err(Failure::usage)?;
    if !domain_limits.is_empty() {
        job["domain_limits"] = domain_limit::to_json(&domain_limits);
    }
    let mut params = Map::new();
    for (key, value) in &args.params {
        if params.insert(key.clone(), json!(value)).is_some() {
            return Err(Failure::usage(format!("--param {key} is given twice")));
        }
    }
    if !params.is_empty() {
        job["zenrows_params"] = Value::Object(params);
    }
    Ok(job)
}
