//! Connections: a limited number, each with a limited time to send the head of a request, ended in good order.
//!
//! What a request's body may take is the API's own limit. `axum::serve` has no such limits, so the loop is ours.

use axum::Router;
use conveyor_domain::limits;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// What to wait after the system had no socket for us: it will not have one at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `stop`, then lets open requests end within `grace`.
pub async fn serve(listener: TcpListener, app: Router, stop: CancellationToken, grace: Duration) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits::HEAD_TIMEOUT);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(limits::HEAD_TIMEOUT);
    let open = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(limits::CONNECTIONS_MAX));
    loop {
        // The permit first: connections beyond the limit wait in the system's own queue.
        let next = async {
            let permit = room.clone().acquire_owned().await;
            (permit, accept(&listener).await)
        };
        let (permit, stream) = tokio::select! {
            next = next => next,
            () = stop.cancelled() => break,
        };
        let service = TowerToHyperService::new(app.clone());
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
        let connection = open.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                // A caller that went away or was too slow; nothing that an operator could mend.
                tracing::debug!(%error, "a connection ended early");
            }
            drop(permit);
        });
    }
    drop(listener);
    if tokio::time::timeout(grace, open.shutdown()).await.is_err() {
        tracing::warn!("requests were still open at the end of the grace period");
    }
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Answers are small and whole: waiting to fill a packet only delays them.
                let _ = stream.set_nodelay(true);
                return stream;
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
