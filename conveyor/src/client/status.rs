//! `conveyor status`: a job and its latest run.

use super::args::StatusArgs;
use super::document::Job;
use super::failure::Failure;
use super::http::{Answer, Api};
use super::print::{self, Output};
use super::progress;
use std::process::ExitCode;

pub async fn run(api: &Api, args: &StatusArgs, output: Output) -> Result<ExitCode, Failure> {
    if args.watch {
        let last = progress::watch(api, &args.job, output).await?;
        show(&last, output)?;
        return Ok(progress::exit_code(&last.document));
    }
    let answer = api.get(api.url(&["jobs", &args.job])).await?;
    show(&answer, output)?;
    Ok(ExitCode::SUCCESS)
}

pub fn show(answer: &Answer<Job>, output: Output) -> Result<(), Failure> {
    if output.json { print::line(&answer.text) } else { print::job(&answer.document) }
}
