//! `cluster dev ...`: takes the arguments of `conveyor dev` and runs the same as two processes of every role on the AWS
//! backend, behind one address. Whatever is tested on `conveyor dev` is tested on this by starting it instead.
//!
//! The AWS endpoints come from the SDK's variables. The names of table, queues and bucket are kept in the data directory, so
//! a second start finds what the first one left. All processes end with this one, however it ends.

mod place;
mod roles;

use anyhow::{Context, Result, bail};
use place::Place;
use roles::Roles;
use std::process::ExitCode;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};

/// Of every role.
const EACH: usize = 2;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<ExitCode> {
    let (place, flags) = Place::parse(std::env::args().skip(1))?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let listener = TcpListener::bind(&place.listen)
        .await
        .with_context(|| format!("cannot listen on {}", place.listen))?;
    roles::provision(&place)?;
    let mut roles = Roles::start(&place, &flags, EACH).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let balancing = tokio::spawn(balance(listener, roles.apis()));
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        ended = roles.first_to_end() => bail!("conveyor {ended}"),
    }
    let stop = async {
        roles.signal().await?;
        balancing.abort();
        roles.end().await
    };
    tokio::select! {
        stopped = stop => stopped?,
        _ = interrupt.recv() => return Ok(ExitCode::FAILURE),
        _ = terminate.recv() => return Ok(ExitCode::FAILURE),
    }
    Ok(ExitCode::SUCCESS)
}

/// Connections, each to the next API in turn.
async fn balance(listener: TcpListener, apis: Vec<String>) {
    let mut next = 0;
    loop {
        let Ok((mut caller, _)) = listener.accept().await else { continue };
        let api = apis[next % apis.len()].clone();
        next += 1;
        tokio::spawn(async move {
            let Ok(mut api) = TcpStream::connect(&api).await else { return };
            let _ = (caller.set_nodelay(true), api.set_nodelay(true));
            // However it ends: the caller sees it.
            let _ = copy_bidirectional(&mut caller, &mut api).await;
        });
    }
}
