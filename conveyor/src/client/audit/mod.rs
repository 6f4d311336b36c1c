//! `conveyor audit`: everything that is stored of a run, counted and held against each other.

mod bodies;
mod document;
mod table;

pub use document::{Finding, Unsure};

use super::args::AuditArgs;
use super::document::Job;
use super::failure::Failure;
use super::http::{Answer, Api};
use super::print::{self, Output};
use super::progress::unless_interrupted;
use bodies::Bodies;
use document::Audit;
use serde_json::{Value, json};
use std::process::ExitCode;

pub async fn run(api: &Api, args: &AuditArgs, output: Output) -> Result<ExitCode, Failure> {
    let asked = unless_interrupted(ask(api, args, output)).await;
    let (answer, bodies) =
        asked.ok_or_else(|| Failure::stopped("the run was not audited, and nothing was changed"))??;
    let agrees = answer.document.agrees && bodies.as_ref().is_none_or(Bodies::agree);
    let text = match (&bodies, output.json) {
        (_, false) => table::text(&answer.document, bodies.as_ref()),
        (None, true) => answer.text,
        (Some(bodies), true) => with_bodies(&answer.text, bodies, agrees)?,
    };
    print::line(&text)?;
    Ok(if agrees { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn ask(
    api: &Api,
    args: &AuditArgs,
    output: Output,
) -> Result<(Answer<Audit>, Option<Bodies>), Failure> {
    let run = match &args.run {
        Some(run) => run.clone(),
        None => latest_run(api, &args.job).await?,
    };
    let answer: Answer<Audit> = api.get(api.url(&["jobs", &args.job, "runs", &run, "audit"])).await?;
    // Where no rows are, there is nothing to read.
    let bodies = match &answer.document.rows {
        Some(rows) if args.deep => Some(bodies::ask(api, &args.job, &run, rows.successful, output).await?),
        Some(_) | None => None,
    };
    Ok((answer, bodies))
}

/// The answer as one document, with what its bodies came to.
fn with_bodies(audit: &str, bodies: &Bodies, agrees: bool) -> Result<String, Failure> {
    let audit: Value = serde_json::from_str(audit).map_err(|e| Failure::not_understood(e.to_string()))?;
    let Value::Object(mut audit) = audit else {
        return Err(Failure::not_understood("an audit that is none"));
    };
    audit.insert("agrees".to_owned(), agrees.into());
    audit.insert("bodies".to_owned(), json!(bodies));
    Ok(Value::Object(audit).to_string())
}

async fn latest_run(api: &Api, job: &str) -> Result<String, Failure> {
    let answer: Answer<Job> = api.get(api.url(&["jobs", job])).await?;
    let run = answer.document.latest_run.map(|run| run.run_id);
    run.ok_or_else(|| Failure::usage("the job's latest run was deleted: name another one with --run"))
}
