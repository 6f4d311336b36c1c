//! Counting a list without keeping any of it (SPEC 6.9).

use crate::error::ListError;
use crate::reader::ListReader;
use crate::record::Record;
use conveyor_domain::limits::MIB;
use conveyor_domain::{ListFault, ListSpec, Params, RejectedRow, RowCount};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

/// Decoding does not wait for anything while its buffer lasts; others want the thread too.
const RECORDS_AT_ONCE: u32 = 256;
/// The same for bytes that make no record, such as blank lines.
const BYTES_AT_ONCE: usize = MIB;

/// Counts to the end of a list, from its expanded bytes, or to the first record beyond `records_max`. If this is dropped before
/// that, `rows` is what was counted by then.
pub async fn count<R: AsyncRead + Unpin>(
    expanded: R,
    spec: &ListSpec,
    rows: &mut RowCount,
    records_max: u32,
) -> Result<(), ListError> {
    let mut reader = ListReader::open(Yielding { reader: expanded, taken: 0 }, spec).await?;
    let (job, rules) = (Params::new(), rows.rules());
    while let Some(Record { index, line, offset, row }) = reader.next().await? {
        if index >= records_max {
            let detail = format!("more than {records_max} records");
            return Err(ListError::fault(ListFault::TooManyRows, Some(line), detail));
        }
        if index.is_multiple_of(RECORDS_AT_ONCE) {
            tokio::task::yield_now().await;
        }
        let has_unknown = row.as_ref().is_ok_and(|row| !row.unknown_fields().is_empty());
        let row = row.and_then(|row| row.check(&job, rules));
        rows.add(row, has_unknown, |invalid| RejectedRow::new(index, line, offset, invalid));
    }
    Ok(())
}

/// A reader that is never ready for very long.
struct Yielding<R> {
    reader: R,
    taken: usize,
}

impl<R: AsyncRead + Unpin> AsyncRead for Yielding<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.taken >= BYTES_AT_ONCE {
            self.taken = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.reader).poll_read(cx, buf))?;
        self.taken += buf.filled().len() - before;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::ParamPolicy;

    async fn counted(list: &str, records_max: u32) -> (Result<(), ListError>, RowCount) {
        let mut rows = RowCount::new(ParamPolicy::ZenRows);
        let ended = count(list.as_bytes(), &ListSpec::Jsonl, &mut rows, records_max).await;
        (ended, rows)
    }

    #[tokio::test]
    async fn good_and_bad_records_are_counted_and_the_first_bad_one_is_kept() {
        let list = "{\"url\":\"https://a.example\"}\n\nnonsense\n{\"url\":\"https://a.example\",\"method\":\"POST\",\"urll\":1}\n[]\n";
        let (ended, rows) = counted(list, 4).await;
        assert!(ended.is_ok());
        assert_eq!((rows.records, rows.valid, rows.conditional, rows.unknown), (4, 2, 1, 1));
        let first = rows.first_invalid.unwrap();
        assert_eq!((first.index, first.line, first.offset), (1, 3, 29));
        let (ended, rows) = counted(list, 3).await;
        let ListError::Fault { fault, line, .. } = ended.unwrap_err() else { panic!("a fault") };
        assert_eq!((fault, line, rows.records), (ListFault::TooManyRows, Some(5), 3));
    }

    /// Others run in between, whatever the list is made of.
    #[tokio::test]
    async fn a_list_of_blank_lines_does_not_keep_the_thread() {
        let blank = "\n".repeat(3 * BYTES_AT_ONCE);
        let counting = counted(&blank, 1);
        tokio::pin!(counting);
        let mut turns = 0;
        let (ended, rows) = loop {
            tokio::select! {
                biased;
                ended = &mut counting => break ended,
                () = std::future::ready(()) => turns += 1,
            }
        };
        assert!(ended.is_ok() && rows.records == 0);
        assert!(turns >= 2, "{turns}");
    }
}
