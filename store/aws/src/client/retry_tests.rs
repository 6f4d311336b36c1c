use super::*;
use aws_sdk_dynamodb::config::retry::RetryMode;
use aws_sdk_dynamodb::config::{Credentials, Region};
use aws_sdk_dynamodb::types::AttributeValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const THROTTLED: &str = "throttled";
const FAILS_ONCE: &str = "fails-once";

/// A request, head and body.
async fn request(socket: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        if body.len() >= length.unwrap_or(0) {
            return Some(text.into_owned());
        }
    }
}

/// Throttles each call that names one row, and fails the first one that names another.
async fn serve(listener: TcpListener) {
    let mut has_failed = false;
    while let Ok((mut socket, _)) = listener.accept().await {
        let Some(request) = request(&mut socket).await else { continue };
        let (status, body) = if request.contains(THROTTLED) {
            (400, r#"{"__type": "com.amazonaws.dynamodb.v20120810#ThrottlingException"}"#)
        } else if request.contains(FAILS_ONCE) && !std::mem::replace(&mut has_failed, true) {
            (500, r#"{"__type": "com.amazonaws.dynamodb.v20120810#InternalServerError"}"#)
        } else {
            (200, "{}")
        };
        let length = body.len();
        let answer =
            format!("HTTP/1.1 {status} -\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
        let _ = socket.write_all(answer.as_bytes()).await;
    }
}

async fn clients(endpoint: &str) -> Clients {
    let pause = Duration::from_millis(1);
    let timeouts = Timeouts { backoff_base: pause, backoff_max: pause, ..Timeouts::default() };
    let settings = Settings { timeouts, ..Settings::named("retries") };
    let shared = sdk_defaults(timeouts)
        .region(Region::from_static("eu-west-1"))
        .credentials_provider(Credentials::new("id", "secret", None, None, "test"))
        .endpoint_url(endpoint);
    Clients::of(&shared.load().await, &settings)
}

/// The adaptive mode has one rate limiter for all calls of a client: throttling of one job would slow down every other.
#[tokio::test]
async fn calls_share_no_rate_limiter() {
    let Clients { dynamodb, sqs, s3 } = clients("http://127.0.0.1:1").await;
    let modes = [dynamodb.config().retry_config(), sqs.config().retry_config(), s3.config().retry_config()];
    for retries in modes {
        assert_eq!(retries.unwrap().mode(), RetryMode::Standard);
    }
}

/// Retries of throttled calls cost nothing of the budget that all calls of a client share.
#[tokio::test]
async fn throttled_calls_leave_others_their_retries() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(serve(listener));
    let clients = clients(&endpoint).await;
    let read = |key: &str| {
        let key = AttributeValue::S(key.to_owned());
        clients.dynamodb.get_item().table_name("table").key("pk", key).send()
    };
    // At the SDK's own price for such a retry this is more than the budget.
    for _ in 0..40 {
        assert!(read(THROTTLED).await.is_err());
    }
    assert!(read(FAILS_ONCE).await.is_ok(), "it is tried again");
    server.abort();
}
