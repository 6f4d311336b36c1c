//! JSON Lines: each line a task object, handed on as it is. Blank lines are not rows.
//!
//! Which fields a task may have is not checked here: the API names a wrong one, and there is one place to keep the list.

use super::source::Source;
use super::{DecodeError, Row};
use serde_json::Value;
use std::io::Read;

#[derive(Debug)]
pub(super) struct Jsonl<R> {
    source: Source<R>,
    line: Vec<u8>,
}

impl<R: Read> Jsonl<R> {
    pub fn new(source: Source<R>) -> Jsonl<R> {
        Jsonl { source, line: Vec::new() }
    }

    pub fn next_row(&mut self) -> Result<Option<Row>, DecodeError> {
        while let Some(line) = self.source.next_line(&mut self.line)? {
            let text = self.line.trim_ascii();
            if text.is_empty() {
                continue;
            }
            let value: Value = serde_json::from_slice(text).map_err(|e| not_json(line, &e))?;
            if !value.is_object() {
                return Err(DecodeError::NotAnObject { line });
            }
            return Ok(Some(Row { line, value }));
        }
        Ok(None)
    }
}

fn not_json(line: u64, error: &serde_json::Error) -> DecodeError {
    // The parser saw one line and says "at line 1"; the line that helps is that of the list.
    let text = error.to_string();
    let reason = text.split_once(" at line ").map_or(text.as_str(), |(reason, _)| reason).to_owned();
    DecodeError::NotJson { line, column: error.column(), reason }
}
