//! The bytes of a list, in a buffer of one size.

use conveyor_domain::limits::KIB;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Large enough that a read is rarely waited for, and that the head fits.
pub(crate) const BUFFER_BYTES: usize = 128 * KIB;

#[derive(Debug)]
pub(crate) struct Source<R> {
    reader: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Source<R> {
    pub fn new(reader: R) -> Source<R> {
        Source { reader, buffer: vec![0; BUFFER_BYTES].into(), start: 0, end: 0, ended: false }
    }

    /// What was read and not used.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Whether nothing comes after [`Source::bytes`].
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Marks all of [`Source::bytes`] as used but the last `left`.
    pub fn leave(&mut self, left: usize) {
        self.start = self.end - left;
    }

    /// Reads more; for when all was used.
    pub async fn fill(&mut self) -> io::Result<()> {
        (self.start, self.end) = (0, 0);
        self.read().await
    }

    /// Reads until there are this many bytes or the list has ended, however small the reads: what is told from the head
    /// must not depend on how the bytes arrive. For the beginning, and no more than the buffer holds.
    pub async fn fill_head(&mut self, bytes: usize) -> io::Result<()> {
        while self.end < bytes && !self.ended {
            self.read().await?;
        }
        Ok(())
    }

    async fn read(&mut self) -> io::Result<()> {
        match self.reader.read(&mut self.buffer[self.end..]).await? {
            0 => self.ended = true,
            read => self.end += read,
        }
        Ok(())
    }
}
