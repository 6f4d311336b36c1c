//! What Conveyor is, without any I/O: identifiers, states and their transitions, validation, limits, and the arithmetic
//! of retries and permits.
//!
//! This crate must not know about stores, sockets, clocks or threads. Time and randomness come in as arguments, so every
//! function here gives the same answer for the same input.

pub mod access;
pub mod backoff;
pub mod clock;
pub mod delivery;
pub mod dispatch;
pub mod entropy;
pub mod export;
pub mod id;
pub mod ingest;
pub mod job;
pub mod limits;
pub mod repair;
pub mod schedule;
pub mod time;
pub mod words;

// One path for each type that its name alone tells apart. What is left is qualified by its module.
pub use access::api_key::{self, ApiKey, Opens, OperatorHash};
pub use access::idempotency::{Fingerprint, Fingerprinting};
pub use access::quota::{Holdings, LiveRun, Quota, Quotas};
pub use access::request_rate::RequestRate;
pub use access::seal::{self, KeyHash, NotAHash, NotAuthentic, Purpose, Sealed, Secret};
pub use backoff::Exponential;
pub use delivery::signing_keys::{RotationRefused, SigningKey, SigningKeys, SigningSecret};
pub use delivery::webhook::{EventType, TestSent, UrlFault, WebhookConfig, WebhookEvent};
pub use delivery::{AttemptEnd, Delivery, DeliveryState};
pub use dispatch::breaker::{self, FailureRatio};
pub use dispatch::domains::{self, DomainLimit, DomainLimits, InvalidDomain};
pub use dispatch::grant::{Budget, BudgetView, DomainWait, Grant};
pub use dispatch::message::{IngestRef, QueueName, TaskRef};
pub use dispatch::rate::{InvalidRate, Rate};
pub use dispatch::retry::{RetryChoice, RetryPolicy};
pub use dispatch::shards;
pub use dispatch::unsent_refs::UnsentRefs;
pub use entropy::Entropy;
pub use export::result_index::{self, IndexEntry, NotAnIndex};
pub use export::{Export, ExportFormat, checksum};
pub use id::{
    ApiKeyId, CallerId, ClaimToken, EventId, ExportId, InvalidId, JobId, KeyId, LetterId, RunId, TaskId,
    UploadId, WorkerId,
};
pub use ingest::estimate::Estimate;
pub use ingest::list::{
    Compression, CsvSpec, ListFault, ListSpec, OnInvalidRows, RejectedRow, UnknownCounts,
};
pub use ingest::list_count::{ListCount, RowCount};
pub use ingest::upload::{BrokenPromise, Staged, Upload, UploadStatus};
pub use ingest::{IngestEvent, IngestState, LogOutOfOrder, LoggedEvent, NextStep, Origin};
pub use job::failure::{self, AccountFault, FailureClass, Problem};
pub use job::headers::{self, HeaderSeal};
pub use job::lifecycle::{self, Command, IngestStep, NewRun, NewTasks, Refusal};
pub use job::params::{self, Format, ParamPolicy, Params};
pub use job::record::{Record, RecordKey, RecordKind, RecordVersion, RecordWrite, Unreadable};
pub use job::rerun::{self, InheritedEnd, InheritedFrom, Replay, ReplayedTask, Selection};
pub use job::retention;
pub use job::run::{
    Counts, FailureReason, IngestStatus, PauseCode, PauseReason, Run, RunDoc, RunFailure, RunFailureReason,
    RunStats, RunStatus, ShownTotal, Storage, Trigger,
};
pub use job::spend::{self, Spend};
pub use job::task::{Attempt, ClaimDecision, Outcome, ResultRef, Task, TaskStatus};
pub use job::task_input::{self, Method, TaskBody, TaskInput, TaskRules, UnknownFields};
pub use job::timeline::{self, JobEvent, LifecycleEvent, TimelineEntry};
pub use job::{Job, JobSpec, JobStatus, LimitsChange, Metadata, beside};
pub use repair::damage::{self, BodyFault, Damage};
pub use repair::dead_letter::DeadLetter;
pub use repair::proof::{self, RowCounts, Sums};
pub use repair::{Audit, BodiesAudit, ListCounts, Reconciled, ResultCounts};
pub use schedule::calendar::{Schedule, Weekday};
pub use schedule::{JobSchedule, ScheduleChange, ScheduleState};
pub use time::{Clock, Timestamp};
pub use words::UnknownWord;
