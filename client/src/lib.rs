//! A client of Conveyor's HTTP API: typed requests and answers, retries, lists page by page, lists of URLs uploaded as they
//! are read, and events as they happen.
//!
//! ```no_run
//! use conveyor_client::Client;
//! use conveyor_client::wire::{SubmitJob, TaskBody};
//! use futures::TryStreamExt;
//!
//! # async fn example() -> Result<(), conveyor_client::Error> {
//! let client = Client::builder("http://127.0.0.1:8080").key("...").build()?;
//! let tasks = vec![TaskBody::of("https://example.com")];
//! let job: SubmitJob = SubmitJob { tasks: Some(tasks), ..SubmitJob::default() };
//! let job = client.submit(&job).await?;
//! client.wait(job.job_id).await?;
//! let mut results = std::pin::pin!(client.results(job.job_id).items());
//! while let Some(task) = results.try_next().await? {
//!     println!("{} {}", task.status, task.url);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! - An operation is a [`Call`], which is sent when it is awaited, or [`Pages`] or a [`Download`], which fetch as they are read.
//!   Its bodies are the types of [`wire`].
//! - A request whose answer is lost is repeated with exponential backoff where that does no harm: a GET, an operation that
//!   comes to the same twice, and a POST that makes something, which the client sends under an `Idempotency-Key`.
//! - An [`Answer`] also has the text as it was sent. A word that this version does not know is kept as text, a field that it
//!   does not know is ignored: a newer server can be asked.
//!
//! This crate must not know stores, roles or the command line.

mod answer;
mod call;
mod client;
mod download;
mod error;
mod follow;
mod operations;
mod pages;
mod retry;
mod sse;
mod upload;
mod watch;

pub use answer::{Answer, Done, Raw};
pub use call::Call;
pub use client::{Builder, Client, server_url};
pub use conveyor_domain::ingest::list::Column;
pub use conveyor_domain::{
    ExportFormat, IngestStatus, JobId, JobStatus, RunId, RunStatus, ScheduleState, TaskId, UploadId,
    UploadStatus,
};
pub use conveyor_wire as wire;
pub use download::Download;
pub use error::{Error, NotResumable};
pub use pages::Pages;
pub use retry::Retries;
pub use upload::{ListFile, Moved, Source, Upload, read_head};
