//! What is known of an upload slot: what was staged in it, by whom it is claimed, and when it has to go.

use crate::lists::List;
use crate::model::Presence;
use conveyor_domain::{JobId, Staged, Timestamp, Upload, UploadId};
use conveyor_store::port::BlobKey;
use std::fmt;

/// Bytes in an object of their own, and the list that they are.
#[derive(Clone, Debug)]
pub struct StagedList {
    pub staged: Staged,
    pub list: List,
}

#[derive(Clone, Debug)]
pub struct UploadModel {
    /// Short, for people.
    pub number: usize,
    pub upload: Upload,
    pub presence: Presence,
    pub staged: Option<StagedList>,
    /// Sent, and not known to be in place.
    pub unanswered: Option<StagedList>,
    pub abort_asked: bool,
    pub abort_known: bool,
    /// Jobs that were made of it, or may have been.
    pub claims: Vec<JobId>,
    /// Every object that was ever written for it.
    pub objects: Vec<BlobKey>,
}

impl fmt::Display for UploadModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "upload {}", self.number)
    }
}

impl UploadModel {
    pub fn new(number: usize, upload: Upload) -> UploadModel {
        UploadModel {
            number,
            upload,
            presence: Presence::Unknown,
            staged: None,
            unanswered: None,
            abort_asked: false,
            abort_known: false,
            claims: Vec::new(),
            objects: Vec::new(),
        }
    }

    pub fn id(&self) -> UploadId {
        self.upload.id
    }

    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.upload.expires <= now
    }

    /// Whether it may be missing.
    pub fn may_be_gone(&self, now: Timestamp) -> bool {
        self.abort_asked || self.has_expired(now)
    }

    /// Whether a caller may still make something of it.
    pub fn is_usable(&self, now: Timestamp) -> bool {
        self.presence == Presence::There && !self.may_be_gone(now)
    }
}
