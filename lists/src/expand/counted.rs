//! What a decompressor reads from: counts what it used, and marks errors that are not its own.

use std::io::{self, Cursor};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncReadExt, Chain, ReadBuf};

/// A reader whose first bytes were read already.
pub(super) type Rewound<R> = Chain<Cursor<Vec<u8>>, R>;

pub(super) fn rewind<R: AsyncRead>(head: Vec<u8>, reader: R) -> Rewound<R> {
    Cursor::new(head).chain(reader)
}

/// The source failed, not the decompressor: the same kind of I/O error from either means different things.
#[derive(Debug, thiserror::Error)]
#[error("the source failed")]
pub(super) struct SourceFailed(#[source] pub io::Error);

#[derive(Debug)]
pub(super) struct Counted<R> {
    reader: R,
    used: u64,
}

impl<R> Counted<R> {
    pub fn new(reader: R) -> Counted<R> {
        Counted { reader, used: 0 }
    }

    /// Bytes that were used so far.
    pub fn used(&self) -> u64 {
        self.used
    }
}

fn marked(error: io::Error) -> io::Error {
    io::Error::other(SourceFailed(error))
}

impl<R: AsyncBufRead + Unpin> AsyncBufRead for Counted<R> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        Pin::new(&mut self.get_mut().reader).poll_fill_buf(cx).map_err(marked)
    }

    fn consume(mut self: Pin<&mut Self>, bytes: usize) {
        self.used += bytes as u64;
        Pin::new(&mut self.reader).consume(bytes);
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Counted<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.reader).poll_read(cx, buf)).map_err(marked)?;
        self.used += (buf.filled().len() - before) as u64;
        Poll::Ready(Ok(()))
    }
}
