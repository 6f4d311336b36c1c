//! A backend behind the [`Weather`]: every operation of every port passes through it. In calm weather it is the backend.

use crate::faults::Weather;
use crate::gate::Gate;
use async_trait::async_trait;
use conveyor_domain::ingest::Entry;
use conveyor_domain::{Record, RecordKey, RecordKind, Timestamp};
use conveyor_store::port::{
    Appended, Around, BlobKey, ByteStream, Chunk, Over, OverBlobs, OverCoordinator, OverDeadLetterStore,
    OverEventStore, OverIngestStore, OverJobStore, OverKeyStore, OverProofStore, OverQueue, OverRecordStore,
    OverRetention, OverTaskStore, OverUploadStore, RunKey,
};
use conveyor_store::{Backend, Result};
use std::sync::Arc;

#[derive(Debug)]
struct Flaky {
    inner: Backend,
    weather: Arc<Weather>,
    gate: Option<Arc<Gate>>,
}

/// The backend as its users have it in this weather.
pub fn flaky(inner: Backend, weather: Arc<Weather>) -> Backend {
    outside(Flaky { inner, weather, gate: None })
}

/// The same, for code that does not wait for its turn by itself.
pub fn gated(inner: Backend, weather: Arc<Weather>, gate: Arc<Gate>) -> Backend {
    outside(Flaky { inner, weather, gate: Some(gate) })
}

fn outside(flaky: Flaky) -> Backend {
    let inner = flaky.inner.clone();
    let outside = Arc::new(Over(Arc::new(flaky)));
    Backend {
        store: outside.clone(),
        queue: outside.clone(),
        blobs: outside.clone(),
        coordinator: outside,
        ..inner
    }
}

impl Around for Flaky {
    fn behind(&self) -> &Backend {
        &self.inner
    }

    async fn around<T: Send>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        if let Some(gate) = &self.gate {
            gate.pass().await;
        }
        self.weather.pass(operation, call).await
    }
}

impl OverJobStore for Flaky {}
impl OverTaskStore for Flaky {}
impl OverEventStore for Flaky {}
impl OverKeyStore for Flaky {}
impl OverUploadStore for Flaky {}
impl OverRetention for Flaky {}
impl OverProofStore for Flaky {}
impl OverDeadLetterStore for Flaky {}
impl OverQueue for Flaky {}
impl OverCoordinator for Flaky {}

#[async_trait]
impl OverIngestStore for Flaky {
    async fn commit_chunk(&self, key: RunKey, chunk: Chunk, now: Timestamp) -> Result<Appended> {
        let call = self.inner.store.commit_chunk(key, chunk, now);
        Ok(self.weather.saw(self.around("commit_chunk", call).await?))
    }

    async fn append(&self, key: RunKey, entry: Entry, now: Timestamp) -> Result<Appended> {
        let call = self.inner.store.append(key, entry, now);
        Ok(self.weather.saw(self.around("append", call).await?))
    }
}

#[async_trait]
impl OverRecordStore for Flaky {
    async fn record(&self, key: &RecordKey) -> Result<Option<Record>> {
        let call = self.inner.store.record(key);
        // Every removal asks for the time that it goes by. No sweeper of a simulation writes that down: nothing can go wrong.
        if key.kind == RecordKind::Clock { call.await } else { self.around("record", call).await }
    }
}

#[async_trait]
impl OverBlobs for Flaky {
    async fn read_pinned(&self, key: &BlobKey, etag: &str, offset: u64) -> Result<ByteStream> {
        let stream = self.around("read_pinned", self.inner.blobs.read_pinned(key, etag, offset)).await;
        let stream = stream.map(|stream| self.weather.on_the_way(stream));
        self.weather.was_read();
        stream
    }
}
