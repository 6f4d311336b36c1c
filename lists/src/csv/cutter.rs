//! Cutting bytes into CSV records. The grammar is that of `csv-core`, which says exactly how many bytes it used; here is
//! what it does not know: where a record begins, and that it may not be endless.

use super::cells::Cells;
use crate::extent::Extent;
use crate::lines::TooLong;
use conveyor_domain::limits::{KIB, LINE_MAX_BYTES};
use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Cut {
    /// All bytes were taken in, and the record goes on.
    Hungry,
    /// It is there: [`CsvCutter::cells`].
    Record,
    End,
}

/// Holds the cells of one record, as far as they came.
#[derive(Debug)]
pub(crate) struct CsvCutter {
    core: Reader,
    text: Vec<u8>,
    text_len: usize,
    /// Where each cell ends in `text`.
    ends: Vec<usize>,
    cells: usize,
    /// Ends of lines before the record, which are no part of it.
    pub lead: Extent,
    pub body: Extent,
    /// All of that was given out.
    spent: bool,
    /// It is to be given out once more.
    held: bool,
}

impl CsvCutter {
    pub fn new(delimiter: u8, quote: u8) -> CsvCutter {
        let mut core = ReaderBuilder::new().delimiter(delimiter).quote(quote).build();
        // It would drop a byte order mark from what it sees first, which after a resumption is the middle of the list.
        core.read_record(&[], &mut [], &mut []);
        CsvCutter {
            core,
            text: vec![0; 4 * KIB],
            text_len: 0,
            ends: vec![0; 64],
            cells: 0,
            lead: Extent::default(),
            body: Extent::default(),
            spent: false,
            held: false,
        }
    }

    /// Takes bytes off the front of `input`, to the end of the record. After the `last` bytes there are no more.
    pub fn cut(&mut self, input: &mut &[u8], last: bool) -> Result<Cut, TooLong> {
        if std::mem::take(&mut self.held) {
            return Ok(Cut::Record);
        }
        if std::mem::take(&mut self.spent) {
            (self.text_len, self.cells) = (0, 0);
            (self.lead, self.body) = (Extent::default(), Extent::default());
        }
        if self.body.bytes == 0 {
            self.skip_line_ends(input);
        }
        loop {
            match (input.is_empty(), last) {
                (true, false) => return Ok(Cut::Hungry),
                (true, true) if self.body.bytes == 0 => return Ok(self.end()),
                // To the parser no bytes are the end of the list; it then closes the record.
                (true, true) | (false, _) => {}
            }
            match self.parse(input)? {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => self.text.resize(self.text.len() * 2, 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
                ReadRecordResult::Record => {
                    self.spent = true;
                    return Ok(Cut::Record);
                }
                ReadRecordResult::End => return Ok(self.end()),
            }
        }
    }

    fn end(&mut self) -> Cut {
        self.spent = true;
        Cut::End
    }

    /// Has the record that was given out last given out again.
    pub fn hold(&mut self) {
        self.held = true;
    }

    pub fn cells(&self) -> Cells<'_> {
        Cells::new(&self.text[..self.text_len], &self.ends[..self.cells])
    }

    fn skip_line_ends(&mut self, input: &mut &[u8]) {
        let skipped = input.iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
        self.lead += Extent::of(&input[..skipped]);
        *input = &input[skipped..];
    }

    /// Gives the parser no more than a record may have, and the byte that ends it: a quote that is never closed cannot
    /// make it swallow the list. What it writes is no longer than what it reads, so its output is bounded as well.
    fn parse(&mut self, input: &mut &[u8]) -> Result<ReadRecordResult, TooLong> {
        let room = LINE_MAX_BYTES + 1 - self.body.bytes as usize;
        if room == 0 {
            return Err(TooLong);
        }
        let offered = &input[..room.min(input.len())];
        let (result, read, written, ended) =
            self.core.read_record(offered, &mut self.text[self.text_len..], &mut self.ends[self.cells..]);
        self.body += Extent::of(&offered[..read]);
        *input = &input[read..];
        self.text_len += written;
        self.cells += ended;
        Ok(result)
    }
}
