//! Starting servers: on a free port, with state that goes when they go.

mod http;
mod port;
mod process;

use crate::install::Installation;
use crate::servers::{Kind, Launch};
use anyhow::{Context, Result, bail};
use port::Port;
use process::Process;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) use http::Request;

const READY_WITHIN: Duration = Duration::from_secs(90);
const POLL_EVERY: Duration = Duration::from_millis(20);
/// A port is chosen before the server takes it, so that another program can be faster.
const PORTS_TRIED_MAX: u32 = 5;

/// A server that runs, until it is dropped or the process that started it is gone.
#[derive(Debug)]
pub struct Server {
    kind: Kind,
    url: String,
    // Fields go in this order: the process ends before its folder, and its port is free only after that.
    process: Process,
    _state: TempDir,
    _port: Port,
}

impl Server {
    /// Starts a server, installing it if need be, and waits until it answers for all its services.
    pub fn start(installation: &Installation, kind: Kind) -> Result<Server> {
        Server::start_on(installation, kind, None)
    }

    /// Dynoxide with its tables in a file, which another can be started on later.
    pub fn start_dynoxide_on(installation: &Installation, db_path: &Path) -> Result<Server> {
        Server::start_on(installation, Kind::Dynoxide, Some(db_path))
    }

    /// Starts several at once.
    pub fn start_all(installation: &Installation, kinds: &[Kind]) -> Result<Vec<Server>> {
        thread::scope(|scope| {
            let starting: Vec<_> =
                kinds.iter().map(|kind| scope.spawn(|| Server::start(installation, *kind))).collect();
            let started = starting.into_iter().map(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            started.collect()
        })
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// For whoever measures what it uses.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Without a slash at the end.
    pub fn url(&self) -> &str {
        &self.url
    }

    fn start_on(installation: &Installation, kind: Kind, db_path: Option<&Path>) -> Result<Server> {
        let installed = installation.install(kind)?;
        for _ in 0..PORTS_TRIED_MAX {
            if let Some(server) = attempt(kind, &installed, db_path)
                .with_context(|| format!("{} {} did not start", kind.name(), kind.version()))?
            {
                return Ok(server);
            }
        }
        bail!("{} found its port taken {PORTS_TRIED_MAX} times", kind.name())
    }
}

/// One start, on one port; nothing if it turned out to be taken.
fn attempt(kind: Kind, installed: &Path, db_path: Option<&Path>) -> Result<Option<Server>> {
    let port = Port::free()?;
    let state = tempfile::Builder::new().prefix(&format!("{}-", kind.name())).tempdir()?;
    let db_path = db_path.map(std::path::absolute).transpose()?;
    let launch = Launch { port: port.number(), state: state.path().to_owned(), db_path };
    let log: PathBuf = state.path().join("server.log");
    let mut process = Process::spawn(&(kind.recipe().command)(installed, &launch)?, state.path(), &log)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.number()));
    let mut unanswered = kind.services().iter().peekable();
    let mut last_answer = "none".to_owned();
    let ready = until(READY_WITHIN, POLL_EVERY, || {
        if let Some(status) = process.ended()? {
            return Ok(Some(Err(format!("it ended with {status}"))));
        }
        while let Some(service) = unanswered.peek() {
            match service.question().ask(address) {
                Ok(answer) if answer.status == 200 => unanswered.next(),
                Ok(answer) => {
                    last_answer = answer.text;
                    return Ok(None);
                }
                // Not listening yet, most likely.
                Err(_) => return Ok(None),
            };
        }
        Ok(Some(Ok(())))
    });
    match ready? {
        // One more look: the answers may have come from whoever took the port.
        Some(Ok(())) if process.ended()?.is_none() => {
            let url = format!("http://{address}");
            Ok(Some(Server { kind, url, process, _state: state, _port: port }))
        }
        Some(_) if port.is_taken() => Ok(None),
        Some(Ok(())) => bail!("it ended as soon as it had answered\n{}", process.log_tail()),
        Some(Err(reason)) => bail!("{reason}\n{}", process.log_tail()),
        None => bail!(
            "it was not ready within {READY_WITHIN:?}; its last answer: {last_answer}\nits log ends with\n{}",
            process.log_tail()
        ),
    }
}

/// Asks again and again until there is an answer; none within the limit is none.
#[expect(
    clippy::disallowed_methods,
    reason = "other processes run by the wall clock, and no runtime is blocked here"
)]
fn until<T>(
    limit: Duration,
    every: Duration,
    mut ask: impl FnMut() -> Result<Option<T>>,
) -> Result<Option<T>> {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask()? {
            return Ok(Some(answer));
        }
        if start.elapsed() >= limit {
            return Ok(None);
        }
        thread::sleep(every);
    }
}
