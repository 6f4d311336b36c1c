//! CSV: two columns of each record make a task, and the first record may say which. Other columns are ignored.

mod cells;
mod columns;
mod cutter;

pub(crate) use cells::Cells;
pub(crate) use columns::{Columns, NotFound};

use crate::decoder::{Found, Refusal};
use crate::rows;
use columns::First;
use conveyor_domain::CsvSpec;
use conveyor_domain::ingest::list::Layout;
use cutter::{CsvCutter, Cut};

#[derive(Debug)]
pub(crate) struct CsvRecords {
    cutter: CsvCutter,
    delimiter: u8,
    quote: u8,
    columns: KnownColumns,
}

#[derive(Debug)]
enum KnownColumns {
    Known(Columns),
    /// The first record will tell.
    Awaited(Option<CsvSpec>),
}

impl CsvRecords {
    /// For a list whose delimiter and quote are as usual.
    pub fn open_unspecified(delimiter: u8) -> CsvRecords {
        CsvRecords::new(delimiter, b'"', KnownColumns::Awaited(None))
    }

    pub fn open(spec: &CsvSpec) -> Result<CsvRecords, NotFound> {
        let columns = if spec.header {
            KnownColumns::Awaited(Some(spec.clone()))
        } else {
            KnownColumns::Known(columns::without_header(spec)?)
        };
        Ok(CsvRecords::new(spec.delimiter, spec.quote, columns))
    }

    pub fn resume(delimiter: u8, quote: u8, url: u32, external_id: Option<u32>) -> CsvRecords {
        let columns = Columns { url: url as usize, external_id: external_id.map(|column| column as usize) };
        CsvRecords::new(delimiter, quote, KnownColumns::Known(columns))
    }

    fn new(delimiter: u8, quote: u8, columns: KnownColumns) -> CsvRecords {
        CsvRecords { cutter: CsvCutter::new(delimiter, quote), delimiter, quote, columns }
    }

    /// `None` as long as the first record has not come.
    pub fn layout(&self) -> Option<Layout> {
        let KnownColumns::Known(columns) = self.columns else { return None };
        // A column was found within a record, or was a `u32` to begin with.
        let narrow = |column: usize| u32::try_from(column).unwrap_or(u32::MAX);
        Some(Layout::Csv {
            delimiter: self.delimiter,
            quote: self.quote,
            url: narrow(columns.url),
            external_id: columns.external_id.map(narrow),
        })
    }

    /// Takes bytes off the front of `input`, to the end of the record. After the `last` bytes there are no more.
    pub fn find(&mut self, input: &mut &[u8], last: bool) -> Result<Found, Refusal> {
        let cut = self.cutter.cut(input, last).map_err(|_| Refusal::too_long(self.cutter.lead))?;
        let (lead, body) = (self.cutter.lead, self.cutter.body);
        let cells = self.cutter.cells();
        match (cut, &self.columns) {
            (Cut::Hungry, _) => Ok(Found::Nothing),
            (Cut::Record, _) if cells.is_blank() => Ok(Found::Record { lead, body, row: None }),
            (Cut::Record, KnownColumns::Known(columns)) => {
                Ok(Found::Record { lead, body, row: Some(rows::of_cells(cells, *columns)) })
            }
            (Cut::Record, KnownColumns::Awaited(spec)) => {
                let first = columns::of_first_record(spec.as_ref(), cells);
                match first.map_err(|not_found| Refusal::column_not_found(lead, not_found))? {
                    First::Header(columns) => {
                        self.columns = KnownColumns::Known(columns);
                        Ok(Found::Header { lead, body })
                    }
                    First::Row(columns) => {
                        self.columns = KnownColumns::Known(columns);
                        self.cutter.hold();
                        Ok(Found::Opened)
                    }
                }
            }
            (Cut::End, KnownColumns::Known(_)) => Ok(Found::End { lead }),
            (Cut::End, KnownColumns::Awaited(spec)) => {
                self.columns = KnownColumns::Known(columns::of_empty_list(spec.as_ref()));
                Ok(Found::End { lead })
            }
        }
    }
}
