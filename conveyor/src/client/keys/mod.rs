//! `conveyor keys`: API keys, and what their callers may have.

mod table;

use super::args::{KeysArgs, KeysCommand, KeysCreateArgs, QuotaArgs};
use super::failure::Failure;
use super::print::{self, Output, clean};
use conveyor_client::Client;
use conveyor_client::wire::{CreateKey, QuotasBody};
use conveyor_domain::limits::PAGE_MAX;
use serde_json::json;
use std::process::ExitCode;

pub async fn run(api: &Client, args: &KeysArgs, output: Output) -> Result<ExitCode, Failure> {
    match &args.command {
        KeysCommand::Create(args) => create(api, args, output).await?,
        KeysCommand::List(_) => {
            super::table::list(api.keys().query("limit", PAGE_MAX), &table::COLUMNS, output).await?;
        }
        KeysCommand::Revoke(args) => {
            api.revoke_key(&args.key).await?;
            match output.json {
                true => print::line(&json!({ "revoked": args.key }).to_string())?,
                false => print::line(&clean(&format!("{} revoked", args.key)))?,
            }
        }
        KeysCommand::Quotas(args) => {
            let answer = match change(&args.quotas) {
                None => api.caller(&args.caller).await?,
                Some(change) => api.change_quotas(&args.caller, change).await?,
            };
            let text = if output.json { answer.text } else { print::facts(table::caller(&answer.document)) };
            print::line(&text)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn create(api: &Client, args: &KeysCreateArgs, output: Output) -> Result<(), Failure> {
    let caller = args.caller.as_ref().map(|caller| caller.parse());
    let key = CreateKey {
        name: args.name.as_str().into(),
        operator: args.operator.then_some(true),
        caller: caller.transpose().map_err(|_| Failure::usage("--caller is not the id of a caller"))?,
        quotas: change(&args.quotas),
    };
    let answer = api.create_key(&key).await?;
    print::line(&if output.json { answer.text } else { print::facts(table::made(&answer.document)) })?;
    output.remark("the key is shown this once: keep it where its owner finds it");
    Ok(())
}

/// The quotas that are named, if there are any.
fn change(quotas: &QuotaArgs) -> Option<QuotasBody> {
    let QuotaArgs { active_jobs, scheduled_jobs, queued_tasks } = quotas;
    let is_given = active_jobs.is_some() || scheduled_jobs.is_some() || queued_tasks.is_some();
    is_given.then(|| QuotasBody {
        active_jobs: active_jobs.map(|choice| choice.quota().map(Into::into)),
        scheduled_jobs: scheduled_jobs.map(|choice| choice.quota().map(Into::into)),
        queued_tasks: queued_tasks.map(|choice| choice.quota().map(Into::into)),
    })
}
