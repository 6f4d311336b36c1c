//! `conveyor leases`: which workers hold permits of the caller's jobs.

use super::args::LeasesArgs;
use super::failure::Failure;
use super::print::{self, Output};
use super::table::{self, Column, or_dash};
use conveyor_client::Client;
use conveyor_client::wire::{Holder, Lease, Limits};
use conveyor_domain::limits::PAGE_MAX;
use serde_json::Value;
use std::process::ExitCode;
use std::rc::Rc;

/// A holder of a lease; none of a lease that no worker holds anything of.
type Held = (Rc<Lease>, Option<Holder>);

const COLUMNS: [Column<Held>; 7] = [
    ("job", 28, |(lease, _)| lease.job_id.to_string()),
    ("held", 9, |(lease, _)| format!("{}/{}", lease.held, lease.max_inflight)),
    ("worker", 28, |(_, holder)| or_dash(holder.map(|holder| holder.worker).as_ref())),
    ("permits", 9, |(_, holder)| holder.map_or(0, |holder| holder.permits).to_string()),
    ("expires", 26, |(_, holder)| or_dash(holder.map(|holder| holder.expires_at).as_ref())),
    ("waiting", 17, |(lease, _)| lease.waiting.reason.to_string()),
    ("name", 0, |(lease, _)| lease.name.clone().unwrap_or_default()),
];

pub async fn run(api: &Client, args: &LeasesArgs, output: Output) -> Result<ExitCode, Failure> {
    match &args.job {
        Some(job) => one(api, job, output).await?,
        None => table::list_of_rows(api.leases().query("limit", PAGE_MAX), rows, &COLUMNS, output).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn one(api: &Client, job: &str, output: Output) -> Result<(), Failure> {
    let answer = api.limits(job).await?;
    if output.json {
        return print::line(&as_page(&answer.text)?.to_string());
    }
    let Limits { job_id, run_id, name, max_inflight, in_flight: held, holders, waiting, .. } =
        answer.document;
    let lease = Lease { job_id, run_id, name, max_inflight, held, holders, waiting };
    print::line(&table::text(&rows(lease), &COLUMNS.map(|(name, _, cell)| (name, 0, cell)), true))
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

fn rows(lease: Lease) -> Vec<Held> {
    let lease = Rc::new(lease);
    match lease.holders.is_empty() {
        true => vec![(lease, None)],
        false => lease.holders.iter().map(|holder| (Rc::clone(&lease), Some(*holder))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_job_is_a_page_of_one_lease() {
        let limits = r#"{"job_id": "J", "in_flight": 3, "queue": {}, "waiting": {"reason": "capped"}}"#;
        let expected = r#"{"leases":[{"held":3,"job_id":"J","waiting":{"reason":"capped"}}]}"#;
        assert_eq!(as_page(limits).unwrap(), serde_json::from_str::<Value>(expected).unwrap());
    }

    #[test]
    fn every_holder_has_a_line_and_so_has_nobody() {
        const ID: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
        const T: &str = "2026-11-16T05:00:15.912Z";
        let lines = |held: u32, holders: Value, name: Option<&str>| -> Vec<String> {
            let lease = json!({"job_id": ID, "run_id": ID, "max_inflight": 5, "held": held, "name": name,
                               "holders": holders, "waiting": {"reason": "working", "detail": "."}});
            let text = table::text(&rows(serde_json::from_value(lease).unwrap()), &COLUMNS, false);
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
        };
        let holder = |permits: u32| json!({"worker": ID, "permits": permits, "expires_at": T});
        let held = lines(3, json!([holder(2), holder(1)]), None);
        assert_eq!(held, [format!("{ID} 3/5 {ID} 2 {T} working"), format!("{ID} 3/5 {ID} 1 {T} working")]);
        assert_eq!(lines(0, json!([]), Some("a list")), [format!("{ID} 0/5 - 0 - working a list")]);
    }
}
