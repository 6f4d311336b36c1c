//! A way to a server that breaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Hands bytes on, and hangs up in the middle of an answer.
#[derive(Clone, Debug)]
pub struct Proxy {
    pub endpoint: String,
    /// Answers that are still to be cut.
    cuts: Arc<AtomicUsize>,
    /// Connections that were made.
    pub connections: Arc<AtomicUsize>,
}

impl Proxy {
    /// Cuts as many connections, each once so many bytes of answers have come by it.
    pub async fn before(server: &str, cuts: usize, after_bytes: usize) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let proxy = Proxy { endpoint, cuts: Arc::new(cuts.into()), connections: Arc::default() };
        let (server, serving) = (server.trim_start_matches("http://").to_owned(), proxy.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                serving.connections.fetch_add(1, Ordering::SeqCst);
                let (server, serving) = (TcpStream::connect(&server).await.unwrap(), serving.clone());
                tokio::spawn(async move { serving.carry(client, server, after_bytes).await });
            }
        });
        proxy
    }

    /// No server at all: promises an object of so many bytes, and hangs up.
    pub async fn promising(etag: &str, bytes: usize) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let proxy = Proxy { endpoint, cuts: Arc::default(), connections: Arc::default() };
        let answer = format!("HTTP/1.1 200 OK\r\nETag: {etag}\r\nContent-Length: {bytes}\r\n\r\n");
        let connections = proxy.connections.clone();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                let mut request = vec![0; 64 * 1024];
                let _ = client.read(&mut request).await;
                let _ = client.write_all(answer.as_bytes()).await;
            }
        });
        proxy
    }

    async fn carry(&self, client: TcpStream, server: TcpStream, after_bytes: usize) {
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let asking = tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
        let (mut buffer, mut carried) = (vec![0; 16 * 1024], 0);
        while let Ok(read) = from_server.read(&mut buffer).await {
            carried += read;
            if read == 0 || to_client.write_all(&buffer[..read]).await.is_err() {
                break;
            }
            let take = |left: usize| left.checked_sub(1);
            if carried >= after_bytes
                && self.cuts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok()
            {
                break;
            }
        }
        asking.abort();
    }
}
