//! What Conveyor is, without any I/O: identifiers, states and their transitions, validation, limits, and the arithmetic
//! of retries and permits.
//!
//! This crate must not know about stores, sockets, clocks or threads. Time and randomness come in as arguments, so every
//! function here gives the same answer for the same input.

pub mod api_key;
pub mod beside;
pub mod breaker;
pub mod checksum;
pub mod clock;
pub mod damage;
pub mod dead_letter;
pub mod delivery;
pub mod domains;
pub mod entropy;
pub mod estimate;
pub mod export;
pub mod failure;
pub mod gateway_answer;
pub mod grant;
pub mod headers;
pub mod id;
pub mod idempotency;
pub mod ingest;
pub mod job;
pub mod job_schedule;
pub mod lifecycle;
pub mod limits;
pub mod list;
pub mod list_count;
pub mod message;
pub mod params;
pub mod proof;
pub mod quota;
pub mod rate;
pub mod record;
pub mod repair;
pub mod request_rate;
pub mod rerun;
pub mod result_index;
pub mod retention;
pub mod retry;
pub mod run;
pub mod schedule;
pub mod seal;
pub mod shards;
pub mod signing_keys;
pub mod spend;
pub mod spreadsheet;
mod start_run;
pub mod task;
pub mod task_input;
pub mod time;
pub mod timeline;
pub mod unsent_refs;
pub mod upload;
pub mod webhook;

pub use entropy::Entropy;
pub use failure::{AccountFault, FailureClass, Problem};
pub use id::{
    ApiKeyId, CallerId, ClaimToken, EventId, ExportId, JobId, KeyId, LetterId, RunId, TaskId, UploadId,
    WorkerId,
};
pub use job::{Job, JobStatus};
pub use run::{Run, RunStats, RunStatus};
pub use spend::Spend;
pub use task::{Task, TaskStatus};
pub use task_input::TaskInput;
pub use time::{Clock, Timestamp};
