//! `conveyor audit`: everything that is stored of a run, counted and held against each other.

mod document;
mod table;

pub use document::{Finding, Unsure};

use super::args::AuditArgs;
use super::document::Job;
use super::failure::Failure;
use super::http::{Answer, Api};
use super::print::{self, Output};
use super::progress::unless_interrupted;
use document::Audit;
use std::process::ExitCode;

pub async fn run(api: &Api, args: &AuditArgs, output: Output) -> Result<ExitCode, Failure> {
    let answer = unless_interrupted(ask(api, args)).await;
    let answer =
        answer.ok_or_else(|| Failure::stopped("the run was not audited, and nothing was changed"))??;
    print::line(&if output.json { answer.text } else { table::text(&answer.document) })?;
    Ok(if answer.document.agrees { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn ask(api: &Api, args: &AuditArgs) -> Result<Answer<Audit>, Failure> {
    let run = match &args.run {
        Some(run) => run.clone(),
        None => latest_run(api, &args.job).await?,
    };
    api.get(api.url(&["jobs", &args.job, "runs", &run, "audit"])).await
}

async fn latest_run(api: &Api, job: &str) -> Result<String, Failure> {
    let answer: Answer<Job> = api.get(api.url(&["jobs", job])).await?;
    let run = answer.document.latest_run.map(|run| run.run_id);
    run.ok_or_else(|| Failure::usage("the job's latest run was deleted: name another one with --run"))
}
