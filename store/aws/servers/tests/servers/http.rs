//! Plain HTTP, so that what is checked here depends on no SDK.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const ANSWER_WITHIN: Duration = Duration::from_secs(30);

pub struct Answer {
    pub status: u16,
    pub body: String,
}

/// A call of DynamoDB or SQS.
pub fn call(url: &str, service: &str, target: &str, body: &str) -> String {
    let headers = [
        ("Content-Type", "application/x-amz-json-1.0"),
        ("X-Amz-Target", target),
        ("X-Amz-Date", "20260101T000000Z"),
        ("Authorization", &authorization(service)),
    ];
    let answer = send(url, "POST", "/", &headers, body);
    assert_eq!(answer.status, 200, "{target}: {}", answer.body);
    answer.body
}

/// A call of S3.
pub fn s3(url: &str, method: &str, path: &str, body: &str) -> String {
    let headers = [("X-Amz-Date", "20260101T000000Z"), ("Authorization", &authorization("s3"))];
    let answer = send(url, method, path, &headers, body);
    assert_eq!(answer.status, 200, "{method} {path}: {}", answer.body);
    answer.body
}

pub fn send(url: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let address = address(url);
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(ANSWER_WITHIN)).unwrap();
    stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    Answer { status: head.split(' ').nth(1).unwrap().parse().unwrap(), body: body.to_owned() }
}

/// Whether anything accepts connections there.
pub fn listens(url: &str) -> bool {
    TcpStream::connect(address(url)).is_ok()
}

pub fn address(url: &str) -> SocketAddr {
    url.strip_prefix("http://").unwrap().parse().unwrap()
}

fn authorization(service: &str) -> String {
    let scope = format!("test/20260101/us-east-1/{service}/aws4_request");
    format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0")
}
