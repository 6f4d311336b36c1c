//! Objects in S3 (SPEC 5.6): one bucket, the keys of SPEC 4, an object's ETag as its pin.

mod answer;
mod cut;
mod direct;
mod download;
mod join;
mod provision;
mod remove;
mod unfinished;

pub use provision::{EXPORTS_PREFIX, check, check_name, provision};

use crate::error::{missing, unavailable};
use crate::{Settings, Timeouts};
use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream as Body;
use bytes::{Bytes, BytesMut};
use conveyor_store::port::{BlobKey, ByteStream, Listed, Stored};
use conveyor_store::{Blobs, Error, Result};
use download::{Download, short};
use futures::TryStreamExt;
pub use join::PART_MIN_BYTES;

/// Objects that one call lists at most.
const LIST_PAGE_MAX: usize = 1_000;

#[derive(Clone, Debug)]
pub struct Objects {
    s3: Client,
    /// For calls that move no bytes, and have no reason to take long.
    quick: Client,
    bucket: String,
}

impl Objects {
    /// With a client whose timeouts are those of calls that move bytes.
    pub fn new(s3: Client, settings: &Settings) -> Objects {
        let Timeouts { connect, attempt, operation, .. } = settings.timeouts;
        let quick = TimeoutConfig::builder()
            .connect_timeout(connect)
            .operation_attempt_timeout(attempt)
            .operation_timeout(operation)
            .build();
        let quick = Client::from_conf(s3.config().to_builder().timeout_config(quick).build());
        Objects { s3, quick, bucket: settings.bucket.clone() }
    }

    /// A call that failed. That the bucket is not there is an error of its own.
    fn unavailable<E>(&self, call: &'static str, error: &SdkError<E>) -> Error
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        match answer::code(error) {
            Some("NoSuchBucket") => missing("bucket", &self.bucket),
            _ => unavailable(call, error),
        }
    }

    /// Writes an object whose bytes are all there, and returns its ETag.
    async fn put_whole(&self, key: &BlobKey, body: Bytes) -> Result<String> {
        let put = self.s3.put_object().bucket(&self.bucket).key(key.as_str()).body(Body::from(body));
        let put = put.send().await.map_err(|e| self.unavailable("PutObject", &e))?;
        etag(put.e_tag())
    }

    /// What is stored under a key, if anything is.
    async fn stored(&self, key: &BlobKey) -> Result<Option<Stored>> {
        let head = self.quick.head_object().bucket(&self.bucket).key(key.as_str());
        match head.send().await {
            Ok(head) => Ok(Some(Stored { size: length(head.content_length())?, etag: etag(head.e_tag())? })),
            Err(error) if answer::is_missing(&error) => Ok(None),
            Err(error) => Err(self.unavailable("HeadObject", &error)),
        }
    }
}

#[async_trait]
impl Blobs for Objects {
    async fn put(&self, key: &BlobKey, body: Bytes) -> Result<()> {
        self.put_whole(key, body).await.map(|_| ())
    }

    async fn get(&self, key: &BlobKey, offset: u64, length: u64) -> Result<Bytes> {
        if length == 0 {
            // No range is empty, so that nothing cannot be asked for.
            return self.stored(key).await?.map(|_| Bytes::new()).ok_or(Error::NotFound);
        }
        // Of a damaged row: no object is that long, and a server that cannot read the range may ignore it.
        if i64::try_from(offset.saturating_add(length)).is_err() {
            return Err(short());
        }
        let mut pieces = Download::range(self, key, offset, length).open().await?;
        let mut body = BytesMut::with_capacity(usize::try_from(length).unwrap_or_default());
        while let Some(piece) = pieces.try_next().await? {
            body.extend_from_slice(&piece);
        }
        Ok(body.freeze())
    }

    async fn put_stream(&self, key: &BlobKey, body: ByteStream) -> Result<Stored> {
        unfinished::put_stream(self, key, body).await
    }

    async fn concat(&self, key: &BlobKey, parts: &[BlobKey]) -> Result<Stored> {
        join::concat(self, key, parts).await
    }

    async fn read(&self, key: &BlobKey) -> Result<ByteStream> {
        Download::all(self, key).open().await
    }

    async fn read_pinned(&self, key: &BlobKey, etag: &str, offset: u64) -> Result<ByteStream> {
        Download::pinned(self, key, etag, offset).open().await
    }

    async fn delete(&self, key: &BlobKey) -> Result<()> {
        let delete = self.quick.delete_object().bucket(&self.bucket).key(key.as_str());
        delete.send().await.map_err(|e| self.unavailable("DeleteObject", &e))?;
        Ok(())
    }

    async fn list(&self, prefix: &BlobKey, after: Option<&BlobKey>, limit: usize) -> Result<Vec<Listed>> {
        // S3 lists keys in the order of their bytes, and goes on behind any text, whether or not it is a key.
        let prefix = format!("{prefix}/");
        let mut after = after.map(|key| key.as_str().to_owned());
        let mut listed: Vec<Listed> = Vec::new();
        while listed.len() < limit {
            let wanted = (limit - listed.len()).min(LIST_PAGE_MAX);
            let list = self
                .quick
                .list_objects_v2()
                .bucket(&self.bucket)
                .prefix(&prefix)
                .set_start_after(after.take())
                .max_keys(i32::try_from(wanted).unwrap_or(i32::MAX));
            let page = list.send().await.map_err(|e| self.unavailable("ListObjectsV2", &e))?;
            for object in page.contents() {
                let Some(name) = object.key() else { continue };
                after = Some(name.to_owned());
                // Somebody else's: no reader could name it.
                if let Ok(key) = name.parse::<BlobKey>() {
                    listed.push(Listed { key, size: length(object.size())? });
                }
            }
            if page.is_truncated() != Some(true) || after.is_none() {
                break;
            }
        }
        Ok(listed)
    }

    async fn delete_under(&self, prefix: &BlobKey) -> Result<()> {
        remove::under(self, prefix).await
    }

    async fn ready(&self) -> Result<()> {
        let head = self.quick.head_bucket().bucket(&self.bucket);
        match head.send().await {
            Ok(_) => Ok(()),
            // An answer to HEAD has no body that could say what is not there; there is only the bucket.
            Err(error) if answer::is_missing(&error) => Err(missing("bucket", &self.bucket)),
            Err(error) => Err(self.unavailable("HeadBucket", &error)),
        }
    }
}

/// An ETag without the quotes that headers put around it.
fn etag(header: Option<&str>) -> Result<String> {
    let bare = header.map(|etag| etag.trim_matches('"')).filter(|etag| !etag.is_empty());
    bare.map(str::to_owned).ok_or_else(|| Error::Unavailable("S3 answered without an ETag".to_owned()))
}

/// An ETag as a condition has it.
fn quoted(etag: &str) -> String {
    format!("\"{etag}\"")
}

fn length(header: Option<i64>) -> Result<u64> {
    let length = header.and_then(|length| u64::try_from(length).ok());
    length.ok_or_else(|| Error::Unavailable("S3 answered without a length".to_owned()))
}
