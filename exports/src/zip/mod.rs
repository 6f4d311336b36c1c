//! A zip file that is written as a stream. The crates that write such files keep an entry of the directory in memory for
//! every entry of the file, a million of them for a large run; here the directory is put aside as it grows.

mod aside;
mod format;

pub(crate) use aside::Aside;

use crate::sink::Sink;
use crate::trouble::Trouble;
use bytes::Bytes;
use conveyor_domain::Timestamp;
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use format::{About, DEFLATED, STORED};
use std::io::Write;

/// Pages get hardly smaller beyond it, and take twice as long.
const LEVEL: u32 = 4;

/// The bytes of one entry, as the file has them.
#[derive(Debug)]
pub(crate) struct Entry {
    method: u16,
    crc: u32,
    size: usize,
    bytes: Bytes,
}

impl Entry {
    /// Deflates a body, unless it would grow by that.
    pub fn pack(body: Bytes) -> Entry {
        let mut crc = Crc::new();
        crc.update(&body);
        let (crc, size) = (crc.sum(), body.len());
        match deflate(&body) {
            Some(bytes) if bytes.len() < size => Entry { method: DEFLATED, crc, size, bytes: bytes.into() },
            Some(_) | None => Entry { method: STORED, crc, size, bytes: body },
        }
    }
}

fn deflate(body: &[u8]) -> Option<Vec<u8>> {
    let mut deflater = DeflateEncoder::new(Vec::new(), Compression::new(LEVEL));
    deflater.write_all(body).ok()?;
    deflater.finish().ok()
}

/// A file that grows.
pub(crate) struct Archive<'a> {
    sink: &'a mut Sink,
    directory: Aside<'a>,
    entries: u64,
    /// Where the next entry begins.
    offset: u64,
}

impl<'a> Archive<'a> {
    pub fn new(sink: &'a mut Sink, directory: Aside<'a>) -> Archive<'a> {
        Archive { sink, directory, entries: 0, offset: 0 }
    }

    pub async fn add(&mut self, name: &str, entry: Entry, modified: Timestamp) -> Result<(), Trouble> {
        let small = |n: usize| u32::try_from(n).map_err(|_| Trouble::Final(format!("{name} is over 4 GiB")));
        let (packed, size) = (small(entry.bytes.len())?, small(entry.size)?);
        let about = About { name, method: entry.method, modified, crc: entry.crc, packed, size };
        let header = about.local();
        about.central(self.offset, self.directory.tail());
        self.directory.put_aside().await?;
        self.entries += 1;
        self.offset += header.len() as u64 + u64::from(packed);
        self.sink.put(header).await?;
        self.sink.put(entry.bytes).await
    }

    /// Writes the directory and what ends the file.
    pub async fn finish(self) -> Result<(), Trouble> {
        let length = self.directory.append_to(self.sink).await?;
        self.sink.put(format::end(self.entries, self.offset, length)).await
    }
}
