//! `conveyor stop` and `conveyor delete`.

use super::args::JobArgs;
use super::document::Run;
use super::failure::Failure;
use super::http::{Answer, Api};
use super::print::{self, Output, clean};
use serde_json::json;
use std::process::ExitCode;

pub async fn stop(api: &Api, args: &JobArgs, output: Output) -> Result<ExitCode, Failure> {
    let answer: Answer<Run> = api.post(api.url(&["jobs", &args.job, "stop"]), None).await?;
    if output.json {
        print::line(&answer.text)?;
    } else {
        let run = answer.document;
        print::line(&clean(&format!("run {} {}: {}", run.run_id, run.status, print::progress(&run.stats))))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub async fn delete(api: &Api, args: &JobArgs, output: Output) -> Result<ExitCode, Failure> {
    let answer = api.delete(api.url(&["jobs", &args.job])).await?;
    if !output.json {
        print::line(&clean(&format!("job {} deleted", args.job)))?;
    } else if answer.trim().is_empty() {
        // An answer without a body is still one document.
        print::line(&json!({ "job_id": args.job, "status": "deleted" }).to_string())?;
    } else {
        print::line(answer.trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}
