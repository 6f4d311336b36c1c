//! Small documents that are kept beside jobs and runs (SPEC 5.7): deliveries, exports, idempotency keys, signing keys, what a
//! caller may have. All of them are stored alike, under a version that every write chooses anew; what is in one, and what may
//! become of it, is decided where it belongs.

use crate::{Entropy, RunId, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

crate::words! {
    /// What a record is. The name is stored: it never changes.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum RecordKind {
        /// A notification about a run, and every try to deliver it. Owner: the job; id: the event. Due when it is tried next.
        Delivery = "delivery",
        /// A file of a run's results. Owner: the run; id: the export. Due when somebody has to look at it.
        Export = "export",
        /// The answer to a request that may be repeated. Owner: the caller; id: the digest of its key.
        Idempotency = "idempotency",
        /// What a caller's notifications are signed with. Owner: the caller.
        SigningKeys = "signing_keys",
        /// What a caller may have. Owner: the caller.
        Quotas = "quotas",
        /// An API key that an operator made. Owner: `all`; id: the key's id.
        ApiKey = "api_key",
        /// A job with a run that has not ended. Owner: the caller; id: the job.
        LiveJob = "live_job",
        /// A job that has a schedule. Owner: the caller; id: the job. Due when it fires next.
        ScheduledJob = "scheduled_job",
        /// The latest time that sweepers have seen. Owner: `all`; id: `watch`.
        Clock = "clock",
        /// Refs that may not be sent. Owner: the run; id: the first index and a random number. Due when they should be.
        UnsentRefs = "unsent_refs",
    }
}

/// Where a record is. Owner and id are ids, or digests in hex: 1 to 64 of `[A-Za-z0-9_-]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordKey {
    pub kind: RecordKind,
    pub owner: String,
    pub id: String,
}

impl RecordKey {
    pub fn new(kind: RecordKind, owner: impl ToString, id: impl ToString) -> RecordKey {
        let key = RecordKey { kind, owner: owner.to_string(), id: id.to_string() };
        debug_assert!(is_name(&key.owner) && is_name(&key.id), "{key:?}");
        key
    }
}

fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

/// One write of a record: a random number, so that nobody takes another's write for its own, and a record that was removed
/// and made anew for the one that was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordVersion(i64);

impl RecordVersion {
    pub fn new(entropy: &Entropy) -> RecordVersion {
        RecordVersion(entropy.next_u64().cast_signed())
    }
    /// The version of a record that is made together with a run, and only then.
    pub fn of(run: RunId) -> RecordVersion {
        let bytes = run.to_bytes();
        let [.., a, b, c, d, e, f, g, h] = bytes;
        RecordVersion(i64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }
    pub fn to_stored(self) -> i64 {
        self.0
    }
    pub fn from_stored(v: i64) -> RecordVersion {
        RecordVersion(v)
    }
}

/// A record as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub key: RecordKey,
    pub version: RecordVersion,
    /// JSON. A field that is added has a default, so that older records read.
    pub doc: String,
    /// When somebody has to look at it.
    pub due: Option<Timestamp>,
    /// From then on it is not needed any more, and may be removed at any time. Whoever reads it later decides as if it was.
    pub expires: Option<Timestamp>,
}

/// The document is not one of its kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record of kind {kind} cannot be read: {detail}")]
pub struct Unreadable {
    pub kind: &'static str,
    pub detail: String,
}

impl Record {
    pub fn new(key: RecordKey, version: RecordVersion, doc: &impl Serialize) -> Record {
        // Documents are plain structs with text keys: there is nothing in them that JSON could not say.
        let doc = serde_json::to_string(doc).unwrap_or_default();
        Record { key, version, doc, due: None, expires: None }
    }

    #[must_use]
    pub fn due(mut self, due: Option<Timestamp>) -> Record {
        self.due = due;
        self
    }

    #[must_use]
    pub fn expires(mut self, expires: Option<Timestamp>) -> Record {
        self.expires = expires;
        self
    }

    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Unreadable> {
        let unreadable =
            |e: serde_json::Error| Unreadable { kind: self.key.kind.as_str(), detail: e.to_string() };
        serde_json::from_str(&self.doc).map_err(unreadable)
    }

    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

/// What has to be there for a write to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    Anything,
    Absent,
    Version(RecordVersion),
}

/// A change of one record, alone or together with whatever makes it happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordWrite {
    Put {
        record: Record,
        expected: Expected,
    },
    /// Removing what is not there is done at once, unless a version was expected.
    Remove {
        key: RecordKey,
        expected: Expected,
    },
}

impl RecordWrite {
    pub fn put(record: Record, expected: Expected) -> RecordWrite {
        RecordWrite::Put { record, expected }
    }

    pub fn remove(key: RecordKey, expected: Expected) -> RecordWrite {
        RecordWrite::Remove { key, expected }
    }

    pub fn key(&self) -> &RecordKey {
        match self {
            RecordWrite::Put { record, .. } => &record.key,
            RecordWrite::Remove { key, .. } => key,
        }
    }

    pub fn expected(&self) -> Expected {
        match self {
            RecordWrite::Put { expected, .. } | RecordWrite::Remove { expected, .. } => *expected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_what_a_key_is_made_of() {
        let mut names: Vec<_> = RecordKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert!(names.iter().all(|name| is_name(name)));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RecordKind::ALL.len());
    }

    #[test]
    fn a_record_is_over_at_its_time_and_not_before() {
        let key = RecordKey::new(RecordKind::Idempotency, "01A", "abc");
        let record = Record::new(key, RecordVersion::from_stored(1), &1).expires(Some(Timestamp(10)));
        assert!(!record.is_over(Timestamp(9)) && record.is_over(Timestamp(10)));
        assert!(!Record { expires: None, ..record }.is_over(Timestamp(i64::MAX)));
    }
}
