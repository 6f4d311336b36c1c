//! The bytes of a request, counted as they leave.

use super::super::failure::Failure;
use super::super::http::{Api, Attempt, SILENCE_MAX, Signed};
use futures::{Stream, StreamExt, future, stream};
use indicatif::ProgressBar;
use reqwest::Body;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::AsyncRead;
use tokio_util::io::ReaderStream;

/// Large enough that reading does not slow the sending down.
const PIECE_BYTES: usize = 256 * 1024;

/// What became of one body so far.
#[derive(Clone, Debug)]
pub struct Meter {
    bar: ProgressBar,
    seen: Arc<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    sent: AtomicU64,
    /// The source failed, not the connection.
    broken: Mutex<Option<io::Error>>,
}

impl Meter {
    pub fn new(bar: &ProgressBar) -> Meter {
        Meter { bar: bar.clone(), seen: Arc::default() }
    }

    /// Sends the bytes of a reader. Another number of them is an error, and so is a server that does not take them.
    pub async fn send(
        &self,
        api: &Api,
        to: &Signed,
        name: &str,
        reader: impl AsyncRead + Send + 'static,
        bytes: u64,
    ) -> Result<(), Attempt> {
        let pieces = ReaderStream::with_capacity(reader, PIECE_BYTES);
        let body = Body::wrap_stream(self.counted(pieces, bytes));
        let outcome = tokio::select! {
            outcome = api.put(to, body, bytes) => outcome,
            () = self.stall() => Err(Attempt::Retry(api.takes_nothing(to), None)),
        };
        if outcome.is_err() {
            // It will have to be sent again.
            self.bar.dec(self.sent());
        }
        match self.broken().take() {
            Some(error) if outcome.is_err() => Err(Failure::unreadable(name, error.into()).into()),
            Some(_) | None => outcome,
        }
    }

    fn counted<B, S>(&self, pieces: S, bytes: u64) -> impl Stream<Item = io::Result<B>> + use<B, S>
    where
        B: AsRef<[u8]>,
        S: Stream<Item = io::Result<B>>,
    {
        let (meter, at_end) = (self.clone(), self.clone());
        let check = stream::once(future::lazy(move |_| {
            (bytes != at_end.sent()).then(|| Err(io::Error::other("its size has changed")))
        }));
        pieces.chain(check.filter_map(future::ready)).inspect(move |piece| match piece {
            Ok(piece) => meter.count(piece.as_ref().len() as u64),
            Err(e) => *meter.broken() = Some(io::Error::new(e.kind(), e.to_string())),
        })
    }

    fn sent(&self) -> u64 {
        self.seen.sent.load(Ordering::Relaxed)
    }

    fn broken(&self) -> std::sync::MutexGuard<'_, Option<io::Error>> {
        self.seen.broken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, bytes: u64) {
        self.seen.sent.fetch_add(bytes, Ordering::Relaxed);
        self.bar.inc(bytes);
    }

    /// Ends once nothing has left for as long as a server may be silent.
    async fn stall(&self) {
        let mut before = None;
        while before != Some(self.sent()) {
            before = Some(self.sent());
            tokio::time::sleep(SILENCE_MAX).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::TryStreamExt;

    async fn counted(bytes: &'static [u8], expected: u64) -> (io::Result<Vec<Vec<u8>>>, u64) {
        let meter = Meter::new(&ProgressBar::hidden());
        let pieces = stream::iter(bytes.chunks(2).map(|piece| Ok(piece.to_vec())));
        let sent = meter.counted(pieces, expected).try_collect().await;
        (sent, meter.sent())
    }

    #[tokio::test]
    async fn a_source_that_changed_its_size_is_not_sent_as_if_it_were_whole() {
        let (sent, bytes) = counted(b"abc", 3).await;
        assert_eq!((sent.unwrap(), bytes), (vec![b"ab".to_vec(), b"c".to_vec()], 3));
        assert_eq!(counted(b"abc", 4).await.0.unwrap_err().to_string(), "its size has changed");
    }
}
