//! `conveyor keys`: API keys, and what their callers may have.

mod document;
mod table;

use super::args::{Choice, KeysArgs, KeysCommand, KeysCreateArgs, QuotaArgs};
use super::failure::Failure;
use super::http::{Answer, Api};
use super::paging;
use super::print::{self, Output, clean};
use conveyor_domain::limits::PAGE_MAX;
use document::{Caller, Key};
use futures::StreamExt;
use serde_json::{Map, Value, json};
use std::pin::pin;
use std::process::ExitCode;

pub async fn run(api: &Api, args: &KeysArgs, output: Output) -> Result<ExitCode, Failure> {
    match &args.command {
        KeysCommand::Create(args) => create(api, args, output).await,
        KeysCommand::List(_) => list(api, output).await,
        KeysCommand::Revoke(args) => {
            api.delete(api.url(&["admin", "keys", &args.key])).await?;
            match output.json {
                true => print::line(&json!({ "revoked": args.key }).to_string())?,
                false => print::line(&clean(&format!("{} revoked", args.key)))?,
            }
            Ok(ExitCode::SUCCESS)
        }
        KeysCommand::Quotas(args) => {
            let url = api.url(&["admin", "callers", &args.caller]);
            let change = change(&args.quotas);
            let answer: Answer<Caller> = match change.is_empty() {
                true => api.get(url).await?,
                false => api.patch(url, &Value::Object(change)).await?,
            };
            let text = if output.json { answer.text } else { print::facts(table::caller(&answer.document)) };
            print::line(&text)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn create(api: &Api, args: &KeysCreateArgs, output: Output) -> Result<ExitCode, Failure> {
    let mut body = json!({ "name": args.name });
    if args.operator {
        body["operator"] = json!(true);
    }
    if let Some(caller) = &args.caller {
        body["caller"] = json!(caller);
    }
    let quotas = change(&args.quotas);
    if !quotas.is_empty() {
        body["quotas"] = Value::Object(quotas);
    }
    // Sent once: a repeat would make another key.
    let answer: Answer<Key> = api.post(api.url(&["admin", "keys"]), Some(&body)).await?;
    print::line(&if output.json { answer.text } else { print::facts(table::made(&answer.document)) })?;
    output.remark("the key is shown this once: keep it where its owner finds it");
    Ok(ExitCode::SUCCESS)
}

fn change(quotas: &QuotaArgs) -> Map<String, Value> {
    let named = [
        ("active_jobs", quotas.active_jobs),
        ("scheduled_jobs", quotas.scheduled_jobs),
        ("queued_tasks", quotas.queued_tasks),
    ];
    let value = |choice| match choice {
        Choice::Default => Value::Null,
        Choice::Limit(limit) => json!(limit),
    };
    named.into_iter().filter_map(|(name, choice)| Some((name.to_owned(), value(choice?)))).collect()
}

async fn list(api: &Api, output: Output) -> Result<ExitCode, Failure> {
    let mut url = api.url(&["admin", "keys"]);
    url.query_pairs_mut().append_pair("limit", &PAGE_MAX.to_string());
    let pages = paging::pages(api, url, "keys");
    if output.json {
        paging::print_document(pages, "keys").await?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut pages = pin!(pages.enumerate());
    while let Some((n, page)) = pages.next().await {
        let mut table = print::plain_table();
        if n == 0 {
            table.set_header(table::HEADER);
        }
        for item in &page? {
            let key = serde_json::from_str(item.get()).map_err(|e| Failure::not_understood(e.to_string()))?;
            table.add_row(table::cells(&key).map(|cell| clean(&cell)));
        }
        print::fix_widths(&mut table, &table::WIDTHS);
        if n == 0 || !table.is_empty() {
            print::print_table(table)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
