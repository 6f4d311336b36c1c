//! The directory of a zip file, until its turn comes at the end of the file.

use crate::Builder;
use crate::sink::Sink;
use crate::trouble::Trouble;
use conveyor_domain::Export;
use conveyor_store::port::BlobKey;

/// Bytes that grow without taking more memory: what is beyond a few MiB goes into objects beside the export. Those that a
/// crash leaves go with it.
pub(crate) struct Aside<'a> {
    builder: &'a Builder,
    export: &'a Export,
    objects: Vec<(BlobKey, u64)>,
    tail: Vec<u8>,
}

impl<'a> Aside<'a> {
    pub fn new(builder: &'a Builder, export: &'a Export) -> Aside<'a> {
        Aside { builder, export, objects: Vec::new(), tail: Vec::new() }
    }

    /// What was added last.
    pub fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.tail
    }

    /// Puts the tail aside, if it is long enough.
    pub async fn put_aside(&mut self) -> Result<(), Trouble> {
        if self.tail.len() < self.builder.config.directory_bytes {
            return Ok(());
        }
        let key = self.builder.new_key(self.export);
        let bytes = std::mem::take(&mut self.tail);
        let length = bytes.len() as u64;
        self.builder.backend.blobs.put(&key, bytes.into()).await?;
        self.objects.push((key, length));
        Ok(())
    }

    /// All of it, in order. Returns how long it is.
    pub async fn append_to(self, sink: &mut Sink) -> Result<u64, Trouble> {
        let blobs = &self.builder.backend.blobs;
        let mut total = self.tail.len() as u64;
        for (key, length) in &self.objects {
            sink.put(blobs.get(key, 0, *length).await?).await?;
            total += length;
            if let Err(error) = blobs.delete(key).await {
                tracing::debug!(%key, %error, "a part of a directory stays for as long as its export");
            }
        }
        sink.put(self.tail).await?;
        Ok(total)
    }
}
