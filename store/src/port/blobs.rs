use super::Result;
use super::over::port;
use bytes::Bytes;
use conveyor_domain::{ExportId, JobId, RunId, Timestamp, UploadId, WorkerId};
use futures::stream::BoxStream;
use std::fmt;
use std::str::FromStr;

/// The key of an object: segments of `[A-Za-z0-9._-]` joined by `/`, none of them `.` or `..`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BlobKey(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid object key")]
pub struct InvalidBlobKey;

impl BlobKey {
    /// Result object number `n` of one worker incarnation: never written twice.
    pub fn results(job: JobId, run: RunId, worker: WorkerId, n: u64) -> BlobKey {
        BlobKey(format!("jobs/{job}/runs/{run}/results/{worker}-{n}"))
    }

    /// Report `n` of rejected rows that one process wrote: never written twice, so that whoever lost can delete its own.
    pub fn rejected(job: JobId, run: RunId, worker: WorkerId, n: u64) -> BlobKey {
        BlobKey(format!("jobs/{job}/runs/{run}/rejected/{worker}-{n}"))
    }

    /// Object `n` that one process wrote for an export: never written twice, so that whoever lost can delete its own.
    pub fn export(job: JobId, run: RunId, export: ExportId, worker: WorkerId, n: u64) -> BlobKey {
        BlobKey(format!("jobs/{job}/runs/{run}/exports/{export}/{worker}-{n}"))
    }

    /// Object `n` that one process wrote for an upload: never written twice, so that what is pinned stays as it is.
    pub fn upload(upload: UploadId, worker: WorkerId, n: u64) -> BlobKey {
        BlobKey(format!("uploads/{upload}/{worker}-{n}"))
    }

    /// What a caller sends to an upload by itself. The only key that anybody but us can write to.
    pub fn sent(upload: UploadId) -> BlobKey {
        BlobKey(format!("uploads/{upload}/sent"))
    }

    /// What a job was accepted with: enough to make it anew from its staged list, if its rows are lost.
    pub fn accepted(job: JobId) -> BlobKey {
        BlobKey(format!("jobs/{job}/accepted"))
    }

    /// A body that has result object `n` for itself. The name says whose it is.
    pub fn whole_result(job: JobId, run: RunId, worker: WorkerId, n: u64, entry: &str) -> BlobKey {
        BlobKey(format!("jobs/{job}/runs/{run}/results/{worker}-{n}.{entry}"))
    }

    pub fn results_prefix(job: JobId, run: RunId) -> BlobKey {
        BlobKey(format!("jobs/{job}/runs/{run}/results"))
    }

    /// Everything of a run is under this prefix.
    pub fn run_prefix(job: JobId, run: RunId) -> BlobKey {
        BlobKey(format!("jobs/{job}/runs/{run}"))
    }

    pub fn export_prefix(job: JobId, run: RunId, export: ExportId) -> BlobKey {
        BlobKey(format!("jobs/{job}/runs/{run}/exports/{export}"))
    }

    pub fn upload_prefix(upload: UploadId) -> BlobKey {
        BlobKey(format!("uploads/{upload}"))
    }

    /// The list of a scheduled job, copied at that moment to where nothing is removed because of its age.
    pub fn template(job: JobId, at: Timestamp) -> BlobKey {
        BlobKey(format!("templates/{job}/{}", at.0))
    }

    pub fn template_prefix(job: JobId) -> BlobKey {
        BlobKey(format!("templates/{job}"))
    }

    /// Everything else of a job is under this prefix.
    pub fn job_prefix(job: JobId) -> BlobKey {
        BlobKey(format!("jobs/{job}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BlobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for BlobKey {
    type Err = InvalidBlobKey;
    fn from_str(s: &str) -> std::result::Result<Self, InvalidBlobKey> {
        let legal = |segment: &str| {
            !matches!(segment, "" | "." | "..")
                && segment.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        };
        if s.len() <= 512 && s.split('/').all(legal) {
            Ok(BlobKey(s.to_owned()))
        } else {
            Err(InvalidBlobKey)
        }
    }
}

/// Bytes on their way, in pieces. An error ends them.
pub type ByteStream = BoxStream<'static, Result<Bytes>>;

/// An object as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub size: u64,
    /// Pins these bytes: a read that names it gets them and no others.
    pub etag: String,
}

/// An object that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub key: BlobKey,
    pub size: u64,
}

port! {
    /// Immutable objects.
    pub trait Blobs, decorated by OverBlobs over blobs {
        /// Durable when it returns. Keys are written once; a repeated write of the same bytes is harmless.
        async fn put(&self, key: &BlobKey, body: Bytes) -> Result<()>;

        /// `length` bytes from `offset`; `NotFound` if the object is not there, `Corrupt` if it is shorter.
        async fn get(&self, key: &BlobKey, offset: u64, length: u64) -> Result<Bytes>;

        /// Writes an object as its bytes arrive; durable when it returns. If they end in an error, that is the answer, and
        /// there is no object.
        async fn put_stream(&self, key: &BlobKey, body: ByteStream) -> Result<Stored>;

        /// Makes one object of several, in order.
        async fn concat(&self, key: &BlobKey, parts: &[BlobKey]) -> Result<Stored>;

        /// All bytes of an object, in pieces, for whoever does not know how many there are.
        async fn read(&self, key: &BlobKey) -> Result<ByteStream>;

        /// The bytes from `offset` on of the object that `etag` pins, and of no other: `Changed`, here or in the stream, if it
        /// is not that one any more.
        async fn read_pinned(&self, key: &BlobKey, etag: &str, offset: u64) -> Result<ByteStream>;

        async fn delete(&self, key: &BlobKey) -> Result<()>;

        /// Objects under `prefix/`, by their keys, behind the one that is named. Those whose names are not keys are left out.
        async fn list(&self, prefix: &BlobKey, after: Option<&BlobKey>, limit: usize) -> Result<Vec<Listed>>;

        /// Deletes every object under `prefix/`, and what was begun there. Repeatable.
        async fn delete_under(&self, prefix: &BlobKey) -> Result<()>;

        /// Whether an object could be read or written now.
        async fn ready(&self) -> Result<()>;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_never_leaves_its_place() {
        for bad in ["", "/a", "a/", "a//b", "../a", "a/../b", "./a", "a\\b", "a b", "ä"] {
            assert!(bad.parse::<BlobKey>().is_err(), "{bad:?}");
        }
        assert!("jobs/01A/runs/x.y-z_1".parse::<BlobKey>().is_ok());
    }
}
