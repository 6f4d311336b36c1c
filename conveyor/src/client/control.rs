//! `conveyor pause`, `resume`, `stop` and `delete`.

use super::args::{DeleteArgs, JobArgs};
use super::failure::Failure;
use super::print::{self, Output, clean};
use super::progress::unless_interrupted;
use conveyor_client::wire::Run;
use conveyor_client::{Answer, Client};
use serde_json::json;
use std::process::ExitCode;

pub async fn pause(api: &Client, args: &JobArgs, output: Output) -> Result<ExitCode, Failure> {
    show(&api.pause(&args.job).await?, output)
}

pub async fn resume(api: &Client, args: &JobArgs, output: Output) -> Result<ExitCode, Failure> {
    show(&api.resume(&args.job).await?, output)
}

pub async fn stop(api: &Client, args: &JobArgs, output: Output) -> Result<ExitCode, Failure> {
    show(&api.stop(&args.job).await?, output)
}

fn show(answer: &Answer<Run>, output: Output) -> Result<ExitCode, Failure> {
    if output.json {
        print::line(&answer.text)?;
    } else {
        let run = &answer.document;
        print::line(&clean(&format!(
            "run {} {}: {}",
            run.run_id,
            print::state(run),
            print::progress(&run.stats)
        )))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub async fn delete(api: &Client, args: &DeleteArgs, output: Output) -> Result<ExitCode, Failure> {
    let (call, deleted) = match &args.run {
        Some(run) => (api.delete_run(&args.job, run), format!("run {run} deleted")),
        None => (api.delete_job(&args.job), format!("job {} deleted", args.job)),
    };
    let answer = unless_interrupted(call.into_future()).await.ok_or_else(|| {
        Failure::stopped("whether it was deleted is not known; deleting it again does no harm")
    })??;
    if !output.json {
        print::line(&clean(&deleted))?;
    } else if answer.text.trim().is_empty() {
        // An answer without a body is still one document.
        print::line(&json!({ "job_id": args.job, "status": "deleted" }).to_string())?;
    } else {
        print::line(answer.text.trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}
