//! The template that runs execute.

use crate::id::{CallerId, JobId, RunId};
use crate::limits;
use crate::params::{Format, Params};
use crate::seal::Sealed;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    Open,
    Closed,
    Deleted,
}

impl JobStatus {
    pub const ALL: [JobStatus; 3] = [JobStatus::Open, JobStatus::Closed, JobStatus::Deleted];

    pub fn as_str(self) -> &'static str {
        match self {
            JobStatus::Open => "open",
            JobStatus::Closed => "closed",
            JobStatus::Deleted => "deleted",
        }
    }
}

pub type Metadata = BTreeMap<String, String>;

/// What a submit fixed. Stored as JSON: new fields need a default, so that old rows can still be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    pub format: Format,
    #[serde(default, skip_serializing_if = "Params::is_empty")]
    pub params: Params,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    pub max_inflight: u32,
    /// Was submitted open: its first run took tasks until the last batch.
    #[serde(default)]
    pub submitted_open: bool,
    /// Partitions of its task rows, fixed for life. Readers use this, never the configuration.
    pub task_shard_count: u32,
    /// The key that is forwarded to the gateway, sealed for this job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<Sealed>,
}

impl Default for JobSpec {
    fn default() -> Self {
        JobSpec {
            format: Format::Html,
            params: Params::default(),
            external_id: None,
            name: None,
            metadata: Metadata::new(),
            max_inflight: limits::MAX_INFLIGHT_DEFAULT,
            submitted_open: false,
            task_shard_count: 1,
            credential: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub id: JobId,
    pub caller: CallerId,
    pub spec: Arc<JobSpec>,
    pub status: JobStatus,
    pub latest_run: RunId,
    pub created: Timestamp,
    pub updated: Timestamp,
}
