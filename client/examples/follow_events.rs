//! Prints the events of a job as they happen, until its run is over.
//!
//! `CONVEYOR_API_KEY=... cargo run --example follow_events -- JOB`

mod connection;

use anyhow::Context;
use futures::TryStreamExt;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = connection::from_environment()?;
    let job = std::env::args().nth(1).context("name a job")?;
    let mut events = client.follow(job, 0);
    while let Some(event) = events.try_next().await? {
        let event = event.read()?;
        println!("{} {} {} {}", event.id, event.at, event.kind, event.data);
    }
    Ok(())
}
