//! `conveyor dlq`: messages that were given up, and what becomes of them.

mod list;
mod treat;

use super::args::{DlqArgs, DlqCommand};
use super::failure::Failure;
use super::print::Output;
use super::progress::unless_interrupted;
use conveyor_client::wire::Letter;
use conveyor_client::{Client, Pages};
use conveyor_domain::limits::PAGE_MAX;
use std::process::ExitCode;

pub async fn run(api: &Client, args: &DlqArgs, output: Output) -> Result<ExitCode, Failure> {
    match &args.command {
        DlqCommand::List(args) => looked(list::list(api, args, output)).await,
        DlqCommand::Show(args) => looked(list::show(api, args, output)).await,
        DlqCommand::Redrive(args) => treat::redrive(api, args, output).await,
        DlqCommand::Purge(args) => treat::purge(api, args, output).await,
    }
}

async fn looked(look: impl Future<Output = Result<ExitCode, Failure>>) -> Result<ExitCode, Failure> {
    let whole = unless_interrupted(look).await;
    whole.unwrap_or_else(|| Err(Failure::stopped("not all was shown, and nothing was changed")))
}

/// Those that fit every filter.
fn selected(
    api: &Client,
    job: &Option<String>,
    run: &Option<String>,
    error: &Option<String>,
) -> Pages<Letter> {
    let mut letters = api.dead_letters();
    for (name, value) in [("job_id", job), ("run_id", run), ("error", error)] {
        if let Some(value) = value {
            letters = letters.query(name, value);
        }
    }
    letters.query("limit", PAGE_MAX)
}
