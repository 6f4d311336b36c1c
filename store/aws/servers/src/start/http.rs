//! As much HTTP as it takes to ask a server on loopback whether it is ready.

use crate::servers::Service;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The first question makes some servers load what they need for the answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
const ANSWER_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug)]
pub struct Request {
    head: String,
    body: String,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// All of it, for an error message.
    pub text: String,
}

impl Request {
    pub fn get(service: Service, path: &str) -> Request {
        Request { head: format!("GET {path} HTTP/1.1\r\n{}", authorization(service)), body: String::new() }
    }

    /// A call in Amazon's JSON protocol.
    pub fn json(service: Service, version: &str, target: &str, body: &str) -> Request {
        let head = format!(
            "POST / HTTP/1.1\r\n{}Content-Type: application/x-amz-json-{version}\r\nX-Amz-Target: {target}\r\n",
            authorization(service)
        );
        Request { head, body: body.to_owned() }
    }

    pub fn ask(&self, address: SocketAddr) -> io::Result<Answer> {
        let mut stream = TcpStream::connect_timeout(&address, ANSWER_WITHIN)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.set_write_timeout(Some(ANSWER_WITHIN))?;
        let Request { head, body } = self;
        let length = body.len();
        let text =
            format!("{head}Host: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(text.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
        let status = status(&answer).ok_or_else(|| io::Error::other("this is not an HTTP answer"))?;
        Ok(Answer { status, text: String::from_utf8_lossy(&answer).into_owned() })
    }
}

/// Who asks is not checked; which service is asked is read from here.
fn authorization(service: Service) -> String {
    let scope = format!("test/20260101/us-east-1/{}/aws4_request", service.name());
    let authorization = format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0");
    format!("Authorization: {authorization}\r\nX-Amz-Date: 20260101T000000Z\r\n")
}

fn status(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    words.next()?.strip_prefix("HTTP/1.")?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_and_nothing_else_is_one() {
        assert_eq!(status(b"HTTP/1.1 200 OK\r\nDate: x\r\n\r\n{}"), Some(200));
        assert_eq!(status(b"HTTP/1.0 503\r\n\r\n"), Some(503));
        assert_eq!(status(b"SSH-2.0-OpenSSH_9.2\r\n"), None);
        assert_eq!(status(b""), None);
    }
}
