//! Writes the results of a job to standard output as JSON Lines, and does its failed tasks again.
//!
//! `CONVEYOR_API_KEY=... cargo run --example results_and_rerun -- JOB > results.jsonl`

mod connection;

use anyhow::Context;
use conveyor_client::Error;
use conveyor_client::wire::TaskStatus;
use futures::TryStreamExt;
use std::pin::pin;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = connection::from_environment()?;
    let job = std::env::args().nth(1).context("name a job")?;
    let mut failed = 0;
    let mut results = pin!(client.results(&job).query("limit", 1_000).raw());
    while let Some(task) = results.try_next().await? {
        println!("{}", task.text());
        failed += u32::from(task.read()?.status == TaskStatus::Failed);
    }
    if failed == 0 {
        return Ok(());
    }
    match client.rerun(&job, None).query("status", "failed").await {
        Ok(rerun) => eprintln!("run {} does {} tasks again", rerun.latest_run.run_id, rerun.retried_tasks),
        // The server says in its words why not: the run has not ended, for example.
        Err(Error::Refused { problem, .. }) => eprintln!("{}: {:?}", problem.code, problem.detail),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
