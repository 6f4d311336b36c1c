//! An upload slot: where a caller stages a list before it submits it (SPEC 6.9).

use crate::{CallerId, ListCount, ListSpec, Refusal, Timestamp, UploadId, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a caller said about the bytes before it sent them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declared {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Lower-case hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// What every part but the last has, of a list that is sent in parts. Slots of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_bytes: Option<u64>,
}

impl Declared {
    /// The size of parts as it holds: what was asked for, but no fewer bytes than the storage takes, and no more parts than an
    /// upload has.
    #[must_use]
    pub fn in_parts(self, least: u64, list_max: u64) -> Declared {
        // A list that is asked for in parts of a size, and whose end nobody knows, may be shorter than the longest one.
        let whole = self.size.or_else(|| self.part_bytes.is_none().then_some(list_max)).unwrap_or(0);
        let fewest = whole.div_ceil(u64::from(limits::UPLOAD_PARTS_MAX));
        let part_bytes = self.part_bytes.unwrap_or(limits::PART_BYTES).max(least).max(fewest);
        Declared { part_bytes: Some(part_bytes), ..self }
    }

    /// How many bytes part `number` may have. Part n begins where n - 1 parts end, so all of them together are never longer
    /// than the list may be: nobody has to remember which parts were asked for. `None` of a slot of an earlier version.
    pub fn part_room(&self, number: u32, list_max: u64) -> Option<u64> {
        let part_bytes = self.part_bytes?;
        let begin = u64::from(number.saturating_sub(1)).saturating_mul(part_bytes);
        Some(self.size.unwrap_or(list_max).saturating_sub(begin).min(part_bytes))
    }

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
    /// On the embedded store the sha256 of the bytes, in hex; on S3 its ETag.
    pub etag: String,
    /// The etag of the bytes that these are a copy of, where the caller can write to those at any time and to these never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<String>,
    /// What the bytes come to as a list, where they were counted. It is no part of what pins them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<Box<ListCount>>,
}

impl Staged {
    pub fn new(object: String, size: u64, etag: String) -> Staged {
        Staged { object, size, etag, copy_of: None, count: None }
    }

    /// Whether these are the same bytes in the same place, whatever is known of them.
    pub fn is_same(&self, other: &Staged) -> bool {
        Staged { count: None, ..self.clone() } == Staged { count: None, ..other.clone() }
    }

    /// The sha256 of the bytes, if that is what pins them.
    pub fn sha256(&self) -> Option<&str> {
        let is_sha256 = self.etag.len() == 64 && self.etag.bytes().all(|b| b.is_ascii_hexdigit());
        is_sha256.then_some(&*self.etag)
    }
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
    /// What the storage calls an upload in parts that callers send to it by themselves.
    pub parts_handle: Option<String>,
    pub staged: Option<Staged>,
    /// A job was made of it: its bytes can no longer be replaced.
    pub claimed: bool,
    pub created: Timestamp,
    pub expires: Timestamp,
}

/// What is stored of an upload beside what queries need. New fields need a default.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UploadDoc {
    pub spec: ListSpec,
    #[serde(default)]
    pub multipart: bool,
    #[serde(default)]
    pub declared: Declared,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts_handle: Option<String>,
    #[serde(default)]
    pub staged: Option<Staged>,
}

impl Upload {
    /// A slot for one object, of which nothing is declared and nothing has come.
    pub fn new(id: UploadId, caller: CallerId, spec: ListSpec, now: Timestamp) -> Upload {
        Upload {
            id,
            caller,
            spec,
            multipart: false,
            declared: Declared::default(),
            parts_handle: None,
            staged: None,
            claimed: false,
            created: now,
            expires: now.after(limits::UPLOAD_TTL),
        }
    }

    pub fn doc(&self) -> UploadDoc {
        UploadDoc {
            spec: self.spec.clone(),
            multipart: self.multipart,
            declared: self.declared.clone(),
            parts_handle: self.parts_handle.clone(),
            staged: self.staged.clone(),
        }
    }

    /// Makes these the staged bytes, and returns those that they replace.
    pub fn stage(&mut self, staged: Staged) -> Result<Option<Staged>, Refusal> {
        if self.has_staged(&staged) {
            // They are, whatever has been made of them since: a repeat is no surprise.
            return Ok(None);
        }
        self.refuse_claimed()?;
        Ok(self.staged.replace(staged))
    }

    /// Whether these are the bytes that are staged.
    pub fn has_staged(&self, staged: &Staged) -> bool {
        self.staged.as_ref().is_some_and(|before| before.is_same(staged))
    }

    pub fn refuse_claimed(&self) -> Result<(), Refusal> {
        if self.claimed { Err(Refusal::UploadClaimed) } else { Ok(()) }
    }

    /// Refused once it is whole.
    pub fn takes_parts(&self) -> Result<(), Refusal> {
        self.refuse_claimed()?;
        if self.staged.is_some() { Err(Refusal::UploadComplete) } else { Ok(()) }
    }

    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires <= now
    }

    pub fn status(&self) -> UploadStatus {
        match (&self.staged, self.claimed) {
            (_, true) => UploadStatus::Claimed,
            (Some(_), false) => UploadStatus::Uploaded,
            (None, false) => UploadStatus::Waiting,
        }
    }
}

/// `waiting`: nothing is there yet, or its parts are not joined. `uploaded`: a job can be made of it. `claimed`: a
/// job was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
        let staged = Staged::new("x".into(), 3, "aa".into());
        let declared = |size, sha256: Option<&str>| {
            let sha256 = sha256.map(str::to_owned);
            Declared { size, sha256, ..Declared::default() }.broken_by(&staged)
        };
        assert_eq!(declared(None, None), None);
        assert_eq!(declared(Some(3), Some("aa")), None);
        assert_eq!(declared(Some(4), Some("aa")), Some(BrokenPromise::Size));
        assert_eq!(declared(None, Some("ab")), Some(BrokenPromise::Sha256));
    }

    #[test]
    fn parts_are_as_large_as_asked_within_what_the_storage_takes() {
        let part_bytes = |size, asked, least| {
            let declared = Declared { size, part_bytes: asked, sha256: None };
            declared.in_parts(least, 100_000_000_000).part_bytes.unwrap()
        };
        assert_eq!(part_bytes(Some(20), None, 5), limits::PART_BYTES);
        assert_eq!(part_bytes(Some(20), Some(7), 5), 7);
        assert_eq!(part_bytes(Some(20), Some(3), 5), 5);
        assert_eq!(part_bytes(Some(7_001), Some(3), 1), 8, "never more than a thousand parts");
        assert_eq!(part_bytes(None, None, 1), 100_000_000);
        assert_eq!(part_bytes(None, Some(3), 1), 3, "a caller that knows better");
    }

    #[test]
    fn all_parts_together_are_no_longer_than_the_list_may_be() {
        let room = |size, number| {
            let declared = Declared { size, part_bytes: Some(10), sha256: None };
            declared.part_room(number, 35).unwrap()
        };
        assert_eq!([1, 2, 3, 4, 5, u32::MAX].map(|number| room(None, number)), [10, 10, 10, 5, 0, 0]);
        assert_eq!([1, 2, 3].map(|number| room(Some(20), number)), [10, 10, 0]);
        assert_eq!(Declared::default().part_room(1, 35), None);
    }

    #[test]
    fn only_a_sha256_is_called_one() {
        let pinned_by = |etag: &str| Staged::new("x".into(), 3, etag.into()).sha256().is_some();
        assert!(pinned_by(&"0a".repeat(32)));
        assert!(!pinned_by(&"0a".repeat(16)) && !pinned_by(&format!("{}-7", "0a".repeat(31))));
    }

    #[test]
    fn what_was_staged_before_copies_were_made_still_reads() {
        let old = r#"{"object":"uploads/x","size":9,"etag":"e"}"#;
        let staged = Staged::new("uploads/x".into(), 9, "e".into());
        assert_eq!(serde_json::from_str::<Staged>(old).unwrap(), staged);
        assert_eq!(serde_json::to_string(&staged).unwrap(), old);
    }
}
