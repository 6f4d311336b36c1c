//! An audit as a person reads it: the numbers side by side, whether they agree, and what the next sweep would do.

use super::bodies::Bodies;
use crate::client::print::{self, clean};
use comfy_table::{CellAlignment, Table};
use conveyor_client::wire::{Audit, BodyFault, Finding, Subject};
use conveyor_domain::RunStatus;
use std::collections::BTreeSet;

const HEADER: [&str; 6] = ["", "list", "total", "rows", "counters", "results"];

pub fn text(audit: &Audit, bodies: Option<&Bodies>) -> String {
    let mut text = format!("run {}, {}\n\n", audit.run.run_id, clean(&audit.run.status.to_string()));
    text.push_str(&print::table_text(numbers(audit)));
    for line in verdict(audit, bodies) {
        text.push('\n');
        text.push_str(&clean(&line));
    }
    text
}

fn numbers(audit: &Audit) -> Table {
    let mut table = print::plain_table();
    table.set_header(HEADER);
    let mut line = |name: &str, cells: [Option<String>; 5]| {
        let cells = cells.map(Option::unwrap_or_default);
        table.add_row([vec![clean(name)], cells.to_vec()].concat());
    };
    let (rows, counters) = (audit.rows.as_ref(), &audit.counters);
    let list = audit.list.as_ref();
    let all = rows.map(|r| (r.pending + r.processing + r.successful + r.failed).to_string());
    let read = list.map(|l| if l.whole { l.accepted.to_string() } else { format!("{} so far", l.accepted) });
    line("tasks", [read, Some(audit.total.to_string()), all, None, None]);
    line("pending", [None, None, rows.map(|r| r.pending.to_string()), None, None]);
    line("processing", [None, None, rows.map(|r| r.processing.to_string()), None, None]);
    let bodies = audit.results.as_ref().map(|r| match r.missing {
        0 => r.present.to_string(),
        missing => format!("{}, {missing} missing", r.present),
    });
    let successful = rows.map(|r| r.successful.to_string());
    line("successful", [None, None, successful, Some(counters.successful.to_string()), bodies]);
    line("failed", [None, None, rows.map(|r| r.failed.to_string()), Some(counters.failed.to_string()), None]);
    let of_rows = rows.map(|r| &r.failure_reasons);
    let classes: BTreeSet<_> =
        of_rows.into_iter().flat_map(|r| r.keys()).chain(counters.failure_reasons.keys()).collect();
    for class in classes {
        let in_rows = of_rows.map(|r| r.get(class).copied().unwrap_or(0).to_string());
        let counted = counters.failure_reasons.get(class).copied().unwrap_or(0).to_string();
        line(&format!("  {class}"), [None, None, in_rows, Some(counted), None]);
    }
    if let Some(list) = list {
        line("rejected", [Some(list.rejected.to_string()), None, None, None, None]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn verdict(audit: &Audit, bodies: Option<&Bodies>) -> Vec<String> {
    let mut lines = vec![String::new()];
    if audit.agrees && bodies.is_none_or(Bodies::agree) {
        let proved = match &audit.rows {
            Some(_) => "everything agrees",
            None if audit.run.status == RunStatus::Deleted => "it was deleted: there is nothing to compare",
            None => "its rows are past their time",
        };
        lines.push(proved.to_owned());
    } else {
        lines.push("NOT everything agrees:".to_owned());
        lines.extend(audit.disagreements.iter().map(|why| format!("  {why}")));
        lines.extend(bodies.into_iter().flat_map(of_faults));
    }
    match bodies {
        Some(Bodies { read, bytes, unverified, .. }) => {
            let remark = match unverified {
                0 => String::new(),
                n => format!("; {n} have no checksum, and only their lengths were verified"),
            };
            lines.push(format!("{read} bodies were read, {bytes} bytes{remark}"));
        }
        None if audit.rows.is_some() => {
            lines.push("bodies were not read: `--deep` reads and verifies each".to_owned());
        }
        None => {}
    }
    let finding = |Finding { repair, subject, why, remedy, .. }: &&Finding| {
        format!("  {repair}, {}: {why}; {remedy}", line_of(subject))
    };
    let (fixable, to_decide): (Vec<&Finding>, Vec<&Finding>) =
        audit.findings.iter().partition(|finding| finding.fixable);
    if fixable.is_empty() {
        lines.push("the next sweep would change nothing".to_owned());
    } else {
        // A sweep does not look again at runs that ended long ago.
        let job = &audit.job_id;
        lines.push(format!("the next sweep, or `conveyor reconcile --job {job}`, would do this:"));
        lines.extend(fixable.iter().map(finding));
    }
    if !to_decide.is_empty() {
        lines.push("an operator has to decide about this; no sweep does:".to_owned());
        lines.extend(to_decide.iter().map(finding));
    }
    let unsure = audit.unsure.iter();
    lines.extend(unsure.map(|one| format!("cannot be told before {}: {}", one.until, line_of(&one.subject))));
    lines
}

/// `run 01ARZ3NDEKTSV4RRFFQ69G5FAV`
pub fn line_of(Subject { kind, id, .. }: &Subject) -> String {
    format!("{kind} {id}")
}

/// Bodies that are not what was written, by their tasks.
fn of_faults(bodies: &Bodies) -> Vec<String> {
    let line = |BodyFault { task_id, fault }: &BodyFault| format!("  the body of task {task_id} is {fault}");
    let more =
        (bodies.more_at_fault > 0).then(|| format!("  {} more bodies are at fault", bodies.more_at_fault));
    let remedy = (!bodies.agree()).then(|| "  a rerun of these tasks fetches them again".to_owned());
    bodies.at_fault.iter().map(line).chain(more).chain(remedy).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::tests::{self, JOB, RUN, T, run_of};
    use serde_json::json;

    fn lines(audit: serde_json::Value) -> Vec<String> {
        let audit: Audit = serde_json::from_value(tests::audit(audit)).unwrap();
        text(&audit, None).lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn numbers_stand_side_by_side() {
        let shown = lines(json!({
            "agrees": false, "run": run_of("running"), "total": 10,
            "list": {"accepted": 10, "rejected": 2, "whole": true},
            "rows": {"pending": 1, "processing": 2, "successful": 4, "failed": 3, "failure_reasons": {"blocked": 3}},
            "counters": {"successful": -4, "failed": 2, "failure_reasons": {"blocked": 1, "other": 1}},
            "results": {"present": 3, "missing": 1},
            "disagreements": ["counters say -4 successful, rows 4"],
            "findings": [{"repair": "stalled_ingest", "kind": "damage", "subject": {"type": "run", "id": "R"},
                          "why": "gone", "remedy": "let them fail", "fixable": false},
                         {"repair": "wrong_counters", "kind": "damage", "subject": {"type": "run", "id": "R"},
                          "why": "they differ", "remedy": "add 8", "fixable": true}],
            "unsure": [{"subject": {"type": "run", "id": "R"}, "until": T, "in_ms": 0}],
        }));
        assert_eq!(
            shown,
            [
                &format!("run {RUN}, running"),
                "",
                "list total rows counters results",
                "tasks 10 10 10",
                "pending 1",
                "processing 2",
                "successful 4 -4 3, 1 missing",
                "failed 3 2",
                "blocked 3 1",
                "other 0 1",
                "rejected 2",
                "",
                "NOT everything agrees:",
                "counters say -4 successful, rows 4",
                "bodies were not read: `--deep` reads and verifies each",
                &format!("the next sweep, or `conveyor reconcile --job {JOB}`, would do this:"),
                "wrong_counters, run R: they differ; add 8",
                "an operator has to decide about this; no sweep does:",
                "stalled_ingest, run R: gone; let them fail",
                &format!("cannot be told before {T}: run R"),
            ]
        );
    }

    #[test]
    fn bodies_at_fault_are_named() {
        let audit = json!({
            "agrees": true, "run": run_of("completed"), "total": 1,
            "rows": {"pending": 0, "processing": 0, "successful": 1, "failed": 0},
            "counters": {"successful": 1, "failed": 0},
        });
        let task = format!("{:032x}", 0);
        let fault = serde_json::from_value(json!({"task_id": task, "fault": "truncated"})).unwrap();
        let bodies = Bodies { read: 9, bytes: 90, unverified: 2, at_fault: vec![fault], more_at_fault: 3 };
        let text = text(&serde_json::from_value(tests::audit(audit)).unwrap(), Some(&bodies));
        let shown: Vec<&str> =
            text.lines().map(str::trim).skip_while(|line| !line.starts_with("NOT")).collect();
        assert_eq!(
            shown[..5],
            [
                "NOT everything agrees:",
                &format!("the body of task {task} is truncated"),
                "3 more bodies are at fault",
                "a rerun of these tasks fetches them again",
                "9 bodies were read, 90 bytes; 2 have no checksum, and only their lengths were verified",
            ]
        );
    }

    #[test]
    fn where_no_rows_are_counted_it_is_said_why() {
        for (status, why) in [("deleted", "it was deleted"), ("completed", "past their time")] {
            let shown = lines(json!({
                "agrees": true, "run": run_of(status), "total": 1,
                "counters": {"successful": 1, "failed": 0},
            }));
            assert!(shown[shown.len() - 2].contains(why), "{shown:?}");
        }
    }

    #[test]
    fn what_agrees_is_said_in_one_line() {
        let shown = lines(json!({
            "agrees": true, "run": run_of("completed"), "total": 1,
            "rows": {"pending": 0, "processing": 0, "successful": 1, "failed": 0},
            "counters": {"successful": 1, "failed": 0}, "results": {"present": 1, "missing": 0},
        }));
        let not_read = "bodies were not read: `--deep` reads and verifies each";
        let expected = ["everything agrees", not_read, "the next sweep would change nothing"];
        assert_eq!(shown[shown.len() - 3..], expected);
        assert!(shown.contains(&"successful 1 1 1".to_owned()), "{shown:?}");
    }
}
