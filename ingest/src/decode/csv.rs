//! CSV: the columns `url` and `external_id` by name if the first record names a `url`, otherwise the URL comes first.
//! Other columns are ignored.

use super::source::{Source, without_terminator};
use super::{DecodeError, MAX_LINE_BYTES, Row};
use csv::ByteRecord;
use serde_json::json;
use std::io::{self, Read};

#[derive(Debug)]
pub(super) struct Records<R: Read> {
    reader: csv::Reader<LineFeed<R>>,
    record: ByteRecord,
    columns: Option<Columns>,
}

#[derive(Clone, Copy, Debug)]
struct Columns {
    url: usize,
    external_id: Option<usize>,
}

impl Columns {
    /// The columns of a header; `None` if the record is not one.
    fn of_header(record: &ByteRecord) -> Option<Columns> {
        let named = |name: &str| {
            record.iter().position(|cell| cell.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
        };
        Some(Columns { url: named("url")?, external_id: named("external_id") })
    }

    const WITHOUT_HEADER: Columns = Columns { url: 0, external_id: None };
}

impl<R: Read> Records<R> {
    pub fn new(source: Source<R>, delimiter: u8) -> Records<R> {
        // `flexible`: a short record is one bad row, not the end of the list.
        let mut builder = csv::ReaderBuilder::new();
        builder.has_headers(false).flexible(true).delimiter(delimiter);
        Records {
            reader: builder.from_reader(LineFeed::new(source)),
            record: ByteRecord::new(),
            columns: None,
        }
    }

    pub fn next_row(&mut self) -> Result<Option<Row>, DecodeError> {
        while let Some(line) = self.next_record()? {
            let columns = match self.columns {
                Some(columns) => columns,
                None => {
                    let header = Columns::of_header(&self.record);
                    let columns = *self.columns.insert(header.unwrap_or(Columns::WITHOUT_HEADER));
                    if header.is_some() {
                        continue;
                    }
                    columns
                }
            };
            return self.row(line, columns).map(Some);
        }
        Ok(None)
    }

    fn row(&self, line: u64, columns: Columns) -> Result<Row, DecodeError> {
        let cell = |column: usize| -> Result<&str, DecodeError> {
            let bytes = self.record.get(column).unwrap_or_default();
            str::from_utf8(bytes).map(str::trim).map_err(|_| DecodeError::NotUtf8 { line })
        };
        let url = cell(columns.url)?;
        if url.is_empty() {
            return Err(DecodeError::NoUrl { line });
        }
        let mut value = json!({ "url": url });
        if let Some(column) = columns.external_id {
            let external_id = cell(column)?;
            if !external_id.is_empty() {
                value["external_id"] = external_id.into();
            }
        }
        Ok(Row { line, value })
    }

    /// Reads the next record that is not a line of white space, and says where it began.
    fn next_record(&mut self) -> Result<Option<u64>, DecodeError> {
        loop {
            self.reader.get_mut().begin_record();
            match self.reader.read_byte_record(&mut self.record) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(e) => return Err(self.reader.get_mut().failure(e)),
            }
            let blank = self.record.len() == 1 && self.record[0].trim_ascii().is_empty();
            if !blank {
                return Ok(Some(self.reader.get_ref().record_line()));
            }
        }
    }
}

/// Feeds the CSV parser one line a read. The parser asks for more only when it has used what it got, so the lines fed
/// since a record began are that record: its place and its size are known, though the parser reports neither exactly,
/// and a quote that is never closed cannot make it swallow the rest of the list.
#[derive(Debug)]
struct LineFeed<R> {
    source: Source<R>,
    line: Vec<u8>,
    /// How much of `line` was fed.
    fed: usize,
    record_line: Option<u64>,
    record_bytes: usize,
    failure: Option<DecodeError>,
}

impl<R: Read> LineFeed<R> {
    fn new(source: Source<R>) -> LineFeed<R> {
        LineFeed { source, line: Vec::new(), fed: 0, record_line: None, record_bytes: 0, failure: None }
    }

    fn begin_record(&mut self) {
        self.record_line = None;
        self.record_bytes = 0;
    }

    /// The line on which the record began; the last one if it began in the middle of it, after a lone carriage return.
    fn record_line(&self) -> u64 {
        self.record_line.unwrap_or(self.source.line())
    }

    fn next_line(&mut self) -> Result<(), DecodeError> {
        self.fed = 0;
        let Some(line) = self.source.next_line(&mut self.line)? else { return Ok(()) };
        let text_len = without_terminator(&self.line).len();
        // Blank lines before a record are not part of it.
        if self.record_line.is_none() && text_len == 0 {
            return Ok(());
        }
        let began = *self.record_line.get_or_insert(line);
        if self.record_bytes + text_len > MAX_LINE_BYTES {
            return Err(DecodeError::LineTooLong { line: began });
        }
        self.record_bytes += self.line.len();
        Ok(())
    }

    /// The parser only carries I/O errors; the one that it was handed is a stand-in for ours.
    fn failure(&mut self, error: csv::Error) -> DecodeError {
        self.failure.take().unwrap_or_else(|| DecodeError::Read(io::Error::from(error)))
    }
}

impl<R: Read> Read for LineFeed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.fed == self.line.len()
            && let Err(e) = self.next_line()
        {
            self.failure = Some(e);
            return Err(io::Error::other("the list ended early"));
        }
        let n = (&self.line[self.fed..]).read(into)?;
        self.fed += n;
        Ok(n)
    }
}
