//! What a job of a staged list is made of.

use crate::problem::{ApiError, Code, Result};
use conveyor_domain::ingest::Source;
use conveyor_domain::{OnInvalidRows, TaskRules, Upload};

/// Pins what is staged now.
pub(crate) fn source_of(upload: Upload, on_invalid_rows: OnInvalidRows, rules: TaskRules) -> Result<Source> {
    let Upload { id, spec, multipart, staged, .. } = upload;
    let refuse = || match multipart {
        true => ApiError::new(Code::FileInputIncomplete, "The parts of the file input are not joined."),
        false => ApiError::new(Code::FileInputNotUploaded, "Nothing was uploaded to the file input."),
    };
    let (param_policy, unknown_fields) = (Some(rules.params), rules.unknown_fields);
    let staged = staged.ok_or_else(refuse)?;
    Ok(Source { upload: id, staged, spec, on_invalid_rows, param_policy, unknown_fields })
}
