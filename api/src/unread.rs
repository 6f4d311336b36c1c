//! What a handler did not read of a request's body.
//!
//! An answer can be ready before the body was read: a wrong key, an unknown path. HTTP/1 then has to close the
//! connection, and a client that was not told sends its next request into a socket that is gone. So a short rest is read
//! and thrown away, and with a long one the client is told that the connection ends.

use axum::body::{Body, BodyDataStream, HttpBody};
use axum::extract::Request;
use axum::http::header::{CONNECTION, EXPECT};
use axum::http::{HeaderValue, Version};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use conveyor_domain::limits;
use futures::{Stream, StreamExt};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::oneshot;

pub(crate) async fn discard(request: Request, next: Next) -> Response {
    if request.version() >= Version::HTTP_2 || request.body().is_end_stream() {
        return next.run(request).await;
    }
    // Such a client sends its body only if we begin to read: better not at all.
    let waits = request.headers().contains_key(EXPECT);
    let (back, unread) = oneshot::channel();
    let lend = |body: Body| Lent { body: Some(body.into_data_stream()), back: Some(back) };
    let mut response = next.run(request.map(|body| Body::from_stream(lend(body)))).await;
    let mut unread = unread;
    if let Ok(rest) = unread.try_recv()
        && (waits || !read_to_end(rest).await)
    {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn read_to_end(mut rest: BodyDataStream) -> bool {
    let work = async {
        let mut left = limits::UNREAD_MAX_BYTES;
        while let Some(chunk) = rest.next().await {
            match chunk.map(|chunk| left.checked_sub(chunk.len())) {
                Ok(Some(less)) => left = less,
                Ok(None) | Err(_) => return false,
            }
        }
        true
    };
    tokio::time::timeout(limits::UNREAD_TIMEOUT, work).await.unwrap_or(false)
}

/// A body that comes back if it is dropped before its end.
struct Lent {
    body: Option<BodyDataStream>,
    back: Option<oneshot::Sender<BodyDataStream>>,
}

impl Stream for Lent {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let next = ready!(body.poll_next_unpin(cx));
        if !matches!(next, Some(Ok(_))) {
            self.body = None;
        }
        Poll::Ready(next)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.body.as_ref().map_or((0, Some(0)), Stream::size_hint)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let (Some(body), Some(back)) = (self.body.take(), self.back.take()) {
            // Nobody waits for it any more: then the connection is gone as well.
            drop(back.send(body));
        }
    }
}
