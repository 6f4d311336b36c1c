//! Taking the compression off a list: told by its first bytes, whatever its name, and stopped before it can do harm.

mod counted;
mod expanded;

pub use expanded::Expanded;

use crate::error::ListError;
use async_compression::tokio::bufread::{GzipDecoder, ZstdDecoder};
use async_compression::zstd::DParameter;
use conveyor_domain::{Compression, limits};
use counted::{Counted, rewind};
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// How far a zstd frame may refer back, as a power of two: 8 MiB, which every decoder should support (RFC 8878) and no
/// level below `--ultra` exceeds. A decoder holds as much in memory.
pub(crate) const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// As much as it takes to tell a compression by.
const MAGIC_BYTES: usize = 4;

/// How much a list may expand to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpandLimits {
    pub expanded_max_bytes: u64,
    /// Expanded bytes for each compressed one, beyond `ratio_free_bytes`.
    pub ratio_max: u64,
    pub ratio_free_bytes: u64,
}

impl Default for ExpandLimits {
    fn default() -> ExpandLimits {
        ExpandLimits {
            expanded_max_bytes: limits::LIST_EXPANDED_MAX_BYTES,
            ratio_max: limits::LIST_RATIO_MAX,
            ratio_free_bytes: limits::LIST_RATIO_FREE_BYTES,
        }
    }
}

/// The bytes of a list that is known to have no compression, from somewhere in the middle of it: there, what looks like
/// one is not.
pub fn plain<R>(reader: R, limits: ExpandLimits) -> Expanded
where
    R: AsyncBufRead + Unpin + Send + 'static,
{
    Expanded::new(Box::new(Counted::new(reader)), Compression::None, limits)
}

/// The bytes of a list without their compression.
pub async fn expand<R>(mut reader: R, limits: ExpandLimits) -> Result<Expanded, ListError>
where
    R: AsyncBufRead + Unpin + Send + 'static,
{
    let head = read_head(&mut reader).await?;
    let compression = compression_of(&head);
    let source = Counted::new(rewind(head, reader));
    Ok(match compression {
        Compression::None => Expanded::new(Box::new(source), compression, limits),
        Compression::Gzip => {
            let mut decoder = GzipDecoder::new(source);
            decoder.multiple_members(true);
            Expanded::new(Box::new(decoder), compression, limits)
        }
        Compression::Zstd => {
            let window = DParameter::window_log_max(ZSTD_WINDOW_LOG_MAX);
            let mut decoder = ZstdDecoder::with_params(source, &[window]);
            decoder.multiple_members(true);
            Expanded::new(Box::new(decoder), compression, limits)
        }
    })
}

fn compression_of(head: &[u8]) -> Compression {
    match head {
        [0x1f, 0x8b, ..] => Compression::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
        // A frame to be skipped: parallel compressors begin with one.
        [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zstd,
        _ => Compression::None,
    }
}

/// The first bytes, however small the reads.
async fn read_head<R: AsyncBufRead + Unpin>(reader: &mut R) -> Result<Vec<u8>, ListError> {
    let mut head = Vec::with_capacity(MAGIC_BYTES);
    while head.len() < MAGIC_BYTES {
        let bytes = reader.fill_buf().await?;
        if bytes.is_empty() {
            break;
        }
        let taken = bytes.len().min(MAGIC_BYTES - head.len());
        head.extend_from_slice(&bytes[..taken]);
        reader.consume(taken);
    }
    Ok(head)
}
