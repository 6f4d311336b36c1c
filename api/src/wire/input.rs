//! Upload slots: what callers ask for, checked, and what they are told.

use super::Time;
use crate::fields::Fields;
use crate::problem::{ApiError, Result};
use crate::warnings::Warnings;
use conveyor_domain::ingest::list::Column;
use conveyor_domain::ingest::upload::{Declared, Part};
use conveyor_domain::{CsvSpec, ListFault, ListSpec, Staged, Upload, UploadId, UploadStatus, limits};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

pub(crate) const FIELDS: &[&str] = &["type", "csv", "size_bytes", "sha256", "multipart", "part_bytes"];

#[derive(Debug)]
pub(crate) struct InputRequest {
    pub spec: ListSpec,
    pub declared: Declared,
    pub multipart: bool,
}

impl InputRequest {
    pub fn parse(body: &[u8], list_max_bytes: u64, warnings: &Warnings) -> Result<InputRequest> {
        let fields = Fields::parse(body, FIELDS, warnings)?;
        let spec = parse_spec(&fields)?;
        let size = fields.get("size_bytes", "a number of bytes")?;
        if size.is_some_and(|size| size > list_max_bytes) {
            return Err(too_large(list_max_bytes));
        }
        let multipart = fields.get("multipart", "true or false")?.unwrap_or(false);
        let part_bytes = parse_part_bytes(&fields)?;
        if part_bytes.is_some() && !multipart {
            return Err(ApiError::invalid("`part_bytes` needs `multipart` true."));
        }
        let declared = Declared { size, sha256: parse_sha256(&fields)?, part_bytes };
        Ok(InputRequest { spec, declared, multipart })
    }
}

fn parse_part_bytes(fields: &Fields<'_>) -> Result<Option<u64>> {
    let max = limits::PART_MAX_BYTES;
    let expected = format!("a number of bytes from 1 to {max}");
    let bytes = fields.get("part_bytes", &expected)?;
    match bytes.is_none_or(|bytes| (1..=max).contains(&bytes)) {
        true => Ok(bytes),
        false => Err(ApiError::invalid(format!("`part_bytes` must be {expected}."))),
    }
}

pub(crate) fn too_large(max: u64) -> ApiError {
    ApiError::list(ListFault::SourceTooLarge, None, &format!("The list is larger than {max} bytes."))
}

fn parse_spec(fields: &Fields<'_>) -> Result<ListSpec> {
    const EXPECTED: &str = "\"csv\", \"jsonl\" or \"lines\"";
    let spec = match fields.get::<String>("type", EXPECTED)?.as_deref() {
        Some("csv") => return Ok(ListSpec::Csv { csv: parse_csv(fields)? }),
        Some("jsonl") => ListSpec::Jsonl,
        Some("lines") => ListSpec::Lines,
        Some(_) | None => return Err(ApiError::invalid(format!("`type` must be {EXPECTED}."))),
    };
    match fields.has("csv") {
        true => Err(ApiError::invalid("`csv` needs `type` \"csv\".")),
        false => Ok(spec),
    }
}

fn parse_csv(fields: &Fields<'_>) -> Result<Option<CsvSpec>> {
    let Some(csv) = fields.nested("csv", &["delimiter", "quote", "header", "fields"])? else {
        return Ok(None);
    };
    let delimiter = parse_character(&csv, "delimiter")?.unwrap_or(b',');
    let quote = parse_character(&csv, "quote")?.unwrap_or(b'"');
    if delimiter == quote {
        return Err(ApiError::invalid("`csv.delimiter` and `csv.quote` must differ."));
    }
    let header = csv.get("header", "true or false")?.unwrap_or(false);
    let missing = |path: &str| ApiError::invalid(format!("`{path}` is missing."));
    let columns = csv.nested("fields", &["url", "external_id"])?.ok_or_else(|| missing("csv.fields"))?;
    let url = parse_column(&columns, "url", header)?.ok_or_else(|| missing("csv.fields.url"))?;
    let external_id = parse_column(&columns, "external_id", header)?;
    Ok(Some(CsvSpec { delimiter, quote, header, url, external_id }))
}

fn parse_character(csv: &Fields<'_>, name: &str) -> Result<Option<u8>> {
    const EXPECTED: &str = "one ASCII character, and none that ends a line";
    let Some(text) = csv.get::<String>(name, EXPECTED)? else { return Ok(None) };
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | 0) => Ok(Some(*byte)),
        _ => Err(ApiError::invalid(format!("`{}` must be {EXPECTED}.", csv.path(name)))),
    }
}

fn parse_column(columns: &Fields<'_>, name: &str, header: bool) -> Result<Option<Column>> {
    const EXPECTED: &str = "the name of a column, or its index from 0";
    let path = columns.path(name);
    match columns.get::<Column>(name, EXPECTED)? {
        Some(Column::Name(name)) if name.is_empty() => {
            Err(ApiError::invalid(format!("`{path}` must be {EXPECTED}.")))
        }
        Some(Column::Name(_)) if !header => {
            Err(ApiError::invalid(format!("`{path}` is a name, which needs `csv.header` true.")))
        }
        column => Ok(column),
    }
}

fn parse_sha256(fields: &Fields<'_>) -> Result<Option<String>> {
    const EXPECTED: &str = "64 hex digits";
    let Some(text) = fields.get::<String>("sha256", EXPECTED)? else { return Ok(None) };
    match text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
        true => Ok(Some(text.to_ascii_lowercase())),
        false => Err(ApiError::invalid(format!("`sha256` must be {EXPECTED}."))),
    }
}

/// A slot. `file_input_id`, `upload` and `expires_at` are what the batch client knows.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct InputJson {
    file_input_id: UploadId,
    #[serde(rename = "type")]
    #[schemars(extend("enum" = LIST_TYPES))]
    kind: &'static str,
    status: UploadStatus,
    /// What is there; until then, what was declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    size_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upload: Option<UploadTarget>,
    #[serde(skip_serializing_if = "Option::is_none")]
    multipart: Option<MultipartJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<Vec<PartJson>>,
    created_at: Time,
    expires_at: Time,
}

impl InputJson {
    pub fn new(upload: &Upload) -> InputJson {
        let staged = upload.staged.as_ref();
        InputJson {
            file_input_id: upload.id,
            kind: format_of(&upload.spec),
            status: upload.status(),
            size_bytes: staged.map(|staged| staged.size).or(upload.declared.size),
            sha256: sha256_of(upload).map(str::to_owned),
            upload: None,
            multipart: upload.multipart.then_some(MultipartJson {
                parts_max: limits::UPLOAD_PARTS_MAX,
                part_bytes: upload.declared.part_bytes,
                part_min_bytes: None,
                numbers_max: limits::PART_URLS_MAX,
            }),
            parts: None,
            created_at: Time(upload.created),
            expires_at: Time(upload.expires),
        }
    }

    #[must_use]
    pub fn with_part_min(mut self, bytes: Option<u64>) -> InputJson {
        if let Some(multipart) = &mut self.multipart {
            multipart.part_min_bytes = bytes;
        }
        self
    }

    #[must_use]
    pub fn with_parts(mut self, parts: &[Part]) -> InputJson {
        self.parts = self.multipart.is_some().then(|| parts.iter().map(PartJson::from).collect());
        self
    }
}

/// Of what is there, where that is known; otherwise as it was declared.
fn sha256_of(upload: &Upload) -> Option<&str> {
    upload.staged.as_ref().and_then(Staged::sha256).or(upload.declared.sha256.as_deref())
}

/// What [`format_of`] says.
pub(crate) const LIST_TYPES: [&str; 3] = ["csv", "jsonl", "lines"];

pub(crate) fn format_of(spec: &ListSpec) -> &'static str {
    match spec {
        ListSpec::Csv { .. } => "csv",
        ListSpec::Jsonl => "jsonl",
        ListSpec::Lines => "lines",
    }
}

/// Where to send bytes, and how.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct UploadTarget {
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u32>,
    #[schemars(extend("enum" = ["PUT"]))]
    method: &'static str,
    url: String,
    headers: BTreeMap<String, String>,
    expires_at: Time,
}

impl UploadTarget {
    pub fn whole(url: String, headers: BTreeMap<String, String>, expires: Time) -> UploadTarget {
        UploadTarget { number: None, method: "PUT", url, headers, expires_at: expires }
    }

    pub fn part(number: u32, url: String, expires: Time) -> UploadTarget {
        let headers = BTreeMap::new();
        UploadTarget { number: Some(number), method: "PUT", url, headers, expires_at: expires }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct MultipartJson {
    parts_max: u32,
    /// What every part but the last has. Slots of earlier versions do not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    part_bytes: Option<u64>,
    /// What every part but the last must have, where that matters.
    #[serde(skip_serializing_if = "Option::is_none")]
    part_min_bytes: Option<u64>,
    /// For how many parts one call signs URLs.
    numbers_max: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PartJson {
    number: u32,
    size_bytes: u64,
    etag: String,
}

impl From<&Part> for PartJson {
    fn from(Part { number, staged }: &Part) -> PartJson {
        PartJson { number: *number, size_bytes: staged.size, etag: staged.etag.clone() }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct InputsJson {
    pub job_inputs: Vec<InputJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PartTargetsJson {
    pub parts: Vec<UploadTarget>,
}

/// A list that was taken in.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct UploadedJson<'a> {
    pub file_input_id: UploadId,
    pub size_bytes: u64,
    pub sha256: &'a str,
}

/// A part that was taken in.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct UploadedPartJson<'a> {
    pub file_input_id: UploadId,
    pub number: u32,
    pub size_bytes: u64,
    pub etag: &'a str,
}
