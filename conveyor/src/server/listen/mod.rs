//! Connections (SPEC 6.27): every one is accepted, each has deadlines, and when there are too many the least deserving are
//! closed. `axum::serve` has no such limits, so the loop is ours. What a request's body may take is the API's own limit.

mod answer;
mod connection;
mod connections;
mod stream;

use answer::Tracked;
use axum::Router;
pub use connection::Deadlines;
pub use connections::Connections;
use conveyor_api::Peer;
use conveyor_domain::limits;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use stream::Watched;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;

/// What to wait after the system had no socket for us: it will not have one at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// A stream asks for its next piece only when all of the one before has gone to the system.
const HTTP2_SEND_BUFFER_BYTES: usize = 1;

/// A socket like that of [`TcpListener::bind`], with a longer queue, so that a burst of connections does not make others
/// wait for the second after which they are tried again; and with a buffer that does not take in whole answers.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    // Accepted sockets inherit it.
    socket.set_send_buffer_size(limits::SEND_BUFFER_BYTES)?;
    socket.bind(address)?;
    socket.listen(limits::CONNECTIONS_WAITING_MAX)
}

/// How many connections this process may have, by its limit of descriptors: a request that has a place may hold a file beside
/// its connection. The soft limit, which is often only 1,024, is raised as far as that takes and the hard limit allows.
pub fn connections_max(max: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = (max + requests_inflight_max(max) + limits::DESCRIPTORS_RESERVED) as u64;
    let raised = limit.maximum.map_or(wanted, |hard| hard.min(wanted));
    if limit.current.is_some_and(|soft| soft < raised)
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), ..limit })
    {
        tracing::warn!(%error, "cannot raise the soft limit of descriptors");
    }
    let descriptors = getrlimit(Resource::Nofile).current;
    let descriptors = descriptors.map_or(usize::MAX, |soft| usize::try_from(soft).unwrap_or(usize::MAX));
    connections_within(descriptors, max)
}

fn connections_within(descriptors: usize, max: usize) -> usize {
    let left = descriptors.saturating_sub(limits::DESCRIPTORS_RESERVED);
    // Places are a part of the connections, until there are as many as there may be.
    let sharing = left - left.div_ceil(limits::REQUESTS_INFLIGHT_PART + 1);
    let beyond = left.saturating_sub(limits::REQUESTS_INFLIGHT_MAX);
    sharing.max(beyond).clamp(limits::CONNECTIONS_MIN, max)
}

/// Requests that have a place at once, of so many connections.
pub fn requests_inflight_max(connections: usize) -> usize {
    (connections / limits::REQUESTS_INFLIGHT_PART).min(limits::REQUESTS_INFLIGHT_MAX)
}

/// Serves until `stop`, then lets open requests end within `grace`.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    connections: Connections,
    stop: CancellationToken,
    grace: Duration,
) {
    let (builder, open) = (builder(), GracefulShutdown::new());
    let connections = Arc::new(connections);
    let serving = async {
        loop {
            // Connections beyond the limit wait in the system's own queue for as long as it takes to close others.
            connections.make_room().await;
            let (stream, address) = accept(&listener, &connections).await;
            let opened = connections.open(Peer::new(address.ip()));
            let connection = opened.connection.clone();
            let stream = TokioIo::new(Watched::new(stream, connection.clone()));
            let service = TowerToHyperService::new(Tracked::new(app.clone(), connection.clone()));
            let served = open.watch(builder.serve_connection_with_upgrades(stream, service).into_owned());
            tokio::spawn(async move {
                // However it ends, also by a panic.
                let _opened = opened;
                let end = tokio::select! {
                    end = served => end,
                    () = connection.closed() => Ok(()),
                };
                if let Err(error) = end {
                    // A caller that went away; nothing that an operator could mend.
                    tracing::debug!(%error, "a connection ended early");
                }
            });
        }
    };
    tokio::select! {
        () = serving => {}
        () = connections.keep_deadlines() => {}
        () = stop.cancelled() => {}
    }
    drop(listener);
    let ended = async {
        tokio::select! {
            () = open.shutdown() => {}
            () = connections.keep_deadlines() => {}
        }
    };
    if tokio::time::timeout(grace, ended).await.is_err() {
        tracing::warn!("requests were still open at the end of the grace period");
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    // hyper's own deadline of a head also runs while a connection idles, and not before it knows the version.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(limits::HEAD_MAX_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(limits::HTTP2_PING_EVERY)
        .keep_alive_timeout(limits::HTTP2_PING_TIMEOUT)
        .max_concurrent_streams(limits::HTTP2_STREAMS_MAX)
        .max_send_buf_size(HTTP2_SEND_BUFFER_BYTES)
        .initial_stream_window_size(limits::HTTP2_STREAM_WINDOW_BYTES)
        .initial_connection_window_size(limits::HTTP2_WINDOW_BYTES);
    builder
}

/// Whether the system has no descriptor or no memory for another socket.
fn is_used_up(error: &io::Error) -> bool {
    let used_up = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| used_up.contains(&errno))
}

async fn accept(listener: &TcpListener, connections: &Connections) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                // Answers are small and whole: waiting to fill a packet only delays them.
                let _ = stream.set_nodelay(true);
                return (stream, address);
            }
            Err(error) if is_used_up(&error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                // The rest of the process may have taken more descriptors than were left for it.
                connections.close_some();
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            // Of that one connection: it ended before it was accepted.
            Err(error) => tracing::debug!(%error, "a connection could not be accepted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use axum::body::Body;
    use axum::routing::get;
    use bytes::Bytes;
    use futures::stream;
    use std::convert::Infallible;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::Instant;

    /// A server that answers with an endless body. Time passes whenever nothing else happens.
    async fn server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let piece = Bytes::from(vec![b'x'; 64 * limits::KIB]);
        let endless = move || {
            let piece = piece.clone();
            async move { Body::from_stream(stream::repeat_with(move || Ok::<_, Infallible>(piece.clone()))) }
        };
        let long = Bytes::from(vec![b'x'; 60 * limits::KIB]);
        let app = Router::new().route("/", get(async || "hello")).route("/endless", get(endless));
        let app = app.route("/long", get(async move || long));
        let connections = Connections::new(64, Deadlines::default());
        tokio::spawn(serve(listener, app, connections, CancellationToken::new(), Duration::ZERO));
        address
    }

    async fn send(address: SocketAddr, sent: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(sent).await.unwrap();
        stream
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_sends_nothing_more_is_closed_in_time() {
        let address = server().await;
        let within = |limit: Duration| limit..=limit + 2 * limits::CONNECTIONS_LOOK_EVERY;
        let cases = [
            ("", limits::FIRST_BYTE_TIMEOUT),
            ("GET / HTTP/1.1\r\nHost: x\r\n", limits::HEAD_TIMEOUT),
            ("PRI * HTTP/2.0\r\n", limits::HEAD_TIMEOUT),
            ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", limits::IDLE_TIMEOUT),
        ];
        for (sent, limit) in cases {
            let mut stream = send(address, sent.as_bytes()).await;
            let begun = Instant::now();
            stream.read_to_end(&mut Vec::new()).await.unwrap();
            assert!(within(limit).contains(&begun.elapsed()), "{sent:?}: {:?}", begun.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_reads_is_broken_off() {
        let stream = send(server().await, b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n").await;
        // Nothing else happens: time passes at once.
        tokio::time::sleep(limits::WRITE_TIMEOUT + 2 * limits::CONNECTIONS_LOOK_EVERY).await;
        // What the two sockets held, and no more.
        let most = 64 * limits::MIB as u64;
        let read = stream.take(most).read_to_end(&mut Vec::new()).await.unwrap();
        assert!((1..most as usize).contains(&read), "{read}");
    }

    /// With one byte of flow control the answer is buffered whole, and must not pass for sent.
    #[tokio::test(start_paused = true)]
    async fn the_end_of_an_http2_answer_that_nobody_takes_is_broken_off_too() {
        let address = server().await;
        let client = conveyor_outbound::client_builder().no_proxy().http2_prior_knowledge();
        let client = client.http2_initial_stream_window_size(1).build().unwrap();
        let answer = client.get(format!("http://{address}/long")).send().await.unwrap();
        tokio::time::sleep(limits::WRITE_TIMEOUT + 2 * limits::CONNECTIONS_LOOK_EVERY).await;
        // An idle connection would still be open, and bring the rest.
        assert!(answer.bytes().await.is_err());
    }

    #[test]
    fn descriptors_are_left_for_the_rest_of_the_process() {
        let connections_within = |descriptors| connections_within(descriptors, limits::CONNECTIONS_MAX);
        assert_eq!(connections_within(usize::MAX), limits::CONNECTIONS_MAX);
        assert_eq!(connections_within(256), limits::CONNECTIONS_MIN);
        for descriptors in [1_500, 4_096, 10_000, 19_000] {
            let connections = connections_within(descriptors);
            let used = connections + requests_inflight_max(connections) + limits::DESCRIPTORS_RESERVED;
            assert!((descriptors - 2..=descriptors).contains(&used), "{used} of {descriptors}");
        }
    }
}
