//! Objects that are written as their bytes arrive. One in parts is there as a whole, or not at all.

use super::cut::{Cutter, part_bytes};
use super::{Objects, answer, etag};
use aws_sdk_s3::primitives::ByteStream as Body;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use bytes::Bytes;
use conveyor_store::port::{BlobKey, ByteStream, Stored};
use conveyor_store::{Error, Result};
use futures::{StreamExt, TryStreamExt, stream};

/// Parts of one object in memory, the one that fills included.
const PARTS_AT_ONCE: usize = 3;

/// A body that fits into one part is one request; only a longer one is worth three or more.
pub async fn put_stream(objects: &Objects, key: &BlobKey, body: ByteStream) -> Result<Stored> {
    let mut cutter = Cutter::new(body);
    let first = cutter.next(part_bytes(1)).await?;
    if first.len() < part_bytes(1) {
        let size = first.len() as u64;
        return Ok(Stored { size, etag: objects.put_whole(key, first).await? });
    }
    let unfinished = Unfinished::begin(objects, key).await?;
    let parts = numbered(first, cutter)
        .map(|part| async {
            let (number, body) = part?;
            unfinished.send(number, body).await
        })
        .buffer_unordered(PARTS_AT_ONCE);
    let sent: Result<Vec<Sent>> = parts.try_collect().await;
    unfinished.finish(sent).await
}

/// The parts of a body whose first one is already there.
fn numbered(first: Bytes, cutter: Cutter) -> impl futures::Stream<Item = Result<(i32, Bytes)>> {
    let rest = stream::try_unfold((2_usize, cutter), |(number, mut cutter)| async move {
        let body = cutter.next(part_bytes(number)).await?;
        if body.is_empty() {
            return Ok(None);
        }
        let part = i32::try_from(number).map_err(|e| Error::Corrupt(e.to_string()))?;
        Ok(Some(((part, body), (number + 1, cutter))))
    });
    stream::once(async move { Ok((1, first)) }).chain(rest)
}

/// What S3 keeps until it is told that these are all parts. Whoever drops it takes them away.
#[derive(Debug)]
pub struct Unfinished {
    objects: Objects,
    key: BlobKey,
    upload: String,
    settled: bool,
}

/// A part that is there.
#[derive(Clone, Debug)]
pub struct Sent {
    pub number: i32,
    pub size: u64,
    pub etag: String,
}

impl Unfinished {
    pub async fn begin(objects: &Objects, key: &BlobKey) -> Result<Unfinished> {
        let upload = objects.begin_upload(key, None).await?;
        Ok(Unfinished { objects: objects.clone(), key: key.clone(), upload, settled: false })
    }

    pub async fn send(&self, number: i32, body: Bytes) -> Result<Sent> {
        let size = body.len() as u64;
        let (s3, bucket) = (&self.objects.s3, &self.objects.bucket);
        let part = s3.upload_part().bucket(bucket).key(self.key.as_str()).upload_id(&self.upload);
        let part = part.part_number(number).body(Body::from(body));
        let part = part.send().await.map_err(|e| self.objects.unavailable("UploadPart", &e))?;
        Ok(Sent { number, size, etag: etag(part.e_tag())? })
    }

    /// Makes a stored object a part, without its bytes coming here.
    pub async fn copy(&self, number: i32, from: &BlobKey, pinned: &Stored) -> Result<Sent> {
        let (s3, bucket) = (&self.objects.s3, &self.objects.bucket);
        let part = s3.upload_part_copy().bucket(bucket).key(self.key.as_str()).upload_id(&self.upload);
        let part = part.part_number(number).copy_source(format!("{bucket}/{from}"));
        let part = part.copy_source_if_match(super::quoted(&pinned.etag));
        match part.send().await {
            Ok(copied) => {
                let etag = etag(copied.copy_part_result().and_then(|part| part.e_tag()))?;
                Ok(Sent { number, size: pinned.size, etag })
            }
            Err(error) if answer::is_missing(&error) => Err(Error::NotFound),
            Err(error) if answer::is_changed(&error) => Err(Error::Changed),
            Err(error) => Err(self.objects.unavailable("UploadPartCopy", &error)),
        }
    }

    /// Settles it: the object is there if the parts are, otherwise nothing is.
    pub async fn finish(mut self, sent: Result<Vec<Sent>>) -> Result<Stored> {
        let finished = match sent {
            Ok(parts) => self.complete(parts).await,
            Err(error) => Err(error),
        };
        if finished.is_err() {
            self.abort().await;
        }
        self.settled = true;
        finished
    }

    async fn complete(&self, mut parts: Vec<Sent>) -> Result<Stored> {
        parts.sort_unstable_by_key(|part| part.number);
        let size = parts.iter().map(|part| part.size).sum();
        let named = parts.into_iter().map(|part| (part.number, part.etag)).collect();
        let etag = match self.objects.complete_upload(&self.key, &self.upload, named).await? {
            Completed::Done(etag) => etag,
            // A repeated call, whose first answer got lost: no key is written twice, so what is there is ours.
            Completed::Gone => match self.objects.stored(&self.key).await? {
                Some(stored) if stored.size == size => stored.etag,
                _ => return Err(Error::Unavailable("an upload in parts was taken away".to_owned())),
            },
            Completed::Replaced => return Err(Error::Unavailable("S3 lost a part".to_owned())),
        };
        Ok(Stored { size, etag })
    }

    async fn abort(&self) {
        if let Err(error) = self.objects.abort_upload(self.key.as_str(), &self.upload).await {
            tracing::warn!(%error, key = %self.key, "parts stay behind until the bucket's rules remove them");
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        let (objects, key, upload) = (self.objects.clone(), self.key.clone(), self.upload.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let unfinished = Unfinished { objects, key, upload, settled: true };
            runtime.spawn(async move { unfinished.abort().await });
        }
    }
}

/// What became of a request to complete an upload in parts.
#[derive(Debug)]
pub enum Completed {
    /// With the ETag of the object.
    Done(String),
    /// A part is not there, or not as it was named.
    Replaced,
    /// It was completed or aborted.
    Gone,
}

impl Objects {
    pub(super) async fn begin_upload(&self, key: &BlobKey, content_type: Option<&str>) -> Result<String> {
        let begin = self.quick.create_multipart_upload().bucket(&self.bucket).key(key.as_str());
        let begin = begin.set_content_type(content_type.map(str::to_owned));
        let begun = begin.send().await.map_err(|e| self.unavailable("CreateMultipartUpload", &e))?;
        let nameless = || Error::Unavailable("CreateMultipartUpload: no upload id".to_owned());
        begun.upload_id.ok_or_else(nameless)
    }

    /// Parts by number and ETag, in order.
    pub(super) async fn complete_upload(
        &self,
        key: &BlobKey,
        upload: &str,
        parts: Vec<(i32, String)>,
    ) -> Result<Completed> {
        let part = |(number, etag)| CompletedPart::builder().part_number(number).e_tag(etag).build();
        let parts = parts.into_iter().map(part).collect();
        let all = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
        let complete = self.s3.complete_multipart_upload().bucket(&self.bucket).key(key.as_str());
        match complete.upload_id(upload).multipart_upload(all).send().await {
            Ok(done) => etag(done.e_tag()).map(Completed::Done),
            Err(error) if answer::is_no_upload(&error) => Ok(Completed::Gone),
            Err(error) if answer::code(&error) == Some("InvalidPart") => Ok(Completed::Replaced),
            Err(error) => Err(self.unavailable("CompleteMultipartUpload", &error)),
        }
    }

    pub(super) async fn abort_upload(&self, key: &str, upload: &str) -> Result<()> {
        let abort = self.quick.abort_multipart_upload().bucket(&self.bucket).key(key).upload_id(upload);
        match abort.send().await {
            Ok(_) => Ok(()),
            Err(error) if answer::is_no_upload(&error) => Ok(()),
            Err(error) => Err(self.unavailable("AbortMultipartUpload", &error)),
        }
    }
}
