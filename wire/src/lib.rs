//! Every body of the HTTP API (SPEC 10), once: clients send requests, which the server parses; the server prints answers, which
//! clients read. The API description is generated from these types, and from the comments on them.
//!
//! This crate must not know about HTTP, stores or the way in which an answer is made. It has the ids, states and limits of
//! the domain; what turns a job into a [`Job`] is in the API.
//!
//! - Bodies own what they hold, so that one type serves the server and its clients. A field that is `None` is left out.
//! - A word of a closed set is an [`Open`] in an answer: the server only makes those that it knows, and the description
//!   lists them; a client of an older version keeps the words of a newer server as text.
//! - A field that a client does not know is ignored.

mod cursor;
mod dead_letter;
mod dry_run;
mod event;
mod export;
mod ingest;
mod job;
mod key;
mod limits;
mod open;
mod repair;
mod request;
mod run;
mod service;
mod task;
mod time;
mod upload;
mod warning;
mod webhook;

pub use cursor::Cursor;
pub use dead_letter::{Became, Letter, LetterOutcome, Letters, NextSweep, Redriven};
pub use dry_run::{Assumes, DomainCount, DomainCounts, DryRun, Estimate};
pub use event::{Event, Events};
pub use export::{Export, ExportStatus, Exports, Progress, StartedExport};
pub use ingest::{Fault, Ingest, IngestState, RowWarning};
pub use job::{Added, Job, JobType, Jobs, Submitted};
pub use key::{ApiKey, ApiKeys, Caller, KeyKind};
pub use limits::{
    Domain, DomainLimit, Holder, Lease, Leases, Limits, Queue, Rate, RateState, Waiting, WaitingReason,
};
pub use open::Open;
pub use repair::{
    Audit, BodiesAudit, BodyFault, Counters, Finding, Outcome, Reconciled, RepairError, RowCounts, Subject,
    Treated, Unsure,
};
pub use request::{
    AddTasks, Burst, CadenceBody, CalendarBody, ChangeLimits, ChangeQuotas, Character, CompleteParts,
    CreateInput, CreateKey, CsvBody, CsvFields, DaysOfMonth, DaysOfWeek, Decimal, DomainLimitBody,
    DomainLimitsBody, EveryDay, ExternalId, FailureRatio, IntervalBody, List, Malformed, MaxInflight,
    MetadataBody, Named, NamedPart, PartNumber, PerSecond, PutWebhook, QuotasBody, RateBody,
    ReconcileRequest, RedriveLetters, RerunJob, RetryBody, ScheduleBody, ScheduleTurn, Sha256, SignParts,
    StartExport, SubmitJob, SubmitStatus, TaskBody, TaskToken, Text, WebhookBody, Within, ZenRowsParams,
};
pub use run::{PauseReason, PauseState, Rerun, Run, Runs};
pub use service::{Clock, Health, HealthStatus, Removal};
pub use task::{Attempt, History, InvalidTask, Results, Task, TaskStatus};
pub use time::Time;
pub use upload::{
    Input, Inputs, ListType, Multipart, Part, PartTargets, UploadTarget, Uploaded, UploadedPart,
};
pub use warning::{Warning, WarningCode, Warnings};
pub use webhook::{
    Deliveries, Delivery, DeliveryAttempt, Disabled, HmacKey, HmacKeyCreated, HmacKeyFinalized, HmacKeys,
    TestSent, Webhook,
};

pub use conveyor_domain::access::quota::Used as CallerUsage;
/// What of the domain is on the wire as it is.
pub use conveyor_domain::delivery::webhook::{EventSpend as Spend, EventStats as Stats};
pub use conveyor_domain::repair::{ListCounts, ResultCounts, SubjectType};
pub use conveyor_domain::{Problem, Quotas, RejectedRow, RunFailureReason};
