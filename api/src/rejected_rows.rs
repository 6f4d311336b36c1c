//! Reports of rejected rows, one after the other, a piece at a time: there may be a million rows in them.

use crate::wire::rejected::{CSV_HEADER, write_csv};
use bytes::Bytes;
use conveyor_domain::RejectedRow;
use conveyor_domain::limits::KIB;
use conveyor_store::port::{BlobKey, Blobs};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncBufRead, AsyncBufReadExt};
use tokio_util::io::StreamReader;

/// About how much is sent at once.
const PIECE_BYTES: usize = 64 * KIB;

/// The bytes of the reports, in order. An answer that began well can only be broken off, so what fails is logged here.
pub(crate) fn read(
    blobs: Arc<dyn Blobs>,
    keys: Vec<BlobKey>,
) -> impl Stream<Item = io::Result<Bytes>> + Send + Unpin + 'static {
    let open = move |key: BlobKey| {
        let blobs = blobs.clone();
        async move { blobs.read(&key).await }
    };
    let bytes = stream::iter(keys).then(open).try_flatten();
    let failed = |error: conveyor_store::Error| {
        tracing::error!(%error, "a report of rejected rows cannot be read");
        io::Error::other(error)
    };
    bytes.map_err(failed).boxed()
}

/// The same rows as CSV.
pub(crate) fn as_csv(
    reports: impl Stream<Item = io::Result<Bytes>> + Send + Unpin + 'static,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let header = Bytes::from_static(CSV_HEADER.as_bytes());
    let rows = stream::try_unfold(StreamReader::new(reports), |mut lines| async move {
        let text = next_rows(&mut lines).await?;
        Ok((!text.is_empty()).then(|| (Bytes::from(text), lines)))
    });
    stream::once(async { Ok(header) }).chain(rows)
}

/// Some more rows; none at the end.
async fn next_rows(lines: &mut (impl AsyncBufRead + Unpin)) -> io::Result<String> {
    let (mut text, mut line) = (String::new(), Vec::new());
    while text.len() < PIECE_BYTES && lines.read_until(b'\n', &mut line).await? > 0 {
        let row: RejectedRow = serde_json::from_slice(&line).map_err(io::Error::other)?;
        write_csv(&row, &mut text);
        line.clear();
    }
    Ok(text)
}
