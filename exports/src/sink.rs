//! Where the bytes of an export go: one piece at a time, so that whoever makes them waits for whoever writes them.

use crate::meter::Meter;
use crate::trouble::Trouble;
use bytes::Bytes;
use conveyor_store::port::ByteStream;
use conveyor_store::{Error, Result};
use futures::channel::mpsc::{Sender, channel};
use futures::{SinkExt, StreamExt, sink};
use std::io;
use std::sync::Arc;
use tokio::io::AsyncWrite;
use tokio_util::io::{CopyToBytes, SinkWriter};

#[derive(Debug)]
pub(crate) struct Sink {
    to: Sender<Result<Bytes>>,
    meter: Arc<Meter>,
}

/// A sink, and the stream of what is put into it.
pub(crate) fn pipe(meter: Arc<Meter>) -> (Sink, ByteStream) {
    let (to, from) = channel(0);
    (Sink { to, meter }, from.boxed())
}

impl Sink {
    /// Done once it was taken.
    pub async fn put(&mut self, piece: impl Into<Bytes>) -> std::result::Result<(), Trouble> {
        let piece = piece.into();
        if piece.is_empty() {
            return Ok(());
        }
        self.meter.add_bytes(piece.len());
        self.to.send(Ok(piece)).await.map_err(|_| Trouble::Refused)
    }

    /// The same for what writes bytes as they come.
    pub fn writer(&mut self) -> impl AsyncWrite + Unpin + Send {
        let pieces = sink::unfold(self, async move |sink: &mut Sink, piece: Bytes| {
            sink.put(piece).await.map_err(io::Error::other)?;
            Ok::<_, io::Error>(sink)
        });
        SinkWriter::new(CopyToBytes::new(Box::pin(pieces)))
    }

    /// Ends the stream in an error: half a file must not be taken for one.
    pub async fn break_off(mut self) {
        let _ = self.to.send(Err(Error::Unavailable("the export was broken off".to_owned()))).await;
    }
}
