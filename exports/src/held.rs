//! The record of an export that somebody has, and writes to it that may be lost.

use crate::Builder;
use conveyor_domain::job::record::Expected;
use conveyor_domain::{Export, Record, RecordVersion, RecordWrite};
use conveyor_store::Result;

/// The version that only we know, as long as nobody else has written.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    version: RecordVersion,
    /// A write that may or may not have happened.
    unsure: Option<Record>,
}

impl Held {
    pub fn new(version: RecordVersion) -> Held {
        Held { version, unsure: None }
    }
}

impl Builder {
    /// Writes what an export is now. False if it is not ours any more.
    pub(crate) async fn put(&self, held: &mut Held, export: &Export) -> Result<bool> {
        // As it was, before another is written on top of it: it finds out that it happened, and none takes our own write for
        // another's.
        if let Some(record) = held.unsure.clone()
            && !self.send(held, record).await?
        {
            return Ok(false);
        }
        self.send(held, export.record(&self.entropy)).await
    }

    async fn send(&self, held: &mut Held, record: Record) -> Result<bool> {
        let version = record.version;
        held.unsure = Some(record.clone());
        let write = RecordWrite::put(record, Expected::Version(held.version));
        let written = self.backend.store.write_record(write).await?;
        held.unsure = None;
        if written {
            held.version = version;
        }
        Ok(written)
    }
}
