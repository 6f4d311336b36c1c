//! The expanded bytes: their number, and what the failure of a decompressor says about the list.

use super::counted::{Counted, SourceFailed};
use super::{ExpandLimits, ZSTD_WINDOW_LOG_MAX};
use crate::error::ListError;
use async_compression::tokio::bufread::{GzipDecoder, ZstdDecoder};
use conveyor_domain::limits::MIB;
use conveyor_domain::{Compression, ListFault};
use std::fmt;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};

/// A list without its compression. Fails with a [`ListError`] inside the I/O error; [`ListError::from`] brings it out.
pub struct Expanded {
    source: Box<dyn Expander>,
    compression: Compression,
    limits: ExpandLimits,
    expanded_bytes: u64,
    /// A decompressor that failed says "end" when it is asked again.
    failed: Option<ListError>,
}

impl Expanded {
    pub(super) fn new(source: Box<dyn Expander>, compression: Compression, limits: ExpandLimits) -> Expanded {
        Expanded { source, compression, limits, expanded_bytes: 0, failed: None }
    }

    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Bytes that were given out.
    pub fn expanded_bytes(&self) -> u64 {
        self.expanded_bytes
    }

    fn check_limits(&self) -> Result<(), ListError> {
        let ExpandLimits { expanded_max_bytes, ratio_max, ratio_free_bytes } = self.limits;
        if self.expanded_bytes > expanded_max_bytes {
            let detail = format!("expands to more than {expanded_max_bytes} bytes");
            return Err(ListError::fault(ListFault::ExpandedTooLarge, None, detail));
        }
        let allowed = ratio_max.saturating_mul(self.source.used()).max(ratio_free_bytes);
        if self.compression != Compression::None && self.expanded_bytes > allowed {
            let detail = format!("expands to more than {ratio_max} times its size");
            return Err(ListError::fault(ListFault::ExpansionRatioExceeded, None, detail));
        }
        Ok(())
    }

    fn poll_source(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<(), ListError>> {
        let before = buf.filled().len();
        match ready!(Pin::new(&mut *self.source).poll_read(cx, buf)) {
            Ok(()) => {
                self.expanded_bytes += (buf.filled().len() - before) as u64;
                Poll::Ready(self.check_limits())
            }
            Err(e) => Poll::Ready(Err(self.failure(e))),
        }
    }

    fn failure(&self, error: io::Error) -> ListError {
        let error = match error.downcast::<SourceFailed>() {
            Ok(SourceFailed(error)) => return error.into(),
            Err(error) => error,
        };
        let name = self.compression.as_str();
        match error.kind() {
            ErrorKind::UnexpectedEof => {
                ListError::fault(ListFault::SourceTruncated, None, format!("the {name} stream ends early"))
            }
            _ if error.to_string().contains(WINDOW_TOO_LARGE) => {
                let window_mib = (1 << ZSTD_WINDOW_LOG_MAX) / MIB;
                let detail = format!(
                    "needs a zstd window of more than {window_mib} MiB: compress it without --long or --ultra"
                );
                ListError::fault(ListFault::SourceCorrupt, None, detail)
            }
            _ => ListError::fault(
                ListFault::SourceCorrupt,
                None,
                format!("the {name} stream is broken: {error}"),
            ),
        }
    }
}

/// In the words of libzstd, which has no other way to tell.
const WINDOW_TOO_LARGE: &str = "too much memory";

impl AsyncRead for Expanded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(error) = &self.failed {
            return Poll::Ready(Err(error.repeat().into()));
        }
        let before = buf.filled().len();
        let read = ready!(self.poll_source(cx, buf));
        Poll::Ready(read.map_err(|error| {
            buf.set_filled(before);
            self.failed = Some(error.repeat());
            error.into()
        }))
    }
}

impl fmt::Debug for Expanded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expanded")
            .field("compression", &self.compression)
            .field("expanded_bytes", &self.expanded_bytes)
            .finish_non_exhaustive()
    }
}

/// A decompressor, or none, that says how many bytes it used.
pub(super) trait Expander: AsyncRead + Unpin + Send {
    fn used(&self) -> u64;
}

impl<R: AsyncBufRead + Unpin + Send> Expander for Counted<R> {
    fn used(&self) -> u64 {
        Counted::used(self)
    }
}

impl<R: AsyncBufRead + Unpin + Send> Expander for GzipDecoder<Counted<R>> {
    fn used(&self) -> u64 {
        self.get_ref().used()
    }
}

impl<R: AsyncBufRead + Unpin + Send> Expander for ZstdDecoder<Counted<R>> {
    fn used(&self) -> u64 {
        self.get_ref().used()
    }
}
