//! Upload slots: what callers ask for, checked, and what they are told.

use crate::fields::Fields;
use crate::problem::{ApiError, Result};
use crate::warnings::Warnings;
use conveyor_domain::ingest::list::Column;
use conveyor_domain::ingest::upload::Declared;
use conveyor_domain::{CsvSpec, ListFault, ListSpec, limits};

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
