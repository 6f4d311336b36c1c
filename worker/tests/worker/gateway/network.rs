//! No answer, half an answer, or too much of one.

use crate::gateway::server::{Then, serve, serve_raw, status};
use crate::gateway::{RESULT_MAX_BYTES, body_of, failed, get, impatient, limits, stopped};
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use conveyor_domain::FailureClass;
use conveyor_outbound::address;
use conveyor_worker::gateway::direct::DirectGateway;
use conveyor_worker::gateway::http::HttpGateway;
use conveyor_worker::gateway::{Credential, Gateway, GatewayAnswer, GatewayLimits};
use futures::stream;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::timeout;

/// The same server as a gateway and as a target: both must cope with it alike.
async fn ask_both(address: SocketAddr, limits: GatewayLimits) -> [GatewayAnswer; 2] {
    let url = format!("http://{address}/");
    let gateway = HttpGateway::new(url.parse().unwrap(), limits, stopped()).unwrap();
    let direct = DirectGateway::new(limits, stopped(), address::any).unwrap();
    let mut request = get(url);
    request.credential = Some(Credential::new("forwarded-key-123"));
    // A timeout that comes far too late would give the same answer in the end.
    let both = async { [gateway.call(request.clone()).await, direct.call(request.clone()).await] };
    timeout(2 * limits.total_timeout + Duration::from_secs(60), both).await.unwrap()
}

async fn assert_fails(address: SocketAddr, limits: GatewayLimits, expected: (FailureClass, bool, u16, &str)) {
    for answer in ask_both(address, limits).await {
        let failure = failed(answer);
        assert_eq!(failure.key(), expected);
        let printed = format!("{failure:?}");
        assert!(!printed.contains("forwarded-key") && !printed.contains("http://"), "{printed}");
    }
}

const UNREACHABLE: (FailureClass, bool, u16, &str) =
    (FailureClass::GatewayError, true, 502, "gateway_unreachable");
const TIMED_OUT: (FailureClass, bool, u16, &str) = (FailureClass::Timeout, true, 504, "gateway_timeout");
const TOO_LARGE: (FailureClass, bool, u16, &str) = (FailureClass::BadTarget, false, 413, "result_too_large");

#[tokio::test]
async fn nobody_listens() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    assert_fails(address, limits(), UNREACHABLE).await;
}

#[tokio::test]
async fn the_name_of_the_gateway_does_not_resolve() {
    let url = format!("http://{}.invalid/", "a".repeat(64));
    let gateway = HttpGateway::new(url.parse().unwrap(), limits(), stopped()).unwrap();
    assert_eq!(failed(gateway.call(get("https://t.example/")).await).key(), UNREACHABLE);
}

#[tokio::test]
async fn hung_up_without_a_word() {
    assert_fails(serve_raw(b"", Then::Close).await, limits(), UNREACHABLE).await;
}

#[tokio::test]
async fn not_http() {
    assert_fails(serve_raw(b"220 mail ready\r\n", Then::Close).await, limits(), UNREACHABLE).await;
}

#[tokio::test]
async fn broken_off_within_a_body_of_known_length() {
    let address = serve_raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf a pa", Then::Close).await;
    assert_fails(address, limits(), UNREACHABLE).await;
}

#[tokio::test]
async fn broken_off_within_chunks() {
    let address =
        serve_raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", Then::Close).await;
    assert_fails(address, limits(), UNREACHABLE).await;
}

#[tokio::test]
async fn a_broken_error_body_still_has_its_status() {
    let address = serve_raw(b"HTTP/1.1 503 Busy\r\nContent-Length: 100\r\n\r\n{\"code\"", Then::Close).await;
    assert_fails(address, limits(), (FailureClass::GatewayError, true, 503, "http_503")).await;
}

#[tokio::test]
async fn never_answers() {
    assert_fails(serve_raw(b"", Then::HoldOpen).await, impatient(), TIMED_OUT).await;
}

#[tokio::test]
async fn stalls_within_the_body() {
    let address = serve_raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", Then::HoldOpen).await;
    assert_fails(address, impatient(), TIMED_OUT).await;
}

#[tokio::test]
async fn stalls_within_an_error_body() {
    let address = serve_raw(b"HTTP/1.1 500 No\r\nContent-Length: 100\r\n\r\nhalf", Then::HoldOpen).await;
    for answer in ask_both(address, impatient()).await {
        // A gateway's body is waited for, in case it is a problem; a target's is not read at all.
        assert!(["gateway_timeout", "http_500"].contains(&failed(answer).problem.code.as_str()));
    }
}

#[tokio::test]
async fn a_length_that_is_too_long_is_believed_at_once() {
    // The server sends nothing of it: a client that waited for the body would run into its timeout.
    let address = serve_raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n", Then::HoldOpen).await;
    assert_fails(address, limits(), TOO_LARGE).await;
}

fn chunks(total: usize) -> Response {
    let pieces =
        std::iter::repeat_n(b"0123456789".as_slice(), total / 10).chain([&b"0123456789"[..total % 10]]);
    let pieces: Vec<_> = pieces.map(|piece| Ok::<_, io::Error>(Bytes::from(piece))).collect();
    Body::from_stream(stream::iter(pieces)).into_response()
}

#[tokio::test]
async fn chunks_are_counted_as_they_come() {
    let server = serve(|_| chunks(RESULT_MAX_BYTES + 1)).await;
    assert_fails(server.address, limits(), TOO_LARGE).await;
    let server = serve(|_| chunks(RESULT_MAX_BYTES)).await;
    for answer in ask_both(server.address, limits()).await {
        let body = body_of(answer);
        assert_eq!(body.len(), RESULT_MAX_BYTES);
        assert!(body.ends_with("6789"));
    }
}

#[tokio::test]
async fn an_endless_body_ends() {
    let endless = |_: &_| {
        let pieces = stream::repeat_with(|| Ok::<_, io::Error>(Bytes::from_static(&[b'x'; 512])));
        Body::from_stream(pieces).into_response()
    };
    assert_fails(serve(endless).await.address, limits(), TOO_LARGE).await;
}

#[tokio::test]
async fn a_body_without_a_length_is_counted_too() {
    static LONG: &[u8] = &{
        let mut bytes = [b'x'; 2_019];
        let head = *b"HTTP/1.1 200 OK\r\n\r\n";
        let mut i = 0;
        while i < head.len() {
            bytes[i] = head[i];
            i += 1;
        }
        bytes
    };
    assert_fails(serve_raw(LONG, Then::Close).await, limits(), TOO_LARGE).await;
    let short = serve_raw(b"HTTP/1.1 200 OK\r\n\r\nuntil the end", Then::Close).await;
    for answer in ask_both(short, limits()).await {
        assert_eq!(body_of(answer), "until the end");
    }
}

#[tokio::test]
async fn one_byte_past_the_limit_in_one_piece() {
    let server = serve(|_| (status(200).status(), vec![b'x'; RESULT_MAX_BYTES]).into_response()).await;
    for answer in ask_both(server.address, limits()).await {
        assert_eq!(body_of(answer).len(), RESULT_MAX_BYTES);
    }
    let server = serve(|_| (status(200).status(), vec![b'x'; RESULT_MAX_BYTES + 1]).into_response()).await;
    assert_fails(server.address, limits(), TOO_LARGE).await;
}
