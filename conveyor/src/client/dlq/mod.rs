//! `conveyor dlq`: messages that were given up, and what becomes of them.

mod document;
mod list;
mod treat;

use super::args::{DlqArgs, DlqCommand};
use super::failure::Failure;
use super::http::Api;
use super::print::Output;
use super::progress::unless_interrupted;
use std::process::ExitCode;
use url::Url;

pub async fn run(api: &Api, args: &DlqArgs, output: Output) -> Result<ExitCode, Failure> {
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

fn url(api: &Api, rest: &[&str]) -> Url {
    api.url(&[&["admin", "dead_letters"], rest].concat())
}

/// The address of a list of those that fit.
fn filtered(api: &Api, filters: [(&str, &Option<String>); 3]) -> Url {
    let mut url = url(api, &[]);
    for (name, value) in filters {
        if let Some(value) = value {
            url.query_pairs_mut().append_pair(name, value);
        }
    }
    url
}
