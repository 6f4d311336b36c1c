//! What can be wrong with a list, or with one row of it.

use super::MAX_LINE_BYTES;
use std::io;

#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The bytes could not be read to their end.
    #[error("the list could not be read")]
    Read(#[from] io::Error),
    #[error("line {line}: longer than {MAX_LINE_BYTES} bytes")]
    LineTooLong { line: u64 },
    #[error("line {line}: not UTF-8")]
    NotUtf8 { line: u64 },
    #[error("line {line}: not JSON: {reason} (column {column})")]
    NotJson { line: u64, column: usize, reason: String },
    #[error("line {line}: not a JSON object")]
    NotAnObject { line: u64 },
    #[error("line {line}: nothing in the url column")]
    NoUrl { line: u64 },
}

impl DecodeError {
    pub fn line(&self) -> Option<u64> {
        match self {
            DecodeError::Read(_) => None,
            DecodeError::LineTooLong { line }
            | DecodeError::NotUtf8 { line }
            | DecodeError::NotJson { line, .. }
            | DecodeError::NotAnObject { line }
            | DecodeError::NoUrl { line } => Some(*line),
        }
    }

    /// Whether the list cannot be followed past this error. Otherwise only the row is bad.
    pub fn ends_list(&self) -> bool {
        match self {
            DecodeError::Read(_) | DecodeError::LineTooLong { .. } => true,
            DecodeError::NotUtf8 { .. }
            | DecodeError::NotJson { .. }
            | DecodeError::NotAnObject { .. }
            | DecodeError::NoUrl { .. } => false,
        }
    }
}
