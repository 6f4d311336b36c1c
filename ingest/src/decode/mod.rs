//! Decoding a list: one bounded pass over its bytes, row by row, in any of three formats.

mod csv;
mod error;
mod jsonl;
mod lines;
mod sniff;
mod source;

pub use error::DecodeError;
pub use sniff::{SNIFF_BYTES, sniff, sniff_delimiter};

use conveyor_domain::limits;
use serde_json::Value;
use source::Source;
use std::fmt;
use std::io::Read;
use std::str::FromStr;

/// The longest line, and the longest CSV record, that is read. It bounds the memory of a decoder.
pub const MAX_LINE_BYTES: usize = limits::LINE_MAX_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// Told by the first bytes; see [`sniff`].
    #[default]
    Auto,
    Csv,
    Jsonl,
    Lines,
}

impl Format {
    pub const NAMES: [&str; 4] = ["auto", "csv", "jsonl", "lines"];

    pub fn as_str(self) -> &'static str {
        match self {
            Format::Auto => "auto",
            Format::Csv => "csv",
            Format::Jsonl => "jsonl",
            Format::Lines => "lines",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a list format: use one of auto, csv, jsonl, lines")]
pub struct UnknownFormat;

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Format, UnknownFormat> {
        match name {
            "auto" => Ok(Format::Auto),
            "csv" => Ok(Format::Csv),
            "jsonl" => Ok(Format::Jsonl),
            "lines" => Ok(Format::Lines),
            _ => Err(UnknownFormat),
        }
    }
}

/// One task of the list.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Where it stands: the number of its (first) line, from 1.
    pub line: u64,
    /// The task object as the API takes it.
    pub value: Value,
}

/// The rows of a list, in order.
///
/// A bad row is an error in its place, and the list goes on after it. An error of the list itself
/// ([`DecodeError::ends_list`]) is the last item.
#[derive(Debug)]
pub struct Rows<R: Read> {
    decoder: Decoder<R>,
    ended: bool,
}

#[derive(Debug)]
enum Decoder<R: Read> {
    Lines(lines::Lines<R>),
    Jsonl(jsonl::Jsonl<R>),
    Csv(Box<csv::Records<R>>),
}

impl<R: Read> Rows<R> {
    /// Opens a list. The delimiter of a CSV is told by its first bytes unless it is given.
    pub fn open(reader: R, format: Format, delimiter: Option<u8>) -> Result<Rows<R>, DecodeError> {
        let (source, head) = Source::open(reader)?;
        let format = if format == Format::Auto { sniff(&head) } else { format };
        let decoder = match format {
            Format::Csv => {
                let delimiter = delimiter.unwrap_or_else(|| sniff_delimiter(&head));
                Decoder::Csv(Box::new(csv::Records::new(source, delimiter)))
            }
            Format::Jsonl => Decoder::Jsonl(jsonl::Jsonl::new(source)),
            Format::Lines | Format::Auto => Decoder::Lines(lines::Lines::new(source)),
        };
        Ok(Rows { decoder, ended: false })
    }

    /// What the list is decoded as; never `Auto`.
    pub fn format(&self) -> Format {
        match self.decoder {
            Decoder::Lines(_) => Format::Lines,
            Decoder::Jsonl(_) => Format::Jsonl,
            Decoder::Csv(_) => Format::Csv,
        }
    }
}

impl<R: Read> Iterator for Rows<R> {
    type Item = Result<Row, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let row = match &mut self.decoder {
            Decoder::Lines(lines) => lines.next_row(),
            Decoder::Jsonl(jsonl) => jsonl.next_row(),
            Decoder::Csv(records) => records.next_row(),
        };
        // What follows a failed read or an endless line is not known to be the list: stop rather than guess.
        self.ended = match &row {
            Ok(Some(_)) => false,
            Ok(None) => true,
            Err(e) => e.ends_list(),
        };
        row.transpose()
    }
}

#[cfg(test)]
mod tests;
