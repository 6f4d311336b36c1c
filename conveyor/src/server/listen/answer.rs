//! Requests on a connection: each from its complete head to the last piece of its answer.

use super::connection::Connection;
use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::Version;
use axum::response::Response;
use conveyor_domain::limits;
use futures::future::BoxFuture;
use http_body::{Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::time::Instant;
use tower::Service;

/// The application, as one connection sees it.
#[derive(Clone, Debug)]
pub struct Tracked {
    app: Router,
    connection: Arc<Connection>,
}

impl Tracked {
    pub fn new(app: Router, connection: Arc<Connection>) -> Tracked {
        Tracked { app, connection }
    }
}

impl<B> Service<Request<B>> for Tracked
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request<B>>::poll_ready(&mut self.app, cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let is_http2 = request.version() >= Version::HTTP_2;
        let number = self.connection.begin(is_http2);
        let answering = Answering { connection: self.connection.clone(), number };
        request.extensions_mut().insert(self.connection.peer.clone());
        let response = self.app.call(request);
        Box::pin(async move {
            let response = response.await?;
            answering.connection.gave(number, Some(Instant::now()));
            let (rest, end, is_cut) = (Bytes::new(), Bytes::new(), false);
            Ok(response.map(|body| Body::new(Answer { body, rest, end, is_cut, is_http2, answering })))
        })
    }
}

/// A request is being answered until this is dropped.
struct Answering {
    connection: Arc<Connection>,
    number: u64,
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.connection.end(self.number, Instant::now());
    }
}

/// The body of an answer, in pieces: the next is asked for when the one before is on its way, so that what nobody reads is
/// still being answered.
///
/// On HTTP/2 a piece is taken whole as soon as there is a byte of flow control for it, whatever its size. So what is long ends in
/// a piece of one byte, which is taken when all before it has gone.
struct Answer {
    body: Body,
    rest: Bytes,
    /// What comes after the rest, if that is not asked for in the same piece.
    end: Bytes,
    /// They are of something larger than a piece.
    is_cut: bool,
    is_http2: bool,
    answering: Answering,
}

impl Answer {
    fn next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            self.rest = std::mem::take(&mut self.end);
        }
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)).transpose()?.map(Frame::into_data) {
                Some(Ok(data)) => self.rest = data,
                Some(Err(trailers)) => return Poll::Ready(Some(Ok(trailers))),
                None => return Poll::Ready(None),
            }
            self.is_cut = self.rest.len() > limits::ANSWER_PIECE_BYTES;
            if self.is_http2 && self.rest.len() > limits::ANSWER_END_BYTES {
                self.end = self.rest.split_off(self.rest.len() - 1);
            }
        }
        let mut piece = self.rest.split_to(self.rest.len().min(limits::ANSWER_PIECE_BYTES));
        if self.is_cut && self.rest.is_empty() {
            // What is buffered after the place is given back must not keep the whole in memory.
            piece = Bytes::copy_from_slice(&piece);
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = self.next(cx);
        let Answering { connection, number } = &self.answering;
        // What is ready goes to the other end, which asks for the next when it has taken it.
        connection.gave(*number, frame.is_ready().then(Instant::now));
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.end.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (left, rest) = (self.body.size_hint(), (self.rest.len() + self.end.len()) as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(left.lower() + rest);
        if let Some(upper) = left.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}
