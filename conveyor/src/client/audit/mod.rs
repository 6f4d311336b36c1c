//! `conveyor audit`: everything that is stored of a run, counted and held against each other.

mod bodies;
mod table;

pub use table::line_of;

use super::args::AuditArgs;
use super::failure::Failure;
use super::print::{self, Output};
use super::progress::unless_interrupted;
use bodies::Bodies;
use conveyor_client::wire::Audit;
use conveyor_client::{Answer, Client};
use serde_json::{Value, json};
use std::process::ExitCode;

pub async fn run(api: &Client, args: &AuditArgs, output: Output) -> Result<ExitCode, Failure> {
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
    api: &Client,
    args: &AuditArgs,
    output: Output,
) -> Result<(Answer<Audit>, Option<Bodies>), Failure> {
    let run = match &args.run {
        Some(run) => run.clone(),
        None => latest_run(api, &args.job).await?,
    };
    let answer = api.audit(&args.job, &run).await?;
    // Where no rows are, there is nothing to read.
    let bodies = match &answer.document.rows {
        Some(rows) if args.deep => {
            Some(bodies::ask(api, &args.job, &run, rows.successful.into(), output).await?)
        }
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

async fn latest_run(api: &Client, job: &str) -> Result<String, Failure> {
    let run = api.job(job).await?.document.latest_run.map(|run| run.run_id.to_string());
    run.ok_or_else(|| Failure::usage("the job's latest run was deleted: name another one with --run"))
}
