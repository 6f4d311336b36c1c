//! What passes is not touched.

use crate::proxy::support::{Proxy, Upstream, serve};
use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use conveyor_testkit::DEADLINE;
use futures::StreamExt;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

#[tokio::test]
async fn path_query_host_headers_and_body_arrive_as_they_were_sent() {
    let answer = |_: &_| (StatusCode::CREATED, [("x-amz-request-id", "R"), ("etag", "\"e\"")], "made");
    let (upstream, url) = Upstream::start(answer).await;
    let proxy = Proxy::start(&url, "s3", &[]);
    // Whatever a URL library would have tidied up.
    let target = "/bucket/a%2Fb%20c//d/../e+~?X-Amz-Signature=ab%2B%2f&x=&y&X-Amz-Expires=60";
    let request = format!(
        "PUT {target} HTTP/1.1\r\nHost: signed.example:81\r\nX-Amz-Content-Sha256: UNSIGNED-PAYLOAD\r\n\
         authorization: AWS4-HMAC-SHA256 a, b\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
    );
    let mut stream = TcpStream::connect(proxy.url.socket_addrs(|| None).unwrap()[0]).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 Created\r\n") && answer.ends_with("\r\n\r\nmade"), "{answer}");
    assert!(answer.contains("x-amz-request-id: R\r\n") && answer.contains("etag: \"e\"\r\n"), "{answer}");

    let asked = &upstream.asked()[0];
    assert_eq!((asked.method.as_str(), asked.path_and_query.as_str()), ("PUT", target));
    assert_eq!(asked.headers["host"], "signed.example:81");
    assert_eq!(asked.body, "hello");
    assert_eq!(asked.headers["x-amz-content-sha256"], "UNSIGNED-PAYLOAD");
    assert_eq!(asked.headers["authorization"], "AWS4-HMAC-SHA256 a, b");
    assert_eq!(asked.headers["content-length"], "5");
    assert!(!asked.headers.contains_key("connection"));
    let stats = json!({ "calls": { "PutObject": 1 }, "faults": {}, "forwarded": 1, "upstream_failed": 0 });
    assert_eq!(proxy.stats().await, stats);
}

#[tokio::test]
async fn bodies_are_passed_on_piece_by_piece() {
    let echo = async |body: Body| body;
    let proxy = Proxy::start(&serve(Router::new().fallback(echo)).await, "s3", &[]);
    let (pieces, sent) = mpsc::channel::<Result<&'static str, std::io::Error>>(1);
    let body = reqwest::Body::wrap_stream(futures::stream::unfold(sent, async |mut sent| {
        let piece = sent.recv().await?;
        Some((piece, sent))
    }));
    let request = proxy.client.put(proxy.url.join("/b/k").unwrap()).body(body);
    let answered = tokio::spawn(request.send());
    pieces.send(Ok("first")).await.unwrap();
    // The answer begins, and comes back with what was sent, before the request has ended.
    let answer = timeout(DEADLINE, answered).await.unwrap().unwrap().unwrap();
    let mut answer = answer.bytes_stream();
    assert_eq!(answer.next().await.unwrap().unwrap(), "first");
    pieces.send(Ok("second")).await.unwrap();
    assert_eq!(answer.next().await.unwrap().unwrap(), "second");
    drop(pieces);
    assert!(answer.next().await.is_none());
}

#[tokio::test]
async fn a_large_body_passes_and_a_head_has_none() {
    let (upstream, url) = Upstream::start(|asked| vec![7_u8; asked.body.len().max(9)]).await;
    let proxy = Proxy::start(&url, "s3", &[]);
    let object = proxy.url.join("/b/k").unwrap();
    let put = proxy.client.put(object.clone()).body(vec![7_u8; 20_000_000]).send().await.unwrap();
    assert_eq!(put.bytes().await.unwrap().len(), 20_000_000);
    let head = proxy.client.head(object).send().await.unwrap();
    assert_eq!(head.headers()["content-length"], "9");
    assert_eq!(upstream.asked().len(), 2);
    assert_eq!(proxy.stats().await["calls"], json!({ "PutObject": 1, "HeadObject": 1 }));
}
