use super::over::port;
use super::{Page, Result};
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

port! {
    /// Upload slots (SPEC 6.9). One that has expired, or was aborted, is not there, whether or not it was removed yet.
    pub trait UploadStore, decorated by OverUploadStore over store {
        /// Refused with [`Refusal::TooManyUploads`](conveyor_domain::Refusal) if the caller has `max` that wait for
        /// their bytes or for a job.
        async fn create_upload(&self, upload: Upload, max: u32) -> Result<()>;

        /// An upload of this caller; another's is not there.
        async fn upload(&self, caller: CallerId, upload: UploadId, now: Timestamp) -> Result<Option<Upload>>;

        async fn uploads(&self, query: UploadsQuery, now: Timestamp) -> Result<Page<Upload, UploadId>>;

        /// The bytes are there. Returns what they replace, which nobody refers to any more. Refused once a job was made of it.
        /// Of bytes that are parts, joined: `Conflict` if those are not the parts that are there by now.
        async fn put_staged(
            &self,
            upload: UploadId,
            staged: Staged,
            joined: Option<Vec<Part>>,
            now: Timestamp,
        ) -> Result<Option<Staged>>;

        /// A part is there. Returns what it replaces. Refused once the upload is complete or a job was made of it.
        async fn put_part(&self, upload: UploadId, part: Part, now: Timestamp) -> Result<Option<Staged>>;

        /// The parts that are there, by number.
        async fn parts(&self, upload: UploadId) -> Result<Vec<Part>>;

        /// Marks an upload to be removed: because its caller wants that, or because it has expired and no job needs it. Whether
        /// it is marked now. A caller is refused once a job was made of it, and `NotFound` is the answer if it is another's. Its
        /// objects go next, then [`forget_upload`](UploadStore::forget_upload): a crash between them repeats.
        async fn doom_upload(&self, upload: UploadId, by: Option<CallerId>, now: Timestamp) -> Result<bool>;

        async fn forget_upload(&self, upload: UploadId) -> Result<()>;
    }
}
