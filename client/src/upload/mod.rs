//! Staging a list: its bytes go into a slot as they are, in one request or in parts, and a job is made of the slot (SPEC 6.9).

mod meter;
mod parts;
mod plan;
mod source;

pub use source::{ListFile, Source, read_head};

use crate::{Client, Error, NotResumable};
use bytes::Bytes;
use conveyor_domain::limits::{self, MIB};
use conveyor_domain::{UploadId, UploadStatus};
use conveyor_wire::{CreateInput, Input, Part, UploadTarget};
use meter::Meter;
use plan::Plan;
use std::fmt;
use std::io::Cursor;
use std::sync::Arc;
use tokio::fs::File;
use tokio::io::AsyncRead;

/// Larger files are sent in parts, so that an upload that breaks off can be resumed.
const WHOLE_MAX_BYTES: u64 = 64 * MIB as u64;
/// What can be read only once is cut before a server says what it takes: S3 takes no smaller ones.
const READER_PART_MIN_BYTES: u64 = 5 * MIB as u64;

/// What became of some bytes of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    Sent(u64),
    /// The server has them from an upload that broke off.
    AlreadyThere(u64),
    /// They were sent, and have to be sent again.
    Lost(u64),
}

type Progress = Arc<dyn Fn(Moved) + Send + Sync>;

/// A slot, and the list that goes into it.
#[must_use = "nothing is uploaded before it is sent"]
pub struct Upload {
    slot: Slot,
    bytes: Way,
}

/// What all requests of an upload share.
struct Slot {
    client: Client,
    id: UploadId,
    name: String,
    progress: Progress,
}

/// How the bytes go.
enum Way {
    /// They are there.
    Complete,
    File(UploadTarget, ListFile),
    Memory(UploadTarget, Bytes),
    Parts(ListFile, Plan, Vec<Part>),
    Reader(Vec<u8>, Box<dyn AsyncRead + Unpin + Send>),
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Slot { id, name, .. } = &self.slot;
        f.debug_struct("Upload").field("id", id).field("name", name).finish_non_exhaustive()
    }
}

impl Client {
    /// Uploads a list and gives the id by which a job is submitted of it.
    pub async fn upload(&self, list: CreateInput, source: Source) -> Result<UploadId, Error> {
        self.begin_upload(list, source, None).await?.send().await
    }

    /// Makes a slot for a list. Nothing is sent before [`Upload::send`]. Files larger than a part are sent in parts of this
    /// size, without one given those larger than 64 MiB in parts of the server's default.
    pub async fn begin_upload(
        &self,
        mut list: CreateInput,
        source: Source,
        part_bytes: Option<u64>,
    ) -> Result<Upload, Error> {
        let name = match &source {
            Source::File(file) => file.name(),
            Source::Memory(_) | Source::Reader(..) => "the list".to_owned(),
        };
        let least = part_bytes.unwrap_or(limits::PART_BYTES).max(READER_PART_MIN_BYTES);
        let unreadable = |source| Error::Unreadable { name: name.clone(), source };
        let source = source.begun(least).await.map_err(unreadable)?;
        let (in_parts, size) = match &source {
            Source::File(file) => (file.size > part_bytes.unwrap_or(WHOLE_MAX_BYTES), Some(file.size)),
            Source::Memory(bytes) => (false, Some(bytes.len() as u64)),
            Source::Reader(..) => (true, None),
        };
        list.size_bytes = size;
        if in_parts {
            list.multipart = Some(true);
            let begun = if let Source::Reader(first, _) = &source { Some(first.len() as u64) } else { None };
            list.part_bytes = Some(begun.or(part_bytes).unwrap_or(limits::PART_BYTES).into());
        }
        let slot = self.create_input(&list).await?.document;
        let cut = part_size(&slot, part_bytes);
        let bytes = match (source, slot.upload) {
            (Source::File(file), None) if in_parts => {
                let plan = Plan::new(file.size, cut);
                Way::Parts(file, plan, Vec::new())
            }
            (Source::Reader(first, rest), None) => Way::Reader(first, rest),
            (Source::File(file), Some(to)) => Way::File(to, file),
            (Source::Memory(bytes), Some(to)) => Way::Memory(to, bytes.into()),
            (_, None) | (Source::Reader(..), Some(_)) => {
                let what = "the slot does not say where the list goes".to_owned();
                return Err(Error::NotUnderstood(what));
            }
        };
        Ok(Upload { slot: Slot::new(self, slot.file_input_id, name), bytes })
    }

    /// Resumes an upload that broke off: parts that are there are not sent again.
    pub fn resume_upload(
        &self,
        slot: Input,
        file: ListFile,
        part_bytes: Option<u64>,
    ) -> Result<Upload, Error> {
        let name = file.name();
        let cut = part_size(&slot, part_bytes);
        let bytes = match (slot.status.known(), slot.size_bytes, slot.upload) {
            (Some(UploadStatus::Uploaded), ..) => Way::Complete,
            (Some(UploadStatus::Claimed), ..) => return Err(Error::NotResumable(NotResumable::Claimed)),
            (_, Some(declared), _) if declared != file.size => {
                let size = file.size;
                return Err(Error::NotResumable(NotResumable::OtherSize { declared, name, size }));
            }
            (_, _, Some(to)) => Way::File(to, file),
            (_, _, None) => {
                let (plan, parts) = (Plan::new(file.size, cut), slot.parts.unwrap_or_default());
                if parts.iter().any(|part| u64::from(part.number) > plan.count()) {
                    return Err(Error::NotResumable(NotResumable::OtherParts));
                }
                Way::Parts(file, plan, parts)
            }
        };
        Ok(Upload { slot: Slot::new(self, slot.file_input_id, name), bytes })
    }
}

/// How large the parts of a slot are: the storage may need larger ones than were asked for.
fn part_size(slot: &Input, asked: Option<u64>) -> u64 {
    slot.multipart.and_then(|slot| slot.part_bytes).or(asked).unwrap_or(limits::PART_BYTES)
}

impl Upload {
    /// Names the slot, also for a program that resumes this upload.
    pub fn id(&self) -> UploadId {
        self.slot.id
    }

    /// Where a list goes that is sent whole: to the server, or past it to where lists are kept.
    pub fn target(&self) -> Option<&str> {
        match &self.bytes {
            Way::File(to, _) | Way::Memory(to, _) => Some(&to.url),
            Way::Complete | Way::Parts(..) | Way::Reader(..) => None,
        }
    }

    /// What the list is called in errors.
    pub fn named(mut self, name: impl Into<String>) -> Upload {
        self.slot.name = name.into();
        self
    }

    /// Calls a function as bytes leave.
    pub fn on_progress(mut self, progress: impl Fn(Moved) + Send + Sync + 'static) -> Upload {
        self.slot.progress = Arc::new(progress);
        self
    }

    /// Sends the list, each request of it again if it breaks off. A reader that fails is the end of an upload; all else can
    /// be resumed.
    pub async fn send(self) -> Result<UploadId, Error> {
        let Upload { slot, bytes } = self;
        match bytes {
            Way::Complete => {}
            Way::Memory(to, bytes) => {
                let size = bytes.len() as u64;
                slot.retry(|| slot.put(&to, Cursor::new(bytes.clone()), size)).await?;
            }
            Way::File(to, file) => {
                let send = || async {
                    let reader = File::open(&file.path).await.map_err(|e| slot.unreadable(e))?;
                    slot.put(&to, reader, file.size).await
                };
                slot.retry(send).await?;
                slot.check(&file).await?;
            }
            Way::Parts(file, plan, there) => slot.send_parts(&file, plan, &there).await?,
            Way::Reader(first, rest) => slot.send_reader(first, rest).await?,
        }
        Ok(slot.id)
    }
}

impl Slot {
    fn new(client: &Client, id: UploadId, name: String) -> Slot {
        Slot { client: client.clone(), id, name, progress: Arc::new(|_| {}) }
    }

    async fn retry<T, F>(&self, attempt: impl Fn() -> F + Send) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        self.client.transfers().run(self.client.entropy(), attempt).await
    }

    async fn put(
        &self,
        to: &UploadTarget,
        reader: impl AsyncRead + Send + 'static,
        bytes: u64,
    ) -> Result<(), Error> {
        Meter::new(&self.progress).send(&self.client, to, &self.name, reader, bytes).await
    }

    async fn check(&self, file: &ListFile) -> Result<(), Error> {
        if file.is_unchanged().await { Ok(()) } else { Err(Error::FileChanged(self.name.clone())) }
    }

    fn unreadable(&self, source: std::io::Error) -> Error {
        Error::Unreadable { name: self.name.clone(), source }
    }
}
