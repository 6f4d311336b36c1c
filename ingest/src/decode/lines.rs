//! One URL a line. Blank lines and lines that start with `#` are not rows.

use super::source::Source;
use super::{DecodeError, Row};
use serde_json::json;
use std::io::Read;

#[derive(Debug)]
pub(super) struct Lines<R> {
    source: Source<R>,
    line: Vec<u8>,
}

impl<R: Read> Lines<R> {
    pub fn new(source: Source<R>) -> Lines<R> {
        Lines { source, line: Vec::new() }
    }

    pub fn next_row(&mut self) -> Result<Option<Row>, DecodeError> {
        while let Some(line) = self.source.next_line(&mut self.line)? {
            let text = str::from_utf8(&self.line).map_err(|_| DecodeError::NotUtf8 { line })?.trim();
            if !text.is_empty() && !text.starts_with('#') {
                return Ok(Some(Row { line, value: json!({ "url": text }) }));
            }
        }
        Ok(None)
    }
}
