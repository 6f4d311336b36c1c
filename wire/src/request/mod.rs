//! Bodies of requests. A client builds and serialises them; the server deserialises them and describes them as OpenAPI.
//!
//! A field that is `None` is left out. Limits are part of the types: they are checked where a request is deserialised, so a
//! client may also send what only a newer server takes.
//!
//! The text of an error completes a sentence that begins with the path of the field: "must have 1 to 100 items".

mod bounds;
mod limits;
mod operator;
mod schedule;
mod submit;
#[cfg(test)]
mod tests;
mod upload;
mod webhook;

pub use bounds::{Decimal, List, Malformed, Named, Text, Within};
pub use limits::{
    Burst, ChangeLimits, DomainLimitBody, DomainLimitsBody, FailureRatio, MaxInflight, PerSecond, RateBody,
    RetryBody,
};
pub use operator::{ChangeQuotas, CreateKey, QuotasBody, ReconcileRequest, RedriveLetters};
pub use schedule::{
    CadenceBody, CalendarBody, DaysOfMonth, DaysOfWeek, EveryDay, IntervalBody, ScheduleBody, ScheduleTurn,
};
pub use submit::{
    AddTasks, ExternalId, MetadataBody, RerunJob, StartExport, SubmitJob, SubmitStatus, TaskBody, TaskToken,
    ZenRowsParams,
};
pub use upload::{
    Character, CompleteParts, CreateInput, CsvBody, CsvFields, NamedPart, PartNumber, Sha256, SignParts,
};
pub use webhook::{PutWebhook, WebhookBody};

use serde::{Deserialize, Deserializer};

/// A field whose null is not the same as its absence, which `#[serde(default)]` makes `None`.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}
