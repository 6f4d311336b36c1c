//! A body as it arrives, for what is too large to be held.

use crate::idempotency::Intent;
use crate::problem::{ApiError, Code, Result};
use crate::shares::BodyDeadlines;
use axum::body::{Body, BodyDataStream};
use bytes::Bytes;
use conveyor_store::Error;
use conveyor_store::port::ByteStream;
use futures::{Stream, StreamExt, stream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// A body, piece by piece, up to a limit. It may take as long as its size needs, but not pause for too long, nor arrive
/// too slowly (SPEC 6.27).
#[derive(Debug)]
pub(crate) struct Incoming {
    body: BodyDataStream,
    announced: Option<u64>,
    deadlines: BodyDeadlines,
    received: u64,
    /// Since the first piece was asked for.
    begun: Option<Instant>,
    /// What it is a repeat of, if it is one, shows only in all of it.
    intent: Option<Intent>,
}

impl Incoming {
    pub fn new(body: Body, announced: Option<u64>, deadlines: BodyDeadlines) -> Incoming {
        let body = body.into_data_stream();
        Incoming { body, announced, deadlines, received: 0, begun: None, intent: None }
    }

    /// Lets what arrives pass by this.
    #[must_use]
    pub fn passing(mut self, intent: Option<Intent>) -> Incoming {
        self.intent = intent;
        self
    }

    /// What has passed by it.
    pub fn passed(self) -> Option<Intent> {
        self.intent
    }

    pub fn received(&self) -> u64 {
        self.received
    }

    /// The next piece; `None` at the end of a body that was not broken off.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        let now = Instant::now();
        let begun = *self.begun.get_or_insert(now);
        let until = (now + self.deadlines.timeout).min(begun + self.may_take());
        match tokio::time::timeout_at(until, self.body.next()).await.map_err(|_| slow())? {
            Some(Ok(piece)) => {
                self.received += piece.len() as u64;
                if let Some(intent) = &mut self.intent {
                    intent.pass(&piece);
                }
                if begun.elapsed() > self.may_take() { Err(slow()) } else { Ok(Some(piece)) }
            }
            None if self.announced.is_none_or(|announced| announced == self.received) => Ok(None),
            None | Some(Err(_)) => Err(ApiError::invalid("The body ended before it was complete.")),
        }
    }

    /// How long what was received so far may have taken.
    fn may_take(&self) -> Duration {
        Duration::from_secs(self.received / self.deadlines.rate_min_bytes).max(self.deadlines.grace)
    }

    /// What is left of it, as long as the whole has at most `max` bytes.
    pub fn up_to(
        self,
        max: u64,
        too_large: impl Fn() -> ApiError + Send + 'static,
    ) -> impl Stream<Item = Result<Bytes>> + Send + 'static {
        stream::try_unfold((self, too_large), move |(mut body, too_large)| async move {
            let piece = body.next().await?;
            if body.received > max {
                return Err(too_large());
            }
            Ok(piece.map(|piece| (piece, (body, too_large))))
        })
    }
}

pub(crate) fn slow() -> ApiError {
    ApiError::new(Code::RequestTimeout, "The body did not arrive in time.")
}

/// What a caller did wrong while its bytes were on their way to a store.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallersFault(Arc<Mutex<Option<ApiError>>>);

impl CallersFault {
    fn set(&self, error: ApiError) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    /// Why the write failed: the caller's fault, if there was one, otherwise the store's.
    pub fn or(&self, error: Error) -> ApiError {
        let fault = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        fault.unwrap_or_else(|| error.into())
    }
}

/// Bytes as a store takes them. A store knows only errors of its own, so that of the caller is put aside.
pub(crate) fn for_store(
    pieces: impl Stream<Item = Result<Bytes>> + Send + 'static,
) -> (ByteStream, CallersFault) {
    let fault = CallersFault::default();
    let aside = fault.clone();
    let stream = pieces.map(move |piece| {
        piece.map_err(|error| {
            aside.set(error);
            Error::Unavailable("the body failed".to_owned())
        })
    });
    (stream.boxed(), fault)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::response::IntoResponse;
    use conveyor_domain::limits;
    use std::io;

    fn body(pieces: Vec<io::Result<&'static str>>) -> Body {
        Body::from_stream(stream::iter(pieces.into_iter().map(|piece| piece.map(Bytes::from))))
    }

    fn incoming(body: Body, announced: Option<u64>) -> Incoming {
        Incoming::new(body, announced, BodyDeadlines::default())
    }

    async fn refused(mut incoming: Incoming) -> u16 {
        loop {
            match incoming.next().await {
                Ok(Some(_)) => {}
                Ok(None) => return 200,
                Err(error) => return error.into_response().status().as_u16(),
            }
        }
    }

    /// A hundred pieces, one every third of the grace, and then nothing.
    fn slowly(piece: Vec<u8>) -> Incoming {
        let piece = Bytes::from(piece);
        let pieces = stream::iter(0..100).then(move |_| {
            let piece = piece.clone();
            async move {
                tokio::time::sleep(limits::BODY_GRACE / 3).await;
                Ok::<_, io::Error>(piece)
            }
        });
        incoming(Body::from_stream(pieces.chain(stream::pending())), None)
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_may_be_long_but_must_come() {
        let enough = limits::BODY_RATE_MIN_BYTES * limits::BODY_GRACE.as_secs() * 2 / 3;
        let mut incoming = slowly(vec![b'x'; enough as usize]);
        for received in 1..=100 {
            assert!(incoming.next().await.unwrap().is_some());
            assert_eq!(incoming.received(), received * enough);
        }
        let begun = Instant::now();
        assert_eq!(refused(incoming).await, 408, "nothing more comes");
        assert!(begun.elapsed() <= limits::BODY_TIMEOUT);
        for (piece, what) in
            [(vec![b'x'], "a byte now and then is not enough"), (Vec::new(), "nor is nothing")]
        {
            let begun = Instant::now();
            assert_eq!(refused(slowly(piece)).await, 408, "{what}");
            assert!(begun.elapsed() <= 2 * limits::BODY_GRACE);
        }
    }

    #[tokio::test]
    async fn a_body_that_is_not_whole_is_told_from_one_that_is() {
        let whole = || body(vec![Ok("abc"), Ok("de")]);
        assert_eq!(refused(incoming(whole(), None)).await, 200);
        assert_eq!(refused(incoming(whole(), Some(5))).await, 200);
        assert_eq!(refused(incoming(whole(), Some(6))).await, 400);
        let reset = body(vec![Ok("abc"), Err(io::Error::other("reset"))]);
        assert_eq!(refused(incoming(reset, None)).await, 400);
    }

    #[tokio::test]
    async fn the_callers_fault_is_told_from_the_stores() {
        let pieces = incoming(body(vec![Ok("abc"), Ok("de")]), None).up_to(4, slow);
        let (mut stream, fault) = for_store(pieces);
        assert!(stream.next().await.unwrap().is_ok());
        let seen = stream.next().await.unwrap().unwrap_err();
        assert_eq!(fault.or(seen).into_response().status(), 408, "the caller's");
        assert_eq!(fault.or(Error::Full("disk".into())).into_response().status(), 507, "the store's");
    }
}
