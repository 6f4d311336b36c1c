//! Whose bodies a result object holds, said by the object itself (SPEC 6.18): rows can be made anew from objects alone.
//!
//! An object that several bodies share is the bodies, one behind the other, then the index: an entry for each, the CRC-32 of
//! the entries, then how many bytes both take, then a mark. Bodies stay where they are, so whoever reads one by offset and
//! length need not know of it. An object that is one body has the entry in its name, because callers are given the object as
//! it is. Earlier versions wrote no checksums; their objects have another mark, and their names end earlier.

use crate::{Format, TaskId, checksum};
use std::fmt;
use std::str::FromStr;

/// Ends an object that has an index, and names the layout of its entries.
const MARK: [u8; 8] = *b"CVRIDX02";
/// Of earlier versions, which wrote no checksums.
const MARK_UNCHECKED: [u8; 8] = *b"CVRIDX01";
const CRC_BYTES: usize = 4;
const UNCHECKED_ENTRY_BYTES: usize = 16 + 4 + 8 + 8 + 2 + 1;
/// With the checksum of the body, behind a byte that says whether there is one.
const ENTRY_BYTES: usize = UNCHECKED_ENTRY_BYTES + 1 + CRC_BYTES;
/// The length of the entries and their checksum, and the mark.
pub const TRAILER_BYTES: usize = 4 + MARK.len();

/// One body, and what it is the body of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    pub label: Label,
    pub offset: u64,
    pub length: u64,
}

/// What is known of a body beyond where it is. As text it is the end of an object's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    pub task: TaskId,
    /// The attempt that it is the answer to, from 1.
    pub attempt: u32,
    pub http_status: u16,
    pub format: Format,
    /// The CRC-32 of the body. Objects of earlier versions do not say.
    pub crc32: Option<u32>,
}

/// Not something that was written as an index or a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an index of results")]
pub struct NotAnIndex;

/// What an index of so many entries adds to its object.
pub fn bytes_of(entries: usize) -> usize {
    entries * ENTRY_BYTES + CRC_BYTES + TRAILER_BYTES
}

/// What goes behind the bodies.
pub fn encode(entries: &[IndexEntry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(bytes_of(entries.len()));
    for entry in entries {
        bytes.extend_from_slice(&entry.label.task.to_bytes());
        bytes.extend_from_slice(&entry.label.attempt.to_be_bytes());
        bytes.extend_from_slice(&entry.offset.to_be_bytes());
        bytes.extend_from_slice(&entry.length.to_be_bytes());
        bytes.extend_from_slice(&entry.label.http_status.to_be_bytes());
        bytes.push(code(entry.label.format));
        bytes.push(u8::from(entry.label.crc32.is_some()));
        bytes.extend_from_slice(&entry.label.crc32.unwrap_or_default().to_be_bytes());
    }
    bytes.extend_from_slice(&checksum::hash(&bytes).to_be_bytes());
    // An object holds one group of settles: far fewer entries than would not fit.
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&MARK);
    bytes
}

/// Where the entries begin in an object of that size, from its last [`TRAILER_BYTES`] bytes. An object of an earlier
/// version, which has none, is not an index.
pub fn entries_begin(size: u64, trailer: &[u8]) -> Result<u64, NotAnIndex> {
    let (length, mark) = trailer.split_first_chunk::<4>().ok_or(NotAnIndex)?;
    let length = u64::from(u32::from_be_bytes(*length));
    let known = mark == MARK || mark == MARK_UNCHECKED;
    let begin = size.checked_sub(TRAILER_BYTES as u64 + length);
    begin.filter(|_| known && length > 0).ok_or(NotAnIndex)
}

/// The entries, from their bytes and the trailer behind them. They have to say of every byte in front of them whose it is:
/// what only looks like an index, because a body ends like one, does not.
pub fn decode(entries_begin: u64, bytes: &[u8]) -> Result<Vec<IndexEntry>, NotAnIndex> {
    let entries = match bytes.split_last_chunk::<TRAILER_BYTES>().ok_or(NotAnIndex)? {
        (bytes, trailer) if trailer.ends_with(&MARK) => checked_entries(bytes),
        (bytes, trailer) if trailer.ends_with(&MARK_UNCHECKED) => {
            let (chunks, rest) = bytes.as_chunks::<UNCHECKED_ENTRY_BYTES>();
            rest.is_empty().then(|| chunks.iter().map(decode_entry).collect()).flatten()
        }
        _ => None,
    };
    let entries: Vec<IndexEntry> = entries.ok_or(NotAnIndex)?;
    let mut next = 0_u64;
    for entry in &entries {
        if entry.offset != next {
            return Err(NotAnIndex);
        }
        next = entry.offset.checked_add(entry.length).ok_or(NotAnIndex)?;
    }
    if next == entries_begin { Ok(entries) } else { Err(NotAnIndex) }
}

fn checked_entries(bytes: &[u8]) -> Option<Vec<IndexEntry>> {
    let (bytes, crc) = bytes.split_last_chunk::<CRC_BYTES>()?;
    let (chunks, rest) = bytes.as_chunks::<ENTRY_BYTES>();
    if !rest.is_empty() || checksum::hash(bytes) != u32::from_be_bytes(*crc) {
        return None;
    }
    chunks.iter().map(decode_checked_entry).collect()
}

fn decode_checked_entry(bytes: &[u8; ENTRY_BYTES]) -> Option<IndexEntry> {
    let (entry, rest) = bytes.split_first_chunk::<UNCHECKED_ENTRY_BYTES>()?;
    let (has_crc, crc) = rest.split_first_chunk::<1>()?;
    let mut entry = decode_entry(entry)?;
    entry.label.crc32 = match has_crc {
        [0] => None,
        [1] => Some(u32::from_be_bytes(crc.try_into().ok()?)),
        _ => return None,
    };
    Some(entry)
}

fn decode_entry(bytes: &[u8; UNCHECKED_ENTRY_BYTES]) -> Option<IndexEntry> {
    let (task, rest) = bytes.split_first_chunk::<16>()?;
    let (attempt, rest) = rest.split_first_chunk::<4>()?;
    let (offset, rest) = rest.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let (http_status, rest) = rest.split_first_chunk::<2>()?;
    let label = Label {
        task: TaskId::from_bytes(*task),
        attempt: u32::from_be_bytes(*attempt),
        http_status: u16::from_be_bytes(*http_status),
        format: Format::ALL.into_iter().find(|format| rest == [code(*format)])?,
        crc32: None,
    };
    Some(IndexEntry { label, offset: u64::from_be_bytes(*offset), length: u64::from_be_bytes(*length) })
}

/// Frozen: objects have it.
fn code(format: Format) -> u8 {
    match format {
        Format::Html => 1,
        Format::Json => 2,
        Format::Markdown => 3,
        Format::Plaintext => 4,
        Format::Pdf => 5,
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.{}", self.task, self.attempt, self.http_status, self.format.as_str())?;
        self.crc32.map_or(Ok(()), |crc32| write!(f, ".{crc32:08x}"))
    }
}

impl FromStr for Label {
    type Err = NotAnIndex;
    fn from_str(text: &str) -> Result<Label, NotAnIndex> {
        let mut parts = text.split('.');
        let mut next = || parts.next().ok_or(NotAnIndex);
        let (task, attempt, http_status, format) = (next()?, next()?, next()?, next()?);
        let crc32 = parts.next().map(|crc32| u32::from_str_radix(crc32, 16)).transpose();
        let label = Label {
            task: task.parse().map_err(|_| NotAnIndex)?,
            attempt: attempt.parse().map_err(|_| NotAnIndex)?,
            http_status: http_status.parse().map_err(|_| NotAnIndex)?,
            format: Format::ALL.into_iter().find(|f| f.as_str() == format).ok_or(NotAnIndex)?,
            crc32: crc32.map_err(|_| NotAnIndex)?,
        };
        // One spelling for each: `+1` and `007` are read as numbers too.
        if label.to_string() == text { Ok(label) } else { Err(NotAnIndex) }
    }
}

#[cfg(test)]
#[path = "result_index_tests.rs"]
mod tests;
