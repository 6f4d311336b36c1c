use crate::{Open, Time};
use conveyor_domain::{ListSpec, UploadId, UploadStatus, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A slot. `file_input_id`, `upload` and `expires_at` are what the batch client knows.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    pub file_input_id: UploadId,
    #[serde(rename = "type")]
    pub kind: Open<ListType>,
    pub status: Open<UploadStatus>,
    /// What is there; until then, what was declared.
    pub size_bytes: Option<u64>,
    pub sha256: Option<String>,
    pub upload: Option<UploadTarget>,
    pub multipart: Option<Multipart>,
    pub parts: Option<Vec<Part>>,
    pub created_at: Time,
    pub expires_at: Time,
}

words! {
    #[derive(JsonSchema)]
    pub enum ListType as json {
        Csv = "csv",
        Jsonl = "jsonl",
        Lines = "lines",
    }
}

impl From<&ListSpec> for ListType {
    fn from(spec: &ListSpec) -> ListType {
        match spec {
            ListSpec::Csv { .. } => ListType::Csv,
            ListSpec::Jsonl => ListType::Jsonl,
            ListSpec::Lines => ListType::Lines,
        }
    }
}

/// Where to send bytes, and how.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct UploadTarget {
    pub number: Option<u32>,
    #[schemars(extend("enum" = ["PUT"]))]
    pub method: Cow<'static, str>,
    pub url: String,
    pub headers: BTreeMap<String, String>,
    pub expires_at: Time,
}

#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Multipart {
    pub parts_max: u32,
    /// What every part but the last has. Slots of earlier versions do not say.
    pub part_bytes: Option<u64>,
    /// What every part but the last must have, where that matters.
    pub part_min_bytes: Option<u64>,
    /// For how many parts one call signs URLs.
    pub numbers_max: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    pub number: u32,
    pub size_bytes: u64,
    pub etag: String,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Inputs {
    pub job_inputs: Vec<Input>,
    pub next_cursor: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PartTargets {
    pub parts: Vec<UploadTarget>,
}

/// A list that was taken in.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Uploaded {
    pub file_input_id: UploadId,
    pub size_bytes: u64,
    pub sha256: String,
}

/// A part that was taken in.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct UploadedPart {
    pub file_input_id: UploadId,
    pub number: u32,
    pub size_bytes: u64,
    pub etag: String,
}
