//! What the API says about an upload.

use super::super::http::Signed;
use conveyor_domain::limits;
use serde::Deserialize;

/// A slot that was just made: it takes one PUT, or parts.
#[derive(Debug, Deserialize)]
pub struct Slot {
    pub file_input_id: String,
    pub upload: Option<Signed>,
    pub multipart: Option<Multipart>,
}

#[derive(Debug, Deserialize)]
pub struct Multipart {
    pub parts_max: Option<u32>,
}

pub fn parts_max(multipart: Option<Multipart>) -> u32 {
    multipart.and_then(|m| m.parts_max).unwrap_or(limits::UPLOAD_PARTS_MAX)
}

/// An upload as it stands.
#[derive(Debug, Deserialize)]
pub struct Upload {
    pub file_input_id: String,
    pub status: String,
    /// As declared, or as staged.
    pub size_bytes: Option<u64>,
    /// Where a list goes that is sent whole.
    pub upload: Option<Signed>,
    #[serde(default)]
    pub parts: Vec<Part>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Part {
    pub number: u32,
    pub size_bytes: u64,
    /// Its sha256, in hex; some servers write it like the header, in quotes.
    pub etag: String,
}

impl Part {
    pub fn sha256(&self) -> &str {
        self.etag.trim_matches('"')
    }
}

#[derive(Debug, Deserialize)]
pub struct SignedParts {
    pub parts: Vec<Signed>,
}
