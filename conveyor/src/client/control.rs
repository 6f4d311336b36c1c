//! `conveyor pause`, `resume`, `stop` and `delete`.

use super::args::{DeleteArgs, JobArgs};
use super::document::Run;
use super::failure::Failure;
use super::http::{Answer, Api};
use super::print::{self, Output, clean};
use super::progress::unless_interrupted;
use serde_json::json;
use std::process::ExitCode;

pub async fn pause(api: &Api, args: &JobArgs, output: Output) -> Result<ExitCode, Failure> {
    // Repeating it changes nothing.
    show(&api.post_again(api.url(&["jobs", &args.job, "pause"]), None).await?, output)
}

pub async fn resume(api: &Api, args: &JobArgs, output: Output) -> Result<ExitCode, Failure> {
    show(&api.post_again(api.url(&["jobs", &args.job, "resume"]), None).await?, output)
}

pub async fn stop(api: &Api, args: &JobArgs, output: Output) -> Result<ExitCode, Failure> {
    show(&api.post(api.url(&["jobs", &args.job, "stop"]), None).await?, output)
}

fn show(answer: &Answer<Run>, output: Output) -> Result<ExitCode, Failure> {
    if output.json {
        print::line(&answer.text)?;
    } else {
        let run = &answer.document;
        print::line(&clean(&format!("run {} {}: {}", run.run_id, run.state(), print::progress(&run.stats))))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub async fn delete(api: &Api, args: &DeleteArgs, output: Output) -> Result<ExitCode, Failure> {
    let (url, deleted) = match &args.run {
        Some(run) => (api.url(&["jobs", &args.job, "runs", run]), format!("run {run} deleted")),
        None => (api.url(&["jobs", &args.job]), format!("job {} deleted", args.job)),
    };
    let answer = unless_interrupted(api.delete(url)).await.ok_or_else(|| {
        Failure::stopped("whether it was deleted is not known; deleting it again does no harm")
    })??;
    if !output.json {
        print::line(&clean(&deleted))?;
    } else if answer.trim().is_empty() {
        // An answer without a body is still one document.
        print::line(&json!({ "job_id": args.job, "status": "deleted" }).to_string())?;
    } else {
        print::line(answer.trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}
