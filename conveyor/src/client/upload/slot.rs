//! What the API says about an upload.

use super::super::http::Signed;
use serde::Deserialize;

/// A slot that was just made: it takes one PUT, or parts.
#[derive(Debug, Deserialize)]
pub struct Slot {
    pub file_input_id: String,
    pub upload: Option<Signed>,
    pub multipart: Option<Multipart>,
}

/// What a server says about parts.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Multipart {
    /// What every part but the last has. It was asked for, but the storage may need larger ones. Slots that a server of an
    /// earlier version made do not say.
    pub part_bytes: Option<u64>,
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
    pub multipart: Option<Multipart>,
    #[serde(default)]
    pub parts: Vec<Part>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Part {
    pub number: u32,
    pub size_bytes: u64,
    /// A digest of its bytes, in hex; some servers write it like the header, in quotes.
    pub etag: String,
}

/// What an ETag may be. Which it is, its length tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digested<'a> {
    Sha256(&'a str),
    Md5(&'a str),
    /// Nothing that can be computed here.
    Otherwise,
}

impl Part {
    pub fn digest(&self) -> Digested<'_> {
        let etag = self.etag.trim_matches('"');
        match (etag.len(), etag.bytes().all(|b| b.is_ascii_hexdigit())) {
            (64, true) => Digested::Sha256(etag),
            (32, true) => Digested::Md5(etag),
            _ => Digested::Otherwise,
        }
    }
}

#[derive(Debug, Deserialize)]
pub struct SignedParts {
    pub parts: Vec<Signed>,
}
