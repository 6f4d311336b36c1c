//! Exports, as they are asked for and shown.

use crate::fields::Fields;
use crate::problem::Result;
use crate::warnings::Warnings;
use conveyor_domain::ExportFormat;

/// The format that a request asks for, if it has a body at all.
pub(crate) fn parse_format(body: Option<&[u8]>, warnings: &Warnings) -> Result<ExportFormat> {
    let Some(body) = body else { return Ok(ExportFormat::default()) };
    let fields = Fields::parse(body, &["format"], warnings)?;
    Ok(fields.get("format", "one of: zip, jsonl, csv")?.unwrap_or_default())
}
