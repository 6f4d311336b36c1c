//! Submits two URLs, waits until they are fetched, and prints the first line of each body.
//!
//! `CONVEYOR_SERVER=http://127.0.0.1:8080 CONVEYOR_API_KEY=... cargo run --example submit_and_wait`

mod connection;

use conveyor_client::wire::{SubmitJob, TaskBody};
use futures::TryStreamExt;
use std::pin::pin;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = connection::from_environment()?;
    let tasks = ["https://example.com/1", "https://example.com/2"].map(TaskBody::of).to_vec();
    let job: SubmitJob =
        SubmitJob { tasks: Some(tasks), name: Some("an example".into()), ..SubmitJob::default() };
    let submitted = client.submit(&job).await?;
    println!("job {}", submitted.job_id);

    client.wait(submitted.job_id).await?;
    let mut results = pin!(client.results(submitted.job_id).items());
    while let Some(task) = results.try_next().await? {
        match &task.result_url {
            Some(url) => {
                let body: Vec<_> = client.download(url)?.pieces().await?.try_collect().await?;
                let body = body.concat();
                let first = String::from_utf8_lossy(&body).lines().next().unwrap_or_default().to_owned();
                println!("{} {first}", task.url);
            }
            None => println!("{} {}", task.url, task.status),
        }
    }
    Ok(())
}
