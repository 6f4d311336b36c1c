//! An upload slot: where a caller stages a list before it submits it (SPEC 6.9).

use crate::id::{CallerId, UploadId};
use crate::list::ListSpec;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// What a caller said about the bytes before it sent them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declared {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Lower-case hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl Declared {
    /// Which of the declarations the bytes do not keep.
    pub fn broken_by(&self, staged: &Staged) -> Option<BrokenPromise> {
        if self.size.is_some_and(|size| size != staged.size) {
            return Some(BrokenPromise::Size);
        }
        match &self.sha256 {
            Some(declared) if *declared != staged.etag => Some(BrokenPromise::Sha256),
            Some(_) | None => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokenPromise {
    Size,
    Sha256,
}

/// Bytes that are staged, and what pins them: whoever reads the object gets exactly these bytes, or an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staged {
    pub object: String,
    pub size: u64,
    /// On the embedded store the sha256 of the bytes, in hex.
    pub etag: String,
}

/// One part of an upload in parts. Sent again, the later one counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// From 1.
    pub number: u32,
    pub staged: Staged,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    pub id: UploadId,
    pub caller: CallerId,
    pub spec: ListSpec,
    pub multipart: bool,
    pub declared: Declared,
    pub staged: Option<Staged>,
    /// A job was made of it: its bytes can no longer be replaced.
    pub claimed: bool,
    pub created: Timestamp,
    pub expires: Timestamp,
}

impl Upload {
    pub fn status(&self) -> UploadStatus {
        match (&self.staged, self.claimed) {
            (_, true) => UploadStatus::Claimed,
            (Some(_), false) => UploadStatus::Uploaded,
            (None, false) => UploadStatus::Waiting,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UploadStatus {
    Waiting,
    Uploaded,
    Claimed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_must_be_what_was_declared() {
        let staged = Staged { object: "x".into(), size: 3, etag: "aa".into() };
        let declared = |size, sha256: Option<&str>| {
            Declared { size, sha256: sha256.map(str::to_owned) }.broken_by(&staged)
        };
        assert_eq!(declared(None, None), None);
        assert_eq!(declared(Some(3), Some("aa")), None);
        assert_eq!(declared(Some(4), Some("aa")), Some(BrokenPromise::Size));
        assert_eq!(declared(None, Some("ab")), Some(BrokenPromise::Sha256));
    }
}
