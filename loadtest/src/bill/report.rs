//! The line that `loadtest bill` prints, and the table that people read.

use super::price::{Amounts, Dollars};
use super::usage::Usage;
use crate::round;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

// What a task may cost; `--check` fails where it costs more.

/// Of submit, ingest, drain and completion together.
const WRITE_UNITS_MAX: f64 = 4.2;
const READ_UNITS_MAX: f64 = 0.6;
const SQS_REQUESTS_MAX: f64 = 0.35;
/// Of the enumeration.
const ROWS_READ_PER_ROW_MAX: f64 = 1.25;

/// What happened between two looks at the metrics.
#[derive(Debug)]
pub struct Phase {
    pub name: &'static str,
    pub took: Duration,
    pub usage: Usage,
}

/// What was run.
#[derive(Clone, Debug, Serialize)]
pub struct Subject {
    pub tasks: u64,
    pub gateway_url: String,
    pub servers: String,
    pub workers: u32,
    pub overlap: bool,
}

/// What the run showed beside its usage.
#[derive(Clone, Debug, Serialize)]
pub struct Seen {
    /// If the API tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_shard_count: Option<u64>,
    pub queue_deleted: bool,
    /// How often the job was looked at meanwhile: reads that are in the bill.
    pub status_reads: u64,
}

#[derive(Debug, Serialize)]
pub struct Report {
    bench: &'static str,
    #[serde(flatten)]
    subject: Subject,
    #[serde(flatten)]
    seen: Seen,
    phases: BTreeMap<&'static str, Bill>,
    /// Of all phases but the enumeration.
    total: Bill,
    rows_read_per_row_returned: Option<f64>,
    over_budget: Vec<String>,
    #[serde(skip)]
    order: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct Bill {
    seconds: f64,
    calls: BTreeMap<String, BTreeMap<String, u64>>,
    #[serde(flatten)]
    amounts: Amounts,
    rows_read: u64,
    rows_returned: u64,
    per_task: Amounts,
    dollars_per_million_tasks: Dollars,
}

impl Bill {
    fn of(took: Duration, usage: &Usage, tasks: u64) -> Bill {
        let amounts = Amounts::of(usage);
        Bill {
            seconds: round::seconds(took.as_secs_f64()),
            calls: usage.calls.clone(),
            amounts,
            rows_read: usage.rows_read,
            rows_returned: usage.rows_returned,
            per_task: amounts.per_task(tasks),
            dollars_per_million_tasks: amounts.dollars_per_million(tasks),
        }
    }
}

impl Report {
    /// `enumeration` read every task back once.
    pub fn new(subject: Subject, seen: Seen, phases: &[Phase], enumeration: &Phase) -> Report {
        let tasks = subject.tasks;
        let mut usage = Usage::default();
        phases.iter().for_each(|phase| usage += &phase.usage);
        let total = Bill::of(phases.iter().map(|phase| phase.took).sum(), &usage, tasks);
        let rows_read = enumeration.usage.rows_read;
        let rows_read_per_row_returned =
            (rows_read > 0).then(|| round::ratio(rows_read as f64 / tasks as f64));
        let mut over_budget = overruns(&total.per_task, rows_read_per_row_returned);
        if !seen.queue_deleted {
            over_budget.push("the queue of the run was not deleted".to_owned());
        }
        let all = || phases.iter().chain([enumeration]);
        Report {
            bench: "bill",
            subject,
            seen,
            phases: all().map(|phase| (phase.name, Bill::of(phase.took, &phase.usage, tasks))).collect(),
            total,
            rows_read_per_row_returned,
            over_budget,
            order: all().map(|phase| phase.name).collect(),
        }
    }

    pub fn over_budget(&self) -> &[String] {
        &self.over_budget
    }

    /// Per task, phase by phase.
    pub fn table(&self) -> String {
        let mut table = format!(
            "{:<13}{:>9}{:>12}{:>11}{:>9}{:>9}{:>9}{:>12}\n",
            "per task", "seconds", "write units", "read units", "SQS", "S3 put", "S3 get", "$/M tasks"
        );
        let phases = self.order.iter().filter_map(|name| Some((*name, self.phases.get(name)?)));
        let (enumeration, job): (Vec<_>, Vec<_>) = phases.partition(|(name, _)| *name == ENUMERATION);
        for (name, bill) in job.into_iter().chain([("total", &self.total)]).chain(enumeration) {
            let (each, dollars) = (&bill.per_task, &bill.dollars_per_million_tasks);
            let _ = writeln!(
                table,
                "{name:<13}{:>9.1}{:>12.4}{:>11.4}{:>9.4}{:>9.4}{:>9.4}{:>12.3}",
                bill.seconds,
                each.write_units,
                each.read_units,
                each.sqs_requests,
                each.s3_put_class,
                each.s3_get_class,
                dollars.total
            );
        }
        if let Some(rows) = self.rows_read_per_row_returned {
            let _ = writeln!(table, "the enumeration read {rows} rows for each that it returned");
        }
        table
    }
}

/// What is over its budget, in words.
fn overruns(per_task: &Amounts, rows_read_per_row: Option<f64>) -> Vec<String> {
    let budgets = [
        ("write units a task", Some(per_task.write_units), WRITE_UNITS_MAX),
        ("read units a task", Some(per_task.read_units), READ_UNITS_MAX),
        ("SQS requests a task", Some(per_task.sqs_requests), SQS_REQUESTS_MAX),
        ("rows read per row returned", rows_read_per_row, ROWS_READ_PER_ROW_MAX),
    ];
    let over = budgets.into_iter().filter_map(|(what, amount, max)| match amount {
        Some(amount) if amount <= max => None,
        Some(amount) => Some(format!("{amount} {what}, and {max} is the most")),
        // Nothing counted is no proof.
        None => Some(format!("{what}: unknown")),
    });
    over.collect()
}

pub const ENUMERATION: &str = "enumeration";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report(rows_read: u64, queue_deleted: bool) -> Report {
        let phase = |name, write_tenths, sqs| {
            let mut usage = Usage { write_tenths, ..Usage::default() };
            usage.add_calls("sqs", "ReceiveMessage", sqs);
            Phase { name, took: Duration::from_millis(1500), usage }
        };
        let mut enumeration = phase(ENUMERATION, 0, 0);
        enumeration.usage = Usage { rows_read, rows_returned: 100, read_tenths: 20, ..Usage::default() };
        let subject = Subject {
            tasks: 100,
            gateway_url: "demo:".to_owned(),
            servers: "default".to_owned(),
            workers: 1,
            overlap: false,
        };
        let seen = Seen { task_shard_count: Some(1), queue_deleted, status_reads: 4 };
        Report::new(subject, seen, &[phase("submit", 1000, 2), phase("drain", 3000, 30)], &enumeration)
    }

    #[test]
    fn the_total_is_all_but_the_enumeration() {
        let report = report(110, true);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(
            (&json["bench"], &json["tasks"], &json["servers"]),
            (&json!("bill"), &json!(100), &json!("default"))
        );
        let total = &json["total"];
        assert_eq!((&total["write_units"], &total["read_units"]), (&json!(400.0), &json!(0.0)));
        assert_eq!(total["per_task"]["sqs_requests"], json!(0.32));
        assert_eq!(
            (&total["seconds"], &total["calls"]["sqs"]),
            (&json!(3.0), &json!({ "ReceiveMessage": 32 }))
        );
        assert_eq!(total["dollars_per_million_tasks"]["total"], json!(2.628));
        assert_eq!(json["phases"]["enumeration"]["per_task"]["read_units"], json!(0.02));
        assert_eq!((&json["rows_read_per_row_returned"], &json["over_budget"]), (&json!(1.1), &json!([])));
        assert_eq!((&json["task_shard_count"], &json["queue_deleted"]), (&json!(1), &json!(true)));
    }

    #[test]
    fn the_table_has_the_enumeration_after_the_total() {
        let table = report(110, true).table();
        let first: Vec<_> = table.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(first, ["per", "submit", "drain", "total", "enumeration", "the"]);
    }

    #[test]
    fn what_is_over_is_told() {
        assert_eq!(report(200, false).over_budget().len(), 2);
        assert_eq!(report(0, true).over_budget(), ["rows read per row returned: unknown"]);
    }

    #[test]
    fn each_budget_is_kept_or_named() {
        let within = Amounts { write_units: 4.2, read_units: 0.6, sqs_requests: 0.35, ..Amounts::default() };
        assert!(overruns(&within, Some(1.25)).is_empty());
        let over = Amounts { write_units: 4.21, sqs_requests: 0.4, ..within };
        let said = overruns(&over, Some(2.0));
        assert_eq!(said.len(), 3);
        assert_eq!(said[0], "4.21 write units a task, and 4.2 is the most");
        assert!(said[1].contains("SQS") && said[2].contains("rows read"));
        assert_eq!(overruns(&within, None), ["rows read per row returned: unknown"]);
    }
}
