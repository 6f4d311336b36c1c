//! Whose bodies a result object holds, said by the object itself (SPEC 6.18): rows can be made anew from objects alone.
//!
//! An object that several bodies share is the bodies, one behind the other, then an entry for each, then how many bytes the
//! entries take, then a mark. Bodies stay where they are, so whoever reads one by offset and length need not know of it. An
//! object that is one body has the entry in its name, because callers are given the object as it is.

use crate::id::TaskId;
use crate::params::Format;
use std::fmt;
use std::str::FromStr;

/// Ends an object that has an index, and names the layout of its entries.
const MARK: [u8; 8] = *b"CVRIDX01";
const ENTRY_BYTES: usize = 16 + 4 + 8 + 8 + 2 + 1;
/// The length of the entries, and the mark.
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
}

/// Not something that was written as an index or a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an index of results")]
pub struct NotAnIndex;

/// What an index of so many entries adds to its object.
pub fn bytes_of(entries: usize) -> usize {
    entries * ENTRY_BYTES + TRAILER_BYTES
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
    }
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
    let whole = length > 0 && length % ENTRY_BYTES as u64 == 0;
    if mark != MARK || !whole {
        return Err(NotAnIndex);
    }
    size.checked_sub(TRAILER_BYTES as u64 + length).ok_or(NotAnIndex)
}

/// The entries, from their bytes. They have to say of every byte in front of them whose it is: what only looks like an
/// index, because a body ends like one, does not.
pub fn decode(entries_begin: u64, bytes: &[u8]) -> Result<Vec<IndexEntry>, NotAnIndex> {
    let (chunks, rest) = bytes.as_chunks::<ENTRY_BYTES>();
    if !rest.is_empty() {
        return Err(NotAnIndex);
    }
    let mut next = 0_u64;
    let mut entries = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let entry = decode_entry(chunk).ok_or(NotAnIndex)?;
        if entry.offset != next {
            return Err(NotAnIndex);
        }
        next = entry.offset.checked_add(entry.length).ok_or(NotAnIndex)?;
        entries.push(entry);
    }
    if next == entries_begin { Ok(entries) } else { Err(NotAnIndex) }
}

fn decode_entry(bytes: &[u8; ENTRY_BYTES]) -> Option<IndexEntry> {
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
        write!(f, "{}.{}.{}.{}", self.task, self.attempt, self.http_status, self.format.as_str())
    }
}

impl FromStr for Label {
    type Err = NotAnIndex;
    fn from_str(text: &str) -> Result<Label, NotAnIndex> {
        let mut parts = text.split('.');
        let mut next = || parts.next().ok_or(NotAnIndex);
        let (task, attempt, http_status, format) = (next()?, next()?, next()?, next()?);
        let label = Label {
            task: task.parse().map_err(|_| NotAnIndex)?,
            attempt: attempt.parse().map_err(|_| NotAnIndex)?,
            http_status: http_status.parse().map_err(|_| NotAnIndex)?,
            format: Format::ALL.into_iter().find(|f| f.as_str() == format).ok_or(NotAnIndex)?,
        };
        // One spelling for each: `+1` and `007` are read as numbers too.
        if label.to_string() == text { Ok(label) } else { Err(NotAnIndex) }
    }
}

#[cfg(test)]
#[path = "result_index_tests.rs"]
mod tests;
