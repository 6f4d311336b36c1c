//! The client commands of the command line: what a user or an operator of a running Conveyor does with it, over its HTTP API.
//!
//! Nothing here may touch a store or a data directory, but for the key files that `conveyor dev` leaves for it, and for
//! `reconcile --direct`, which `crate::direct` gives a backend.
//!
//! With `--json` standard output is one JSON document and nothing else, and an error is a problem document on standard
//! error. Exit codes: 0 done, 1 failed, 2 usage; `reconcile` has one more (SPEC 14). Events that are followed and limits that are watched are the
//! exception: an object a line.

mod args;
mod audit;
mod clock;
mod control;
mod deliveries;
mod dlq;
mod download;
mod dry_run;
mod events;
mod export;
mod failure;
mod ingest;
mod keys;
mod leases;
mod limits;
mod list;
mod print;
mod progress;
mod reconcile;
mod rejected;
mod rerun;
mod results;
mod status;
mod submit;
mod table;
mod upload;
mod uploads;

pub use args::ClientCommand;

use args::Connection;
use conveyor_client::Client;
use failure::Failure;
use print::Output;
use std::process::ExitCode;

pub async fn run(command: ClientCommand) -> anyhow::Result<ExitCode> {
    let output = Output::new(command.connection().json());
    match dispatch(command, output).await {
        Ok(code) => Ok(code),
        Err(failure) => Ok(failure.report(output)),
    }
}

async fn dispatch(command: ClientCommand, output: Output) -> Result<ExitCode, Failure> {
    if let ClientCommand::Reconcile(args) = &command
        && args.direct
    {
        return reconcile::direct(args, output).await;
    }
    let api = connect(command.connection())?;
    match command {
        ClientCommand::Submit(args) => submit::run(&api, args, output).await,
        ClientCommand::Status(args) => status::run(&api, &args, output).await,
        ClientCommand::Results(args) => results::run(&api, &args, output).await,
        ClientCommand::Export(args) => export::run(&api, &args, output).await,
        ClientCommand::Rejected(args) => rejected::run(&api, &args, output).await,
        ClientCommand::Events(args) => events::run(&api, &args, output).await,
        ClientCommand::Deliveries(args) => deliveries::run(&api, &args, output).await,
        ClientCommand::Uploads(args) => uploads::run(&api, &args, output).await,
        ClientCommand::Limits(args) => limits::run(&api, &args, output).await,
        ClientCommand::Leases(args) => leases::run(&api, &args, output).await,
        ClientCommand::Pause(args) => control::pause(&api, &args, output).await,
        ClientCommand::Resume(args) => control::resume(&api, &args, output).await,
        ClientCommand::Rerun(args) => rerun::run(&api, &args, output).await,
        ClientCommand::Stop(args) => control::stop(&api, &args, output).await,
        ClientCommand::Delete(args) => control::delete(&api, &args, output).await,
        ClientCommand::Audit(args) => audit::run(&api, &args, output).await,
        ClientCommand::Reconcile(args) => {
            reconcile::over_http(api, &args, output).await.map_err(Failure::of_operator)
        }
        ClientCommand::Dlq(args) => dlq::run(&api, &args, output).await.map_err(Failure::of_operator),
        ClientCommand::Keys(args) => keys::run(&api, &args, output).await.map_err(Failure::of_operator),
        ClientCommand::Clock(args) => clock::run(&api, &args, output).await.map_err(Failure::of_operator),
    }
}

fn connect(connection: Connection<'_>) -> Result<Client, Failure> {
    let mut builder = Client::builder(connection.server().as_str())
        .user_agent(concat!("conveyor/", env!("CARGO_PKG_VERSION")));
    if let Some(key) = connection.key()? {
        builder = builder.key(key.expose());
    }
    Ok(builder.build()?)
}

#[cfg(test)]
mod tests;
