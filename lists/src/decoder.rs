//! The decoder proper: slices of bytes in, records out, no I/O. It takes in every byte that it is given, so the same bytes
//! make the same records however they are cut into slices.

use crate::csv::{CsvRecords, NotFound};
use crate::error::ListError;
use crate::extent::Extent;
use crate::lines::{Cut, LineCutter};
use crate::record::Record;
use crate::rows::{self, RowResult};
use crate::sniff::sniff_delimiter;
use conveyor_domain::ingest::list::{Layout, Position};
use conveyor_domain::limits::LINE_MAX_BYTES;
use conveyor_domain::{ListFault, ListSpec};

#[derive(Debug)]
pub(crate) enum Step {
    /// All bytes were taken in, and they did not make a record yet.
    Hungry,
    /// The first record told the columns of a CSV: [`Decoder::layout`] is known from now on.
    Opened,
    Record(Record),
    End,
}

/// What a format made of some bytes.
#[derive(Debug)]
pub(crate) enum Found {
    /// The record goes on.
    Nothing,
    /// A record behind some line ends that are no part of it; no row if it is blank or a comment.
    Record {
        lead: Extent,
        body: Extent,
        row: Option<RowResult>,
    },
    Header {
        lead: Extent,
        body: Extent,
    },
    /// There is no header; the first record is still to come.
    Opened,
    End {
        lead: Extent,
    },
}

/// Why a list ends at this record.
#[derive(Debug)]
pub(crate) struct Refusal {
    lead: Extent,
    fault: ListFault,
    detail: String,
}

impl Refusal {
    pub fn too_long(lead: Extent) -> Refusal {
        Refusal { lead, fault: ListFault::LineTooLong, detail: format!("longer than {LINE_MAX_BYTES} bytes") }
    }

    pub fn column_not_found(lead: Extent, NotFound(detail): NotFound) -> Refusal {
        Refusal { lead, fault: ListFault::ColumnNotFound, detail }
    }

    fn at(self, cursor: Position) -> ListError {
        ListError::fault(self.fault, Some(self.lead.behind(cursor).line + 1), self.detail)
    }
}

#[derive(Debug)]
pub(crate) struct Decoder {
    format: Format,
    /// Behind the last record, or line that is none.
    cursor: Position,
    /// Behind the last record that was given out.
    given: Position,
}

#[derive(Debug)]
enum Format {
    Lines(LineCutter),
    Jsonl(LineCutter),
    Csv(Box<CsvRecords>),
}

impl Decoder {
    /// For a list of which nothing was read but its head, which is not taken in here. `at` is behind the byte order mark.
    pub fn open(spec: &ListSpec, head: &[u8], at: Position) -> Result<Decoder, ListError> {
        let csv = match spec {
            ListSpec::Lines => return Ok(Decoder::resume(&Layout::Lines, at)),
            ListSpec::Jsonl => return Ok(Decoder::resume(&Layout::Jsonl, at)),
            ListSpec::Csv { csv: None } => CsvRecords::open_unspecified(sniff_delimiter(head)),
            ListSpec::Csv { csv: Some(csv) } => CsvRecords::open(csv)
                .map_err(|NotFound(detail)| ListError::fault(ListFault::ColumnNotFound, None, detail))?,
        };
        Ok(Decoder::new(Format::Csv(Box::new(csv)), at))
    }

    pub fn resume(layout: &Layout, at: Position) -> Decoder {
        let format = match *layout {
            Layout::Lines => Format::Lines(LineCutter::default()),
            Layout::Jsonl => Format::Jsonl(LineCutter::default()),
            Layout::Csv { delimiter, quote, url, external_id } => {
                Format::Csv(Box::new(CsvRecords::resume(delimiter, quote, url, external_id)))
            }
        };
        Decoder::new(format, at)
    }

    fn new(format: Format, at: Position) -> Decoder {
        Decoder { format, cursor: at, given: at }
    }

    /// What the list turned out to be; `None` as long as the first record of a CSV has not come.
    pub fn layout(&self) -> Option<Layout> {
        match &self.format {
            Format::Lines(_) => Some(Layout::Lines),
            Format::Jsonl(_) => Some(Layout::Jsonl),
            Format::Csv(csv) => csv.layout(),
        }
    }

    /// Behind the last record that was given out; at the end of the list once that was reached.
    pub fn position(&self) -> Position {
        self.given
    }

    /// Takes bytes off the front of `input`, to the end of the next record. After the `last` bytes there are no more.
    pub fn step(&mut self, input: &mut &[u8], last: bool) -> Result<Step, ListError> {
        loop {
            let found = match &mut self.format {
                Format::Lines(lines) => find_line(lines, input, last, rows::of_line),
                Format::Jsonl(lines) => find_line(lines, input, last, rows::of_json_line),
                Format::Csv(csv) => csv.find(input, last),
            };
            match found.map_err(|refusal| refusal.at(self.cursor))? {
                Found::Nothing => return Ok(Step::Hungry),
                Found::Opened => return Ok(Step::Opened),
                Found::Header { lead, body } => {
                    self.cursor = body.behind(lead.behind(self.cursor));
                    self.given = self.cursor;
                    return Ok(Step::Opened);
                }
                Found::Record { lead, body, row } => {
                    let begin = lead.behind(self.cursor);
                    self.cursor = body.behind(begin);
                    if let Some(row) = row {
                        return self.give(begin, row).map(Step::Record);
                    }
                }
                Found::End { lead } => {
                    self.cursor = lead.behind(self.cursor);
                    self.given = self.cursor;
                    return Ok(Step::End);
                }
            }
        }
    }

    fn give(&mut self, begin: Position, row: RowResult) -> Result<Record, ListError> {
        let (index, line) = (begin.index, begin.line + 1);
        let Some(next) = index.checked_add(1) else {
            return Err(ListError::fault(
                ListFault::TooManyRows,
                Some(line),
                "more rows than can be counted",
            ));
        };
        self.cursor.index = next;
        self.given = self.cursor;
        Ok(Record { index, line, offset: begin.offset, row })
    }
}

fn find_line(
    lines: &mut LineCutter,
    input: &mut &[u8],
    last: bool,
    row_of: fn(&[u8]) -> Option<RowResult>,
) -> Result<Found, Refusal> {
    let lead = Extent::default();
    Ok(match lines.cut(input, last).map_err(|_| Refusal::too_long(lead))? {
        Cut::Hungry => Found::Nothing,
        Cut::Line(line) => Found::Record { lead, body: Extent::of_line(line), row: row_of(line) },
        Cut::End => Found::End { lead },
    })
}
