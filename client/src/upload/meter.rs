//! The bytes of a request, counted as they leave.

use super::{Moved, Progress};
use crate::Error;
use crate::client::{Client, SILENCE_MAX, is_transient};
use conveyor_wire::UploadTarget;
use futures::{Stream, StreamExt, future, stream};
use reqwest::header::CONTENT_LENGTH;
use reqwest::{Body, Method, StatusCode};
use std::io;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::AsyncRead;
use tokio_util::io::ReaderStream;
use url::Url;

/// Large enough that reading does not slow the sending down.
const PIECE_BYTES: usize = 256 * 1024;

/// What became of one body so far.
#[derive(Clone)]
pub struct Meter {
    progress: Progress,
    seen: Arc<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    sent: AtomicU64,
    /// The source failed, not the connection.
    broken: Mutex<Option<io::Error>>,
}

impl Meter {
    pub fn new(progress: &Progress) -> Meter {
        Meter { progress: Arc::clone(progress), seen: Arc::default() }
    }

    /// Sends the bytes of a reader. Another number of them is an error, and so is a server that does not take them.
    pub async fn send(
        &self,
        client: &Client,
        to: &UploadTarget,
        name: &str,
        reader: impl AsyncRead + Send + 'static,
        bytes: u64,
    ) -> Result<(), Error> {
        let url = client.server().join(&to.url);
        let url = url.map_err(|e| Error::NotUnderstood(format!("the upload's request: {e}")))?;
        let pieces = ReaderStream::with_capacity(reader, PIECE_BYTES);
        let body = Body::wrap_stream(self.counted(pieces, bytes));
        let outcome = tokio::select! {
            outcome = put(client, to, url.clone(), body, bytes) => outcome,
            () = self.stall() => Err(Error::Unreachable {
                server: client.shown(Some(&url)),
                reason: format!("it took nothing for {} s", SILENCE_MAX.as_secs()),
                can_retry: true,
            }),
        };
        if outcome.is_err() {
            // It will have to be sent again.
            (self.progress)(Moved::Lost(self.sent()));
        }
        match self.broken().take() {
            Some(source) if outcome.is_err() => Err(Error::Unreadable { name: name.to_owned(), source }),
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
        (self.progress)(Moved::Sent(bytes));
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

/// Sends bytes to where a slot says. The URL is its own permission and may lead elsewhere, so the key stays here.
async fn put(client: &Client, to: &UploadTarget, url: Url, body: Body, bytes: u64) -> Result<(), Error> {
    let method = Method::from_str(&to.method);
    let method = method.map_err(|e| Error::NotUnderstood(format!("the upload's request: {e}")))?;
    let mut request = client.uploading(method, url).body(body);
    for (name, value) in &to.headers {
        request = request.header(name, value);
    }
    // Without it the body would be sent in chunks, which presigned URLs do not take.
    request = request.header(CONTENT_LENGTH, bytes);
    // The same bytes in the same place do no harm, so that even a defect of the storage is worth another try.
    let passes = |status| is_transient(status) || status == StatusCode::INTERNAL_SERVER_ERROR;
    client.send_while(request, passes).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::TryStreamExt;

    async fn counted(bytes: &'static [u8], expected: u64) -> (io::Result<Vec<Vec<u8>>>, u64) {
        let meter = Meter::new(&(Arc::new(|_| {}) as Progress));
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
