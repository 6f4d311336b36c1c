//! Bytes of an object as a stream that outlives the connection they come by.

use super::{Objects, answer, etag, length, quoted};
use aws_sdk_s3::error::SdkError;
use aws_sdk_s3::operation::get_object::{GetObjectError, GetObjectOutput};
use aws_sdk_s3::primitives::ByteStream as Body;
use bytes::Bytes;
use conveyor_domain::Exponential;
use conveyor_store::port::{BlobKey, ByteStream};
use conveyor_store::{Error, Result};
use futures::StreamExt;
use std::time::Duration;

/// How often a connection may break without a byte having come.
const BREAKS_MAX: u32 = 5;
const BACKOFF: Exponential = Exponential::new(Duration::from_millis(100), Duration::from_millis(1_600));

#[derive(Debug)]
pub struct Download {
    objects: Objects,
    key: BlobKey,
    /// Known from the beginning, or from the first answer on: what is read after a break must be the same object.
    pin: Option<String>,
    next: u64,
    /// Behind the last byte. Known from the beginning, or from the first answer on.
    end: Option<u64>,
    breaks: u32,
}

/// A download whose connection is there, or has to be made again.
struct Flow {
    download: Download,
    body: Option<Body>,
}

impl Download {
    pub fn all(objects: &Objects, key: &BlobKey) -> Download {
        Download { objects: objects.clone(), key: key.clone(), pin: None, next: 0, end: None, breaks: 0 }
    }

    pub fn pinned(objects: &Objects, key: &BlobKey, etag: &str, offset: u64) -> Download {
        Download { pin: Some(etag.to_owned()), next: offset, ..Download::all(objects, key) }
    }

    /// `Corrupt` if the object ends earlier.
    pub fn range(objects: &Objects, key: &BlobKey, offset: u64, length: u64) -> Download {
        let end = Some(offset.saturating_add(length));
        Download { next: offset, end, ..Download::all(objects, key) }
    }

    /// Asks for the first byte, so that whoever reads what is not there learns it at once.
    pub async fn open(mut self) -> Result<ByteStream> {
        let body = Some(self.connect().await?);
        let flow = Flow { download: self, body };
        Ok(futures::stream::try_unfold(flow, |mut flow| async move {
            Ok(flow.piece().await?.map(|piece| (piece, flow)))
        })
        .boxed())
    }

    async fn connect(&mut self) -> Result<Body> {
        let (s3, bucket) = (&self.objects.s3, &self.objects.bucket);
        let get = s3.get_object().bucket(bucket).key(self.key.as_str());
        let get = get.set_range(self.range_header()).set_if_match(self.pin.as_deref().map(quoted));
        match get.send().await {
            Ok(answer) => self.begin(answer),
            Err(error) => self.explain(&error).await,
        }
    }

    /// None for all of it: an empty object has no first byte.
    fn range_header(&self) -> Option<String> {
        match (self.next, self.end) {
            (0, None) => None,
            (from, None) => Some(format!("bytes={from}-")),
            (from, Some(end)) => Some(format!("bytes={from}-{}", end.saturating_sub(1))),
        }
    }

    fn begin(&mut self, answer: GetObjectOutput) -> Result<Body> {
        if self.next > 0 && answer.content_range().is_none() {
            return Err(Error::Unavailable("GetObject: the whole object came instead of a range".to_owned()));
        }
        let end = self.next + length(answer.content_length())?;
        if *self.end.get_or_insert(end) != end {
            return Err(short());
        }
        if self.pin.is_none() {
            self.pin = Some(etag(answer.e_tag())?);
        }
        Ok(answer.body)
    }

    async fn explain(&mut self, error: &SdkError<GetObjectError>) -> Result<Body> {
        if answer::is_missing(error) {
            return Err(Error::NotFound);
        }
        if answer::is_changed(error) {
            return Err(Error::Changed);
        }
        if !answer::is_past_the_end(error) {
            return Err(self.objects.unavailable("GetObject", error));
        }
        match self.end {
            Some(_) => Err(short()),
            // Nothing is left to read: that is no error, if it is the object that was meant.
            None => self.check_pin().await.map(|()| {
                self.end = Some(self.next);
                Body::default()
            }),
        }
    }

    async fn check_pin(&self) -> Result<()> {
        let (quick, bucket) = (&self.objects.quick, &self.objects.bucket);
        let head = quick.head_object().bucket(bucket).key(self.key.as_str());
        match head.set_if_match(self.pin.as_deref().map(quoted)).send().await {
            Ok(_) => Ok(()),
            Err(error) if answer::is_missing(&error) => Err(Error::NotFound),
            Err(error) if answer::is_changed(&error) => Err(Error::Changed),
            Err(error) => Err(self.objects.unavailable("HeadObject", &error)),
        }
    }

    /// Waits before the connection is made again; longer each time that nothing came.
    async fn wait_after_break(&mut self, cause: &str) -> Result<()> {
        self.breaks += 1;
        if self.breaks > BREAKS_MAX {
            return Err(Error::Unavailable(format!("GetObject: broken off at {}: {cause}", self.next)));
        }
        tracing::debug!(key = %self.key, at = self.next, cause, "a download broke off and is resumed");
        tokio::time::sleep(BACKOFF.delay(self.breaks)).await;
        Ok(())
    }
}

impl Flow {
    async fn piece(&mut self) -> Result<Option<Bytes>> {
        while self.download.end != Some(self.download.next) {
            let body = match &mut self.body {
                Some(body) => body,
                None => self.body.insert(self.download.connect().await?),
            };
            let cause = match body.next().await {
                Some(Ok(piece)) => {
                    self.download.next += piece.len() as u64;
                    self.download.breaks = 0;
                    return Ok(Some(piece));
                }
                Some(Err(error)) => error.to_string(),
                None => "it ended early".to_owned(),
            };
            self.body = None;
            self.download.wait_after_break(&cause).await?;
        }
        Ok(None)
    }
}

pub fn short() -> Error {
    Error::Corrupt("an object is shorter than its row says".to_owned())
}
