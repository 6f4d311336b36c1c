//! Lists as callers stage them: bytes, and beside them what each record must become. Written down as they are made, not
//! decoded, so that they judge the decoder and everything behind it.

use crate::dice::Dice;
use bytes::Bytes;
use conveyor_domain::ingest::list::Column;
use conveyor_domain::{Compression, CsvSpec, ListFault, ListSpec, OnInvalidRows, TaskInput};
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io::Write as _;

/// Records that a list may have; small, so that some have more.
pub const RECORDS_MAX: u32 = 100;
const RECORDS_DRAWN_MAX: u32 = 120;
/// The trailer of a gzip file: without it, it is known to be incomplete.
const GZIP_TRAILER_BYTES: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    pub bytes: Bytes,
    pub spec: ListSpec,
    pub compression: Compression,
    /// The task that each record is; `None` for one that is none.
    pub records: Vec<Option<TaskInput>>,
    /// What keeps the bytes from being read to their end.
    unreadable: Option<ListFault>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Short,
    Long,
    SomeInvalid,
    AllInvalid,
    Empty,
    /// The column that the slot names is not there.
    WithoutColumn,
    Truncated,
}

impl List {
    /// No two lists of a simulation have a task in common: `number` tells them apart.
    pub fn draw(dice: &Dice, number: u64) -> List {
        let kinds = [
            (40, Kind::Short),
            (14, Kind::Long),
            (30, Kind::SomeInvalid),
            (4, Kind::AllInvalid),
            (3, Kind::Empty),
            (3, Kind::WithoutColumn),
            (6, Kind::Truncated),
        ];
        let kind = dice.weighted(&kinds).unwrap_or(Kind::Short);
        let count = match kind {
            Kind::Short | Kind::WithoutColumn | Kind::AllInvalid => dice.between(1, 12),
            Kind::SomeInvalid | Kind::Truncated => dice.between(2, 50),
            Kind::Long => dice.between(41, RECORDS_DRAWN_MAX),
            Kind::Empty => 0,
        };
        let invalid = match kind {
            Kind::AllInvalid => 1.0,
            Kind::SomeInvalid | Kind::Truncated => 0.2,
            Kind::Long => 0.02,
            Kind::Short | Kind::Empty | Kind::WithoutColumn => 0.0,
        };
        let records: Vec<_> = (0..count).map(|index| record(dice, number, index, invalid)).collect();
        let spec = spec(dice, kind == Kind::WithoutColumn);
        let plain = text(dice, &spec, &records);
        let gzip = kind == Kind::Truncated || dice.chance(0.25);
        let mut bytes = if gzip { compressed(plain.as_bytes()) } else { plain.into_bytes() };
        let unreadable = match kind {
            Kind::WithoutColumn => Some(ListFault::ColumnNotFound),
            Kind::Truncated => Some(ListFault::SourceTruncated),
            Kind::Short | Kind::Long | Kind::SomeInvalid | Kind::AllInvalid | Kind::Empty => None,
        };
        if kind == Kind::Truncated {
            bytes.truncate(bytes.len() - GZIP_TRAILER_BYTES);
        }
        List {
            bytes: bytes.into(),
            spec,
            compression: if gzip { Compression::Gzip } else { Compression::None },
            records,
            unreadable,
        }
    }

    pub fn etag(&self) -> String {
        Sha256::digest(&self.bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub fn len(&self) -> u32 {
        u32::try_from(self.records.len()).unwrap_or(u32::MAX)
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The tasks from one record to before another, each at its index.
    pub fn tasks(&self, from: u32, to: u32) -> impl Iterator<Item = (u32, &TaskInput)> {
        (from..to).filter_map(|index| Some((index, self.records.get(index as usize)?.as_ref()?)))
    }

    pub fn valid(&self, from: u32, to: u32) -> u32 {
        u32::try_from(self.tasks(from, to).count()).unwrap_or(u32::MAX)
    }

    /// The records from one to before another that are no tasks.
    pub fn rejected(&self, from: u32, to: u32) -> impl Iterator<Item = u32> + '_ {
        (from..to).filter(|index| self.records.get(*index as usize).is_some_and(Option::is_none))
    }

    /// Why it cannot be taken, if it cannot.
    pub fn fault(&self, on_invalid_rows: OnInvalidRows) -> Option<ListFault> {
        let valid = self.valid(0, self.len());
        if self.unreadable == Some(ListFault::ColumnNotFound) {
            return self.unreadable;
        }
        // Found at the record that is one too many, which comes before the end.
        if self.len() > RECORDS_MAX {
            return Some(ListFault::TooManyRows);
        }
        if self.unreadable.is_some() {
            return self.unreadable;
        }
        match on_invalid_rows {
            OnInvalidRows::Fail if valid < self.len() => Some(ListFault::InvalidRows),
            OnInvalidRows::Fail | OnInvalidRows::Skip if valid == 0 => Some(ListFault::NoValidRows),
            OnInvalidRows::Fail | OnInvalidRows::Skip => None,
        }
    }
}

fn record(dice: &Dice, number: u64, index: u32, invalid: f64) -> Option<TaskInput> {
    let url = format!("https://example.com/list/{number}/{index}");
    (!dice.chance(invalid)).then(|| TaskInput::from_url(&url).expect("a valid URL"))
}

fn spec(dice: &Dice, without_column: bool) -> ListSpec {
    let csv = |name: &str| {
        let url = Column::Name(name.to_owned());
        let csv = CsvSpec { delimiter: b';', quote: b'"', header: true, url, external_id: None };
        ListSpec::Csv { csv: Some(csv) }
    };
    if without_column {
        return csv("link");
    }
    match dice.between(0, 2) {
        0 => csv("url"),
        1 => ListSpec::Jsonl,
        _ => ListSpec::Lines,
    }
}

/// The list in its format, with lines between the records that are none.
fn text(dice: &Dice, spec: &ListSpec, records: &[Option<TaskInput>]) -> String {
    let end = if dice.chance(0.3) { "\r\n" } else { "\n" };
    let mut text = String::new();
    if let ListSpec::Csv { .. } = spec {
        let _ = write!(text, "note;url{end}");
    }
    for (index, record) in records.iter().enumerate() {
        let url = match record {
            Some(input) => input.url.clone(),
            None if dice.chance(0.5) => format!("ftp://example.com/{index}"),
            None => format!("no url {index}"),
        };
        if dice.chance(0.05) {
            let _ = match spec {
                ListSpec::Lines => write!(text, "# no record{end}{end}"),
                ListSpec::Jsonl | ListSpec::Csv { .. } => write!(text, "{end}"),
            };
        }
        let _ = match spec {
            // A quoted line break: a record is not a line.
            ListSpec::Csv { .. } if dice.chance(0.1) => write!(text, "\"two{end}lines\";\"{url}\"{end}"),
            ListSpec::Csv { .. } => write!(text, "{index};{url}{end}"),
            ListSpec::Jsonl => write!(text, "{{\"url\":\"{url}\"}}{end}"),
            ListSpec::Lines => write!(text, "{url}{end}"),
        };
    }
    if dice.chance(0.3) {
        text.truncate(text.trim_end().len());
    }
    text
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.expect("writing to memory does not fail")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_every_kind_are_drawn() {
        let dice = Dice::new(5);
        let lists: Vec<List> = (0..600).map(|number| List::draw(&dice, number)).collect();
        let faults: Vec<_> = lists.iter().map(|list| list.fault(OnInvalidRows::Fail)).collect();
        for fault in [
            ListFault::ColumnNotFound,
            ListFault::TooManyRows,
            ListFault::SourceTruncated,
            ListFault::InvalidRows,
            ListFault::NoValidRows,
        ] {
            assert!(faults.contains(&Some(fault)), "{fault}");
        }
        assert!(faults.iter().filter(|fault| fault.is_none()).count() > 200);
        assert!(lists.iter().any(|list| list.fault(OnInvalidRows::Skip) == Some(ListFault::NoValidRows)));
    }
}
