//! `conveyor leases`: which workers hold permits of the caller's jobs.

use super::args::LeasesArgs;
use super::failure::Failure;
use super::http::Api;
use super::limits::{self, Lease};
use super::paging;
use super::print::{self, Output, clean};
use comfy_table::Table;
use conveyor_domain::limits::PAGE_MAX;
use futures::StreamExt;
use serde_json::Value;
use std::pin::pin;
use std::process::ExitCode;

const HEADER: [&str; 7] = ["job", "held", "worker", "permits", "expires", "waiting", "name"];
const WIDTHS: [u16; 6] = [28, 9, 28, 9, 26, 17];

pub async fn run(api: &Api, args: &LeasesArgs, output: Output) -> Result<ExitCode, Failure> {
    match &args.job {
        Some(job) => one(api, job, output).await?,
        None => all(api, output).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn one(api: &Api, job: &str, output: Output) -> Result<(), Failure> {
    let answer = limits::get(api, job).await?;
    if output.json {
        return print::line(&as_page(&answer.text)?.to_string());
    }
    let mut table = first_table();
    add(&mut table, Lease::from(answer.document));
    print::print_table(table)
}

/// One job's leases look like a page of many.
fn as_page(limits: &str) -> Result<Value, Failure> {
    let not_understood = |e: serde_json::Error| Failure::not_understood(e.to_string());
    let mut lease: Value = serde_json::from_str(limits).map_err(not_understood)?;
    lease["held"] = lease["in_flight"].take();
    if let Some(fields) = lease.as_object_mut() {
        const OF_A_LEASE: [&str; 7] =
            ["job_id", "run_id", "name", "max_inflight", "held", "holders", "waiting"];
        fields.retain(|name, _| OF_A_LEASE.contains(&name.as_str()));
    }
    Ok(serde_json::json!({ "leases": [lease] }))
}

async fn all(api: &Api, output: Output) -> Result<(), Failure> {
    let mut url = api.url(&["leases"]);
    url.query_pairs_mut().append_pair("limit", &PAGE_MAX.to_string());
    let pages = paging::pages(api, url, "leases");
    if output.json {
        return paging::print_document(pages, "leases").await;
    }
    let mut pages = pin!(pages.enumerate());
    while let Some((n, page)) = pages.next().await {
        let mut table = if n == 0 { first_table() } else { print::plain_table() };
        for item in &page? {
            let lease =
                serde_json::from_str(item.get()).map_err(|e| Failure::not_understood(e.to_string()))?;
            add(&mut table, lease);
        }
        print::fix_widths(&mut table, &WIDTHS);
        if n == 0 || !table.is_empty() {
            print::print_table(table)?;
        }
    }
    Ok(())
}

fn first_table() -> Table {
    let mut table = print::plain_table();
    table.set_header(HEADER);
    table
}

/// A line for each holder; one that nobody holds anything of has a line too.
fn add(table: &mut Table, lease: Lease) {
    let held = format!("{}/{}", lease.held, lease.max_inflight);
    let name = lease.name.unwrap_or_default();
    let mut line = |worker: &str, permits: &str, expires: &str| {
        let cells = [&lease.job_id, &held, worker, permits, expires, &lease.waiting.reason, &name];
        table.add_row(cells.map(clean));
    };
    if lease.holders.is_empty() {
        line("-", "0", "-");
    }
    for holder in &lease.holders {
        line(&holder.worker, &holder.permits.to_string(), &holder.expires_at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_a_page_of_one_lease() {
        let limits = r#"{"job_id": "J", "in_flight": 3, "queue": {}, "waiting": {"reason": "capped"}}"#;
        let expected = r#"{"leases":[{"held":3,"job_id":"J","waiting":{"reason":"capped"}}]}"#;
        assert_eq!(as_page(limits).unwrap(), serde_json::from_str::<Value>(expected).unwrap());
    }

    #[test]
    fn every_holder_has_a_line_and_so_has_nobody() {
        let mut table = print::plain_table();
        let waiting = r#""waiting": {"reason": "working", "detail": "."}"#;
        let held = format!(
            r#"{{"job_id": "J", "max_inflight": 5, "held": 3, {waiting}, "holders": [
                {{"worker": "W1", "permits": 2, "expires_at": "T"}}, {{"worker": "W2", "permits": 1, "expires_at": "T"}}]}}"#
        );
        add(&mut table, serde_json::from_str(&held).unwrap());
        add(
            &mut table,
            serde_json::from_str(&format!(
                r#"{{"job_id": "K", "max_inflight": 5, "held": 0, "name": "a list", {waiting}}}"#
            ))
            .unwrap(),
        );
        let lines: Vec<String> =
            table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines, ["J 3/5 W1 2 T working", "J 3/5 W2 1 T working", "K 0/5 - 0 - working a list"]);
    }
}
