//! Objects whose pinned reads do as they are told.

use async_trait::async_trait;
use bytes::Bytes;
use conveyor_store::port::{Around, BlobKey, ByteStream, Over, OverBlobs};
use conveyor_store::{Backend, Error, Result};
use futures::StreamExt;
use futures::future::BoxFuture;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;

pub type Act = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;

pub enum Read {
    /// For ever.
    Hangs,
    Fails,
    /// Ends in an error after this many bytes.
    BreaksAfter(usize),
    /// Works, but something happens first.
    After(Act),
}

/// The next reads, in order; after them every read works.
struct Scripted {
    inner: Backend,
    reads: Mutex<VecDeque<Read>>,
    gated: Arc<Gated>,
}

/// Reads that wait.
pub struct Gated {
    objects: Vec<String>,
    /// Once it is closed, all of them work.
    pub gate: Semaphore,
    pub waiting: AtomicUsize,
}

pub fn scripted(backend: &Backend, reads: impl IntoIterator<Item = Read>) -> Backend {
    with(backend, Mutex::new(reads.into_iter().collect()), Vec::new()).1
}

/// Reads of these objects wait.
pub fn gated(backend: &Backend, objects: Vec<String>) -> (Arc<Gated>, Backend) {
    with(backend, Mutex::default(), objects)
}

fn with(backend: &Backend, reads: Mutex<VecDeque<Read>>, objects: Vec<String>) -> (Arc<Gated>, Backend) {
    let gated = Arc::new(Gated { objects, gate: Semaphore::new(0), waiting: AtomicUsize::new(0) });
    let scripted = Scripted { inner: backend.clone(), reads, gated: gated.clone() };
    (gated, Backend { blobs: Arc::new(Over(Arc::new(scripted))), ..backend.clone() })
}

fn outage() -> Error {
    Error::Unavailable("an outage".to_owned())
}

impl Around for Scripted {
    fn behind(&self) -> &Backend {
        &self.inner
    }
}

#[async_trait]
impl OverBlobs for Scripted {
    async fn read_pinned(&self, key: &BlobKey, etag: &str, offset: u64) -> Result<ByteStream> {
        if self.gated.objects.contains(&key.to_string()) {
            self.gated.waiting.fetch_add(1, Ordering::SeqCst);
            assert!(self.gated.gate.acquire().await.is_err(), "nobody adds to it");
        }
        let next = self.reads.lock().unwrap().pop_front();
        let stream = self.inner.blobs.read_pinned(key, etag, offset).await?;
        match next {
            None => Ok(stream),
            Some(Read::After(act)) => {
                act().await;
                Ok(stream)
            }
            Some(Read::Hangs) => std::future::pending().await,
            Some(Read::Fails) => Err(outage()),
            Some(Read::BreaksAfter(bytes)) => {
                let whole: Vec<Bytes> = stream.map(|piece| piece.unwrap()).collect().await;
                let kept = Bytes::copy_from_slice(&whole.concat()[..bytes]);
                Ok(futures::stream::iter([Ok(kept), Err(outage())]).boxed())
            }
        }
    }
}
