use crate::{Cursor, Open, Time};
use conveyor_domain::{ListSpec, UploadId, UploadStatus, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A slot for a list, and what is in it.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    pub file_input_id: UploadId,
    /// How the list is written: `csv`; `jsonl`, JSON objects one a line; `lines`, URLs one a line.
    #[serde(rename = "type")]
    pub kind: Open<ListType>,
    /// Whether bytes are there, and whether a job was made of them.
    pub status: Open<UploadStatus>,
    /// What is there; until then, what was declared.
    pub size_bytes: Option<u64>,
    /// The sha256 of the bytes, in hex.
    #[schemars(extend("examples" = ["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]))]
    pub sha256: Option<String>,
    /// Where to send the bytes, as long as they can be sent.
    pub upload: Option<UploadTarget>,
    /// How the list is sent in parts.
    pub multipart: Option<Multipart>,
    /// The parts that are there.
    pub parts: Option<Vec<Part>>,
    pub created_at: Time,
    /// Until when.
    pub expires_at: Time,
}

words! {
    /// How a list is written: `csv`; `jsonl`, JSON objects one a line, as in `tasks`; `lines`, URLs one a line.
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
    /// The number of the part, from 1.
    pub number: Option<u32>,
    /// How to send the bytes: `PUT`.
    #[schemars(extend("enum" = ["PUT"]))]
    pub method: Cow<'static, str>,
    /// The signed URL.
    #[schemars(extend("examples" = ["https://api.example.com/v1/uploads/01KCX5Z3E5F7G9H1J3K5M7N9P3/01KCX5R8W2A4B6C8D0E2F4G6H8?expires=1767227400&signature=q0b3f1"]))]
    pub url: String,
    /// What must be sent with the bytes.
    #[schemars(extend("examples" = [{"Content-Type": "text/csv"}]))]
    pub headers: BTreeMap<String, String>,
    /// Until when bytes can be sent there.
    pub expires_at: Time,
}

/// How a list is sent in parts.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"numbers_max": 100, "part_bytes": 16777216, "parts_max": 1000}]))]
pub struct Multipart {
    /// How many parts a list may have.
    pub parts_max: u32,
    /// What every part but the last has. Slots of earlier versions do not say.
    pub part_bytes: Option<u64>,
    /// What every part but the last must have, where that matters.
    pub part_min_bytes: Option<u64>,
    /// For how many parts one call signs URLs.
    pub numbers_max: usize,
}

/// A part that is there.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"etag": "9f86d081884c7d65", "number": 1, "size_bytes": 48211337}]))]
pub struct Part {
    /// The number of the part, from 1.
    pub number: u32,
    /// How many bytes: of what is there, until then as declared.
    pub size_bytes: u64,
    /// What the answer to the part said in `ETag`.
    pub etag: String,
}

/// A page of slots.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Inputs {
    pub job_inputs: Vec<Input>,
    #[schemars(with = "Option<Cursor>")]
    pub next_cursor: Option<String>,
}

/// Where to send parts.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PartTargets {
    /// Where to send each of them.
    pub parts: Vec<UploadTarget>,
}

/// A list that was taken in.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Uploaded {
    pub file_input_id: UploadId,
    /// How many bytes: of what is there, until then as declared.
    pub size_bytes: u64,
    /// The sha256 of the bytes, in hex.
    #[schemars(extend("examples" = ["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]))]
    pub sha256: String,
}

/// A part that was taken in.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [
    {"etag": "9f86d081884c7d65", "file_input_id": "01KCX5R8W2A4B6C8D0E2F4G6H8", "number": 1, "size_bytes":
    48211337}
]))]
pub struct UploadedPart {
    pub file_input_id: UploadId,
    /// The number of the part, from 1.
    pub number: u32,
    /// How many bytes: of what is there, until then as declared.
    pub size_bytes: u64,
    /// What the answer to the part said in `ETag`.
    pub etag: String,
}
