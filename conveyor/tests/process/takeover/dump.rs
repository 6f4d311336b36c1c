//! The dump of a table, as a file: needs no services.

use super::embedded::RECORDS;
use super::fixture::Fixture;
use super::times::moved;
use serde_json::Value;
use std::collections::HashMap;

fn has_every_kind(fixture: &Fixture) {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for row in rows(fixture, 0) {
        *counts.entry(kind(&row)).or_default() += 1;
    }
    // Every row of the table in SPEC 5.3. Parts of an upload are in the bucket alone, and no dump has them.
    let jobs =
        ["Job.A", "Job.R", "Job.C", "Job.C.correction", "Job.E", "Job.T", "Job.H", "Job.M", "Job.A.gone"];
    let others = ["Budget", "Budgets", "Keys", "Letters", "Upload.A", "Upload.J"].map(str::to_owned);
    let records = RECORDS.map(|kind| format!("Rec.{kind}"));
    let spread = ["Job.T.sharded", "Job.R.hole"].map(str::to_owned);
    for kind in jobs.map(str::to_owned).into_iter().chain(others).chain(records).chain(spread) {
        assert!(counts.contains_key(&kind), "no {kind} among {counts:?}");
    }
}

/// What a row is.
fn kind(row: &Value) -> String {
    let text = |name: &str| row[name]["S"].as_str().unwrap();
    let (pk, sk) = (text("pk").split('#').collect::<Vec<_>>(), text("sk").split('#').collect::<Vec<_>>());
    match (pk[0], sk[0]) {
        ("Rec", _) => format!("Rec.{}", pk[1]),
        ("Job", "C") if sk[2] == "correction" => "Job.C.correction".to_owned(),
        ("Job", "A") if row.get("gone").is_some() => "Job.A.gone".to_owned(),
        ("Job", "R") if row.get("holes").is_some() => "Job.R.hole".to_owned(),
        ("Job", "T") if pk.len() > 2 => "Job.T.sharded".to_owned(),
        (first @ ("Job" | "Upload"), second) => format!("{first}.{second}"),
        (first, _) => first.to_owned(),
    }
}

/// The rows of the dump, as of another time.
pub fn rows(fixture: &Fixture, by_ms: i64) -> Vec<Value> {
    let dump = std::fs::read_to_string(fixture.path("table.jsonl")).unwrap();
    let row = |line: &str| {
        let mut row: Value = serde_json::from_str(&moved(line, fixture.made_ms(), by_ms)).unwrap();
        // The time to live is in seconds.
        if let Some(seconds) = row["ttl"]["N"].as_str().and_then(|n| n.parse::<i64>().ok()) {
            row["ttl"]["N"] = (seconds + by_ms / 1000).to_string().into();
        } else {
            row.as_object_mut().unwrap().remove("ttl");
        }
        row
    };
    dump.lines().map(row).collect()
}

#[test]
fn a_table_dump_has_every_kind_of_row() {
    has_every_kind(&Fixture::aws());
}
