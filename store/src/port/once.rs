use super::{Error, JobView};
use conveyor_domain::job::record::Expected;
use conveyor_domain::{Record, RecordKey, RecordVersion, RecordWrite, Timestamp};
use std::fmt;
use std::sync::Arc;

/// Makes an operation happen once, however often it is asked for (SPEC 6.23): the record of its caller's key, which has to
/// be the one that was claimed for it, gets the answer in the very step that does what was asked. If the record is another
/// by then, nothing happens, and the operation fails with `Conflict`.
#[derive(Clone)]
pub struct Once {
    pub key: RecordKey,
    /// As it was claimed.
    pub expected: RecordVersion,
    /// As it is with the answer.
    pub next: RecordVersion,
    pub expires: Timestamp,
    /// The document with the answer, of the job as the operation leaves it.
    pub answer: Arc<dyn Fn(&JobView) -> String + Send + Sync>,
}

impl Once {
    /// What is written together with the operation.
    pub fn write(&self, view: &JobView) -> RecordWrite {
        let record = Record {
            key: self.key.clone(),
            version: self.next,
            doc: (self.answer)(view),
            due: None,
            expires: Some(self.expires),
        };
        RecordWrite::put(record, Expected::Version(self.expected))
    }

    /// The record is not the one that was claimed.
    pub fn lost() -> Error {
        Error::Conflict("what was claimed for this request is somebody else's by now".to_owned())
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Once { key, expected, next, expires, answer: _ } = self;
        f.debug_struct("Once")
            .field("key", key)
            .field("expected", expected)
            .field("next", next)
            .field("expires", expires)
            .finish_non_exhaustive()
    }
}
