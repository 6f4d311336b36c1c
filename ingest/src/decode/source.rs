//! The bytes of a list, line by line and never more than one line at a time.

use super::{DecodeError, MAX_LINE_BYTES, SNIFF_BYTES};
use std::io::{BufRead, BufReader, Chain, Cursor, ErrorKind, Read};

pub(super) const BOM: &[u8] = b"\xef\xbb\xbf";
/// What ends a line, at most.
const TERMINATOR_MAX_BYTES: usize = b"\r\n".len();

#[derive(Debug)]
pub(super) struct Source<R> {
    reader: BufReader<Chain<Cursor<Vec<u8>>, R>>,
    /// Lines that were given out.
    lines: u64,
}

impl<R: Read> Source<R> {
    /// Reads the head of the list, to tell its format by, and gives it back beside a source that starts with it.
    pub fn open(mut reader: R) -> Result<(Source<R>, Vec<u8>), DecodeError> {
        let mut head = vec![0; SNIFF_BYTES];
        let mut filled = 0;
        // To the full size however small the reads: what is told from the head must not depend on how the bytes arrive.
        while filled < head.len() {
            match reader.read(&mut head[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        head.truncate(filled);
        if head.starts_with(BOM) {
            head.drain(..BOM.len());
        }
        let reader = BufReader::new(Cursor::new(head.clone()).chain(reader));
        Ok((Source { reader, lines: 0 }, head))
    }

    /// Puts the next line into `line`, with its terminator, and says its number; `None` at the end.
    pub fn next_line(&mut self, line: &mut Vec<u8>) -> Result<Option<u64>, DecodeError> {
        line.clear();
        let limit = (MAX_LINE_BYTES + TERMINATOR_MAX_BYTES) as u64;
        if self.reader.by_ref().take(limit).read_until(b'\n', line)? == 0 {
            return Ok(None);
        }
        self.lines += 1;
        if without_terminator(line).len() > MAX_LINE_BYTES {
            return Err(DecodeError::LineTooLong { line: self.lines });
        }
        Ok(Some(self.lines))
    }

    /// The number of the line that was given out last.
    pub fn line(&self) -> u64 {
        self.lines
    }
}

pub(super) fn without_terminator(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
