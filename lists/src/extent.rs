//! How far some bytes reach.

use conveyor_domain::ingest::list::Position;
use std::ops::AddAssign;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    pub bytes: u64,
    /// Ends of lines among them.
    pub lines: u64,
}

impl Extent {
    pub fn of(bytes: &[u8]) -> Extent {
        Extent { bytes: bytes.len() as u64, lines: memchr::memchr_iter(b'\n', bytes).count() as u64 }
    }

    /// Of one line, with its terminator if it has one.
    pub fn of_line(line: &[u8]) -> Extent {
        Extent { bytes: line.len() as u64, lines: line.ends_with(b"\n").into() }
    }

    /// The place behind these bytes, if they begin here.
    pub fn behind(self, place: Position) -> Position {
        Position { offset: place.offset + self.bytes, line: place.line + self.lines, ..place }
    }
}

impl AddAssign for Extent {
    fn add_assign(&mut self, more: Extent) {
        self.bytes += more.bytes;
        self.lines += more.lines;
    }
}
