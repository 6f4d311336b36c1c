use super::{Page, Result};
use async_trait::async_trait;
use conveyor_domain::ingest::upload::Part;
use conveyor_domain::{CallerId, Staged, Timestamp, Upload, UploadId};

/// A page of one caller's uploads, newest first.
#[derive(Clone, Copy, Debug)]
pub struct UploadsQuery {
    pub caller: CallerId,
    /// Only uploads older than this one.
    pub before: Option<UploadId>,
    pub limit: u32,
    /// How many slots the page may look at, those that have expired included.
    pub look: u32,
}

/// Upload slots (SPEC 6.9). One that has expired, or was aborted, is not there, whether or not it was removed yet.
#[async_trait]
pub trait UploadStore: Send + Sync {
    /// Refused with [`Refusal::TooManyUploads`](conveyor_domain::Refusal) if the caller has `max` that wait for
    /// their bytes or for a job.
    async fn create_upload(&self, upload: Upload, max: u32) -> Result<()>;

    /// An upload of this caller; another's is not there.
    async fn upload(&self, caller: CallerId, upload: UploadId, now: Timestamp) -> Result<Option<Upload>>;

    async fn uploads(&self, query: UploadsQuery, now: Timestamp) -> Result<Page<Upload, UploadId>>;

    /// The bytes are there. Returns what they replace, which nobody refers to any more. Refused once a job was made of it.
    async fn put_staged(&self, upload: UploadId, staged: Staged, now: Timestamp) -> Result<Option<Staged>>;

    /// The same for bytes that are these parts, joined. `Conflict` if they are not the parts that are there by now.
    async fn put_joined(
        &self,
        upload: UploadId,
        staged: Staged,
        joined: Vec<Part>,
        now: Timestamp,
    ) -> Result<Option<Staged>>;

    /// A part is there. Returns what it replaces. Refused once the upload is complete or a job was made of it.
    async fn put_part(&self, upload: UploadId, part: Part, now: Timestamp) -> Result<Option<Staged>>;

    /// The parts that are there, by number.
    async fn parts(&self, upload: UploadId) -> Result<Vec<Part>>;

    /// Marks an upload to be removed. Refused once a job was made of it. `NotFound` if it is not this caller's.
    async fn abort_upload(&self, caller: CallerId, upload: UploadId, now: Timestamp) -> Result<()>;

    /// Uploads that are marked to be removed, or have expired and are needed by no job.
    async fn expired_uploads(&self, now: Timestamp, limit: u32) -> Result<Vec<UploadId>>;

    /// Marks an upload that has expired, and that no job needs, to be removed. Whether it is marked now. Its objects go
    /// next, then [`forget_upload`](UploadStore::forget_upload): a crash between them repeats.
    async fn doom_upload(&self, upload: UploadId, now: Timestamp) -> Result<bool>;

    async fn forget_upload(&self, upload: UploadId) -> Result<()>;
}
