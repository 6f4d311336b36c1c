//! Reports of rejected rows, one after the other, a piece at a time: there may be a million rows in them.

use bytes::Bytes;
use conveyor_domain::RejectedRow;
use conveyor_domain::export::inert;
use conveyor_domain::limits::KIB;
use conveyor_store::port::{BlobKey, Blobs};
use csv_async::{AsyncWriter, AsyncWriterBuilder, Terminator};
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
    let header = stream::once(async {
        let mut csv = writer();
        csv.write_record(["index", "line", "offset", "reason", "value"]).await?;
        text_of(csv).await
    });
    let rows = stream::try_unfold(StreamReader::new(reports), |mut lines| async move {
        let text = next_rows(&mut lines).await?;
        Ok((!text.is_empty()).then_some((text, lines)))
    });
    header.chain(rows)
}

/// Some more rows; none at the end.
async fn next_rows(lines: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Bytes> {
    let (mut csv, mut read, mut line) = (writer(), 0, Vec::new());
    while read < PIECE_BYTES && lines.read_until(b'\n', &mut line).await? > 0 {
        let RejectedRow { index, line: at, offset, reason, value } =
            serde_json::from_slice(&line).map_err(io::Error::other)?;
        let (index, at, offset) = (index.to_string(), at.to_string(), offset.to_string());
        csv.write_record([&index, &at, &offset, reason.as_str(), &inert(&value)]).await?;
        read += line.len();
        line.clear();
    }
    text_of(csv).await
}

fn writer() -> AsyncWriter<Vec<u8>> {
    AsyncWriterBuilder::new().terminator(Terminator::CRLF).create_writer(Vec::new())
}

async fn text_of(csv: AsyncWriter<Vec<u8>>) -> io::Result<Bytes> {
    csv.into_inner().await.map(Bytes::from).map_err(|error| io::Error::other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::job::task_input::{Invalid, Reason};

    #[tokio::test]
    async fn a_report_has_a_row_a_line_and_so_has_its_csv() {
        let row = |index, value| RejectedRow::new(index, 3, 40, Invalid::new(Reason::MalformedUrl, value));
        let rows = [row(1, "a\nb"), row(2, "=1+1"), row(3, "\"x\",y")];
        let report = Bytes::from(RejectedRow::report(&rows));
        let read = report.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        assert_eq!(
            read.map(|line| serde_json::from_slice(line).unwrap()).collect::<Vec<RejectedRow>>(),
            rows
        );
        let csv: Vec<Bytes> = as_csv(stream::iter([Ok(report)])).try_collect().await.unwrap();
        let expected = "index,line,offset,reason,value\r\n1,3,40,malformed_url,\"a\nb\"\r\n\
                        2,3,40,malformed_url,'=1+1\r\n3,3,40,malformed_url,\"\"\"x\"\",y\"\r\n";
        assert_eq!(String::from_utf8(csv.concat()).unwrap(), expected);
    }
}
