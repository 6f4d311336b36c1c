//! Objects that count what is in memory, wait at a gate, or fail; otherwise those of the store.

use async_trait::async_trait;
use bytes::Bytes;
use conveyor_store::port::{Around, BlobKey, ByteStream, Over, OverBlobs, Stored};
use conveyor_store::{Backend, Error, Result};
use futures::StreamExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;

/// Something that goes up and down, and how high it has been.
#[derive(Debug, Default)]
pub struct Level {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Level {
    fn rise(&self, by: usize) {
        let now = self.now.fetch_add(by, Ordering::SeqCst) + by;
        self.most.fetch_max(now, Ordering::SeqCst);
    }

    fn fall(&self, by: usize) {
        self.now.fetch_sub(by, Ordering::SeqCst);
    }

    pub fn now(&self) -> usize {
        self.now.load(Ordering::SeqCst)
    }

    pub fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

pub struct Watched {
    inner: Backend,
    /// Bytes that were read and are still held by anybody.
    pub bytes: Arc<Level>,
    pub reads: Level,
    /// How many pieces of an object may still pass; once closed, all do.
    pub gate: Semaphore,
    /// Pieces that came to it.
    pub came: AtomicUsize,
    /// Objects that do not wait at it: those whose keys contain any of these.
    pub free: Mutex<Vec<String>>,
    pub fails: AtomicBool,
}

impl Watched {
    pub fn over(backend: &Backend) -> (Arc<Watched>, Backend) {
        let watched = Arc::new(Watched {
            inner: backend.clone(),
            bytes: Arc::default(),
            reads: Level::default(),
            gate: Semaphore::new(0),
            came: AtomicUsize::new(0),
            free: Mutex::default(),
            fails: AtomicBool::new(false),
        });
        let backend = Backend { blobs: Arc::new(Over(watched.clone())), ..backend.clone() };
        (watched, backend)
    }
}

/// Bytes that say when they are dropped.
struct Counted(Bytes, Arc<Level>);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fall(self.0.len());
    }
}

impl Around for Watched {
    fn behind(&self) -> &Backend {
        &self.inner
    }
}

#[async_trait]
impl OverBlobs for Watched {
    async fn get(&self, key: &BlobKey, offset: u64, length: u64) -> Result<Bytes> {
        self.reads.rise(1);
        self.bytes.rise(length as usize);
        let body = self.inner.blobs.get(key, offset, length).await;
        self.reads.fall(1);
        Ok(Bytes::from_owner(Counted(body?, self.bytes.clone())))
    }

    async fn put_stream(&self, key: &BlobKey, body: ByteStream) -> Result<Stored> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(Error::Unavailable("as the test wants it".to_owned()));
        }
        futures::pin_mut!(body);
        let (mut to, from) = futures::channel::mpsc::channel(0);
        let pass = async {
            while let Some(piece) = body.next().await {
                let is_free = self.free.lock().unwrap().iter().any(|free| key.as_str().contains(free));
                self.came.fetch_add(usize::from(!is_free), Ordering::SeqCst);
                if !is_free && let Ok(permit) = self.gate.acquire().await {
                    permit.forget();
                }
                if futures::SinkExt::send(&mut to, piece).await.is_err() {
                    break;
                }
            }
            drop(to);
        };
        futures::join!(pass, self.inner.blobs.put_stream(key, from.boxed())).1
    }
}
