//! Whole lists through the public interface.

mod columns;
mod csv;
mod expansion;
mod faults;
mod generated;
mod properties;
mod resumption;
mod text;

use crate::invariants::{Reading, read};
use crate::{Record, Row};
use conveyor_domain::ingest::list::Column;
use conveyor_domain::job::task_input::{Invalid, Reason};
use conveyor_domain::{CsvSpec, ListSpec};

const CSV: ListSpec = ListSpec::Csv { csv: None };

/// A record in short: line, offset, and its row or reason and value.
type Seen = (u64, u64, Result<Row, (Reason, String)>);

fn seen(reading: &Reading) -> Vec<Seen> {
    reading.records.iter().map(|(_, record)| short(record.clone())).collect()
}

fn short(record: Record) -> Seen {
    (record.line, record.offset, record.row.map_err(|Invalid { reason, value }| (reason, value)))
}

fn decode(list: impl AsRef<[u8]>, spec: &ListSpec) -> Vec<Seen> {
    let reading = read(list.as_ref(), spec, &[]);
    assert!(reading.end.is_ok(), "{:?}", reading.end);
    seen(&reading)
}

fn url(line: u64, offset: u64, url: &str) -> Seen {
    (line, offset, Ok(Row::Url { url: url.to_owned(), external_id: None }))
}

fn url_with_id(line: u64, offset: u64, url: &str, id: &str) -> Seen {
    (line, offset, Ok(Row::Url { url: url.to_owned(), external_id: Some(id.to_owned()) }))
}

fn bad(line: u64, offset: u64, reason: Reason, value: &str) -> Seen {
    (line, offset, Err((reason, value.to_owned())))
}

fn named(name: &str) -> Column {
    Column::Name(name.to_owned())
}

fn csv_spec(header: bool, url: Column, external_id: Option<Column>) -> CsvSpec {
    CsvSpec { delimiter: b',', quote: b'"', header, url, external_id }
}

fn specified(csv: CsvSpec) -> ListSpec {
    ListSpec::Csv { csv: Some(csv) }
}
