//! The pinned bytes of a list, opened where reading has to go on.

use crate::IngestConfig;
use conveyor_domain::ingest::Source;
use conveyor_domain::ingest::list::{Layout, Position};
use conveyor_domain::{Compression, ListFault, limits};
use conveyor_lists::{ExpandLimits, Expanded, ListError, ListReader, expand, plain};
use conveyor_store::port::{BlobKey, ByteStream};
use conveyor_store::{Backend, Error};
use futures::TryStreamExt;
use std::io;
use tokio::io::AsyncReadExt;
use tokio_util::io::StreamReader;

pub type Reader = ListReader<Expanded>;

/// From the start: what the bytes are is found out here.
pub async fn open(
    backend: &Backend,
    source: &Source,
    config: &IngestConfig,
) -> Result<(Compression, Reader), ListError> {
    let expanded = expanded(backend, source, config, 0).await?;
    let compression = expanded.compression();
    Ok((compression, ListReader::open(expanded, &source.spec).await?))
}

/// From a place between two records.
pub async fn reopen(
    backend: &Backend,
    source: &Source,
    config: &IngestConfig,
    (compression, layout): (Compression, Layout),
    at: Position,
) -> Result<Reader, ListError> {
    // The start of a list is not always its first record: a header has to be read again.
    if at == Position::default() {
        return Ok(open(backend, source, config).await?.1);
    }
    let expanded = match compression {
        Compression::None => expanded(backend, source, config, at.offset).await?,
        Compression::Gzip | Compression::Zstd => {
            let mut expanded = expanded(backend, source, config, 0).await?;
            let skipped =
                tokio::io::copy(&mut (&mut expanded).take(at.offset), &mut tokio::io::sink()).await?;
            if skipped < at.offset {
                return Err(fault(ListFault::SourceChanged, "it ends before the place that was reached"));
            }
            expanded
        }
    };
    Ok(ListReader::resume(expanded, layout, at))
}

async fn expanded(
    backend: &Backend,
    source: &Source,
    config: &IngestConfig,
    offset: u64,
) -> Result<Expanded, ListError> {
    if source.staged.size > config.list_max_bytes {
        let detail = format!("{} bytes; the limit is {}", source.staged.size, config.list_max_bytes);
        return Err(fault(ListFault::SourceTooLarge, &detail));
    }
    let key: BlobKey = source.staged.object.parse().map_err(io::Error::other)?;
    let stream: ByteStream =
        backend.blobs.read_pinned(&key, &source.staged.etag, offset).await.map_err(of_store)?;
    let reader = StreamReader::new(stream.map_err(of_store));
    let limits = ExpandLimits {
        expanded_max_bytes: config.list_expanded_max_bytes,
        ratio_max: limits::LIST_RATIO_MAX,
        ratio_free_bytes: limits::LIST_RATIO_FREE_BYTES,
    };
    if offset > 0 {
        return Ok(plain(reader, limits));
    }
    expand(reader, limits).await
}

/// What the store says, in the words of a list: other bytes are the list's fault, everything else may pass.
fn of_store(error: Error) -> io::Error {
    match error {
        Error::Changed => {
            fault(ListFault::SourceChanged, "the staged list is not the one that was accepted").into()
        }
        Error::NotFound => io::Error::new(io::ErrorKind::NotFound, "the staged list is not there"),
        other => io::Error::other(other),
    }
}

pub fn fault(fault: ListFault, detail: &str) -> ListError {
    ListError::Fault { fault, line: None, detail: detail.to_owned() }
}
