//! Staged lists: how their bytes are to be read, where a reader stands in them, and why one cannot be taken.

use crate::job::failure::cut;
use crate::job::task_input::{Invalid, Reason};
use crate::limits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a list is to be read. Fixed when its upload slot is made; compression is not part of it, the bytes tell that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ListSpec {
    /// Without a specification of its own, delimiter and columns are told by the first record.
    Csv {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        csv: Option<CsvSpec>,
    },
    /// A task object a line.
    Jsonl,
    /// A URL a line.
    Lines,
}

impl ListSpec {
    pub fn content_type(&self) -> &'static str {
        match self {
            ListSpec::Csv { .. } => "text/csv",
            ListSpec::Jsonl => "application/x-ndjson",
            ListSpec::Lines => "text/plain",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CsvSpec {
    pub delimiter: u8,
    pub quote: u8,
    /// The first record names the columns and is no row.
    pub header: bool,
    pub url: Column,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_id: Option<Column>,
}

/// A column of a CSV, as a caller names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "must be the name of a column, or its index from 0")]
pub enum Column {
    /// From 0.
    Index(u32),
    /// Needs a header.
    Name(String),
}

/// What a list turned out to be, once its first bytes were seen: enough to go on in the middle of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "format", rename_all = "snake_case")]
pub enum Layout {
    Csv {
        delimiter: u8,
        quote: u8,
        url: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        external_id: Option<u32>,
    },
    Jsonl,
    Lines,
}

/// A place between two records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// In bytes of the expanded list.
    pub offset: u64,
    /// Lines before it.
    pub line: u64,
    /// The index of the next record: how many records, good and bad, are before it.
    pub index: u32,
}

crate::words! {
    /// How a list is compressed: `none`, `gzip` or `zstd`.
    #[derive(JsonSchema)]
    pub enum Compression as json {
        None = "none",
        Gzip = "gzip",
        Zstd = "zstd",
    }
}

/// What becomes of a list that has an invalid row. `skip`: the row is reported, the list goes on. `fail`: the list is
/// refused before any of its tasks can start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnInvalidRows {
    /// The row is rejected and reported; the list goes on.
    #[default]
    Skip,
    /// The list is refused before any of its tasks can start.
    Fail,
}

/// A record of a list that is not a valid task, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [
    {"index": 16, "line": 17, "offset": 812, "reason": "malformed_url", "value": "htp://example"}
]))]
pub struct RejectedRow {
    /// The place in the list, from 0.
    pub index: u32,
    /// Of its first line, from 1.
    pub line: u64,
    /// In bytes of the expanded list.
    pub offset: u64,
    pub reason: Reason,
    /// Cut short.
    pub value: String,
}

impl RejectedRow {
    pub fn new(index: u32, line: u64, offset: u64, invalid: Invalid) -> RejectedRow {
        RejectedRow { index, line, offset, reason: invalid.reason, value: invalid.value }
    }

    /// A report: the rows, one a line.
    pub fn report(rows: &[RejectedRow]) -> Vec<u8> {
        // A row is numbers and text: it always has a JSON form.
        let line = |row| serde_json::to_vec(row).unwrap_or_default();
        rows.iter().flat_map(|row| [line(row), b"\n".to_vec()]).flatten().collect()
    }
}

/// Unknown fields of the rows of a list that were ignored: by name, in how many rows each is. Bounded, however many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownCounts {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub named: BTreeMap<String, u32>,
    /// Times that a field was met for whose name there was no room.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u32,
}

impl UnknownCounts {
    pub fn is_empty(&self) -> bool {
        self.named.is_empty() && self.more == 0
    }

    pub fn add(&mut self, field: &str) {
        self.add_times(cut(field, limits::ECHO_MAX_CHARS), 1);
    }

    pub fn add_all(&mut self, other: &UnknownCounts) {
        other.named.iter().for_each(|(field, times)| self.add_times(field, *times));
        self.more = self.more.saturating_add(other.more);
    }

    fn add_times(&mut self, field: &str, times: u32) {
        let room = self.named.len() < limits::WARNINGS_MAX;
        let count = match self.named.get_mut(field) {
            Some(count) => count,
            None if room => self.named.entry(field.to_owned()).or_default(),
            None => &mut self.more,
        };
        *count = count.saturating_add(times);
    }
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

crate::words! {
    /// Why a list cannot be taken, for good: reading it again would end the same way.
    #[derive(JsonSchema)]
    pub enum ListFault as json {
        SourceTruncated = "source_truncated",
        SourceCorrupt = "source_corrupt",
        SourceChanged = "source_changed",
        SourceTooLarge = "source_too_large",
        ExpandedTooLarge = "expanded_too_large",
        ExpansionRatioExceeded = "expansion_ratio_exceeded",
        LineTooLong = "line_too_long",
        TooManyRows = "too_many_rows",
        ColumnNotFound = "column_not_found",
        InvalidRows = "invalid_rows",
        NoValidRows = "no_valid_rows",
        /// Its caller may not have so many tasks at once.
        QuotaExceeded = "quota_exceeded",
        /// It could not be read, however often that was tried: not for what is in it.
        IngestFailed = "ingest_failed",
    }
}

impl ListFault {
    /// Whether it is in the list: whoever reads the same bytes again finds it again.
    pub fn is_in_the_list(self) -> bool {
        match self {
            ListFault::SourceTruncated
            | ListFault::SourceCorrupt
            | ListFault::SourceChanged
            | ListFault::SourceTooLarge
            | ListFault::ExpandedTooLarge
            | ListFault::ExpansionRatioExceeded
            | ListFault::LineTooLong
            | ListFault::TooManyRows
            | ListFault::ColumnNotFound
            | ListFault::InvalidRows
            | ListFault::NoValidRows => true,
            ListFault::QuotaExceeded | ListFault::IngestFailed => false,
        }
    }

    /// Whether the same bytes end the same way whatever the limits of the deployment are: an operator may raise those
    /// (`--run-tasks-max`, `--list-max-bytes`, `--list-expanded-max-bytes`).
    pub fn is_for_good(self) -> bool {
        let by_limit =
            matches!(self, ListFault::SourceTooLarge | ListFault::ExpandedTooLarge | ListFault::TooManyRows);
        self.is_in_the_list() && !by_limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_are_counted_within_bounds() {
        let mut first = UnknownCounts::default();
        (0..limits::WARNINGS_MAX - 1).for_each(|n| first.add(&format!("field{n:02}")));
        let mut second = UnknownCounts::default();
        ["field03", "new", "newer", "newest"].into_iter().for_each(|field| second.add(field));
        first.add_all(&second);
        assert_eq!((first.named["field03"], first.named["new"]), (2, 1));
        assert_eq!((first.named.len(), first.more), (limits::WARNINGS_MAX, 2));
        first.add(&"x".repeat(1_000));
        assert_eq!(first.more, 3);
        assert_eq!(serde_json::from_str::<UnknownCounts>("{}").unwrap(), UnknownCounts::default());
    }
}
