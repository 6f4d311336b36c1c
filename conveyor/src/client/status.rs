//! `conveyor status`: a job and its latest run.

use super::args::StatusArgs;
use super::failure::Failure;
use super::print::{self, Output};
use super::{ingest, limits, progress};
use conveyor_client::wire::Job;
use conveyor_client::{Answer, Client};
use std::process::ExitCode;

pub async fn run(api: &Client, args: &StatusArgs, output: Output) -> Result<ExitCode, Failure> {
    if args.watch {
        return watch(api, &args.job, output).await;
    }
    let answer = api.job(&args.job).await?;
    show(api, &answer, output).await?;
    Ok(ExitCode::SUCCESS)
}

/// Shows progress until the run is over, and then the job.
pub async fn watch(api: &Client, job: &str, output: Output) -> Result<ExitCode, Failure> {
    let last = progress::watch(api, job, output).await?;
    show(api, &last, output).await?;
    Ok(progress::exit_code(&last.document))
}

async fn show(api: &Client, answer: &Answer<Job>, output: Output) -> Result<(), Failure> {
    if output.json {
        return print::line(&answer.text);
    }
    let job = &answer.document;
    let ingest = match &job.latest_run {
        Some(run) => ingest::find(api, job.job_id, run.run_id).await?,
        None => None,
    };
    let waiting = match &job.latest_run {
        Some(run) if !run.is_over() => limits::why_waiting(api, job.job_id).await,
        Some(_) | None => None,
    };
    print::job(job, ingest.as_ref(), waiting.as_deref())?;
    ingest::remark_rejected(ingest.as_ref(), job.job_id, output);
    Ok(())
}
