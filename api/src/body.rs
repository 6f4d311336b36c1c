//! Reading a request body: JSON, and never more of it than allowed.

use crate::incoming::{Incoming, slow};
use crate::problem::{ApiError, Code, Result};
use crate::shares::{Bodies, Room, in_flight};
use crate::state::Shared;
use crate::warnings::Warnings;
use axum::extract::{FromRequest, OptionalFromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use bytes::{Bytes, BytesMut};
use conveyor_domain::limits;
use std::sync::Arc;

/// A body, and its share of the room for bodies, until both are dropped.
#[derive(Debug)]
pub(crate) struct JsonBody {
    pub bytes: Bytes,
    pub room: Room,
}

/// A JSON body of a route whose only parameter is `strict`: at most `MAX` bytes, and no more than any body may have.
#[derive(Debug)]
pub(crate) struct Json<const MAX: usize = { limits::SUBMIT_REST_MAX_BYTES }> {
    pub warnings: Warnings,
    body: JsonBody,
}

/// One that may be as large as any body.
pub(crate) type LargeJson = Json<{ usize::MAX }>;

impl<const MAX: usize> Json<MAX> {
    pub fn parse<'a, T>(&'a self, parse: impl FnOnce(&'a [u8], &'a Warnings) -> Result<T>) -> Result<T> {
        parse(&self.body.bytes, &self.warnings)
    }
}

impl<const MAX: usize> FromRequest<Shared> for Json<MAX> {
    type Rejection = ApiError;

    async fn from_request(mut request: Request, state: &Shared) -> Result<Self> {
        let warnings = Warnings::alone(&mut request).await?;
        let body = read_json(request, MAX.min(state.config.max_body_bytes), &state.bodies).await?;
        Ok(Json { warnings, body })
    }
}

impl<const MAX: usize> OptionalFromRequest<Shared> for Json<MAX> {
    type Rejection = ApiError;

    async fn from_request(mut request: Request, state: &Shared) -> Result<Option<Self>> {
        let warnings = Warnings::alone(&mut request).await?;
        let max = MAX.min(state.config.max_body_bytes);
        let body = read_json_if_any(request, max, &state.bodies).await?;
        Ok(body.map(|body| Json { warnings, body }))
    }
}

/// The bytes of a JSON body of at most `max` bytes. Waits until there is room for it among its caller's others.
pub(crate) async fn read_json(request: Request, max: usize, bodies: &Arc<Bodies>) -> Result<JsonBody> {
    check_media_type(request.headers())?;
    // An honest client is told before it sends; what a dishonest one sends is counted below.
    let announced = announced_length(request.headers());
    if announced.is_some_and(|length| length > max as u64) {
        return Err(too_large(max));
    }
    let most = announced.and_then(|length| usize::try_from(length).ok()).unwrap_or(max);
    let who = in_flight::who(request.extensions());
    let until = bodies.until();
    let mut room = bodies.enter(who, most, until).await?;
    let body = Incoming::new(request.into_body(), announced, bodies.deadlines());
    let read = read(body, most, &mut room);
    let bytes = tokio::time::timeout_at(until, read).await.map_err(|_| slow())??;
    room.settle(bytes.len());
    Ok(JsonBody { bytes, room })
}

/// The same for a route that can do without a body.
pub(crate) async fn read_json_if_any(
    request: Request,
    max: usize,
    bodies: &Arc<Bodies>,
) -> Result<Option<JsonBody>> {
    use axum::body::HttpBody;
    if request.body().is_end_stream() || announced_length(request.headers()) == Some(0) {
        return Ok(None);
    }
    read_json(request, max, bodies).await.map(Some)
}

async fn read(mut body: Incoming, max: usize, room: &mut Room) -> Result<Bytes> {
    let mut bytes = BytesMut::new();
    while let Some(piece) = room.next(&mut body).await? {
        if piece.len() > max - bytes.len() {
            return Err(too_large(max));
        }
        bytes.extend_from_slice(&piece);
        room.grow_to(bytes.len()).await?;
    }
    Ok(bytes.freeze())
}

pub(crate) fn check_media_type(headers: &HeaderMap) -> Result<()> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let media_type = text(CONTENT_TYPE).and_then(|value| value.split(';').next()).map(str::trim);
    let refuse = |detail| Err(ApiError::new(Code::UnsupportedMediaType, detail));
    if media_type.is_some_and(|value| !value.eq_ignore_ascii_case("application/json")) {
        return refuse("`Content-Type` must be application/json.");
    }
    check_encoding(headers)
}

/// Bytes are taken as they are. A list may be compressed, but then that is how it is staged.
pub(crate) fn check_encoding(headers: &HeaderMap) -> Result<()> {
    let encoding = headers.get(CONTENT_ENCODING).map(|value| value.to_str().unwrap_or_default());
    match encoding {
        Some(value) if !value.eq_ignore_ascii_case("identity") => {
            Err(ApiError::new(Code::UnsupportedMediaType, "`Content-Encoding` is not supported."))
        }
        Some(_) | None => Ok(()),
    }
}

pub(crate) fn announced_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

pub(crate) fn too_large(max: usize) -> ApiError {
    ApiError::new(Code::BodyTooLarge, format!("The body is larger than {max} bytes."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shares::BodyDeadlines;
    use axum::body::Body;
    use axum::response::IntoResponse;

    async fn status(content_type: Option<&str>, length: Option<&str>, chunks: &[&'static str]) -> u16 {
        let mut request = Request::builder();
        if let Some(value) = content_type {
            request = request.header(CONTENT_TYPE, value);
        }
        if let Some(value) = length {
            request = request.header(CONTENT_LENGTH, value);
        }
        let chunks = chunks.iter().map(|c| Ok::<_, std::io::Error>(Bytes::from_static(c.as_bytes())));
        let body = Body::from_stream(futures::stream::iter(chunks.collect::<Vec<_>>()));
        match read_json(request.body(body).unwrap(), 8, &Arc::default()).await {
            Ok(_) => 200,
            Err(error) => error.into_response().status().as_u16(),
        }
    }

    const JSON: Option<&str> = Some("application/json");

    #[tokio::test]
    async fn the_limit_holds_whatever_the_length_header_says() {
        assert_eq!(status(JSON, None, &["1234", "5678"]).await, 200);
        assert_eq!(status(JSON, None, &["1234", "56789"]).await, 413, "no length");
        assert_eq!(status(JSON, Some("2"), &["1234", "56789"]).await, 413, "a lie");
        assert_eq!(status(JSON, Some("9"), &[]).await, 413, "the truth, before the body is read");
        assert_eq!(status(JSON, Some("x"), &["12345678", "", "9"]).await, 413);
    }

    #[tokio::test]
    async fn only_json_is_read() {
        for good in ["application/json", "Application/JSON; charset=utf-8"] {
            assert_eq!(status(Some(good), None, &["{}"]).await, 200, "{good}");
        }
        for bad in ["text/json", "application/jsonx", "", "text/plain; application/json"] {
            assert_eq!(status(Some(bad), None, &["{}"]).await, 415, "{bad}");
        }
        assert_eq!(status(None, None, &["{}"]).await, 200, "a client that does not say what it sends");
    }

    #[tokio::test]
    async fn a_compressed_body_is_not_mistaken_for_json() {
        let with = |encoding: &str| {
            let request = Request::builder().header(CONTENT_TYPE, "application/json");
            request.header(CONTENT_ENCODING, encoding).body(Body::from("{}")).unwrap()
        };
        let bodies = Arc::default();
        assert!(read_json(with("gzip"), 8, &bodies).await.is_err());
        assert!(read_json(with("identity"), 8, &bodies).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_waits_for_room_of_its_caller_and_gives_it_back() {
        let request = || {
            let json = Request::builder().header(CONTENT_TYPE, "application/json");
            json.body(Body::from("{}")).unwrap()
        };
        let bodies = Arc::new(Bodies::new(limits::MIB, limits::KIB, BodyDeadlines::default()));
        let first = read_json(request(), 8, &bodies).await.unwrap();
        let second = read_json(request(), 8, &bodies).await.unwrap_err();
        assert_eq!(
            second.into_response().status(),
            429,
            "no room came free in time: not for how its body arrives"
        );
        drop(first);
        assert!(read_json(request(), 8, &bodies).await.is_ok());
    }
}
