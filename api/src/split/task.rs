//! One task, from the byte that begins it to the one that ends it.

use super::{InString, Lines, Place, SplitError, after, is_space};
use conveyor_domain::limits;
use serde_json::value::RawValue;

#[derive(Debug)]
pub(super) struct Task {
    begins: Place,
    /// As much as a task may have.
    kept: Vec<u8>,
    /// Bytes so far, and bytes without the space at the end.
    seen: usize,
    length: usize,
    depth: usize,
    string: Option<InString>,
}

impl Task {
    pub fn new(begins: Place) -> Task {
        Task { begins, kept: Vec::new(), seen: 0, length: 0, depth: 0, string: None }
    }

    pub fn held(&self) -> usize {
        self.kept.len()
    }

    /// Takes in bytes up to the one that ends the task, if it is among them.
    pub fn take(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut n = 0;
        let ended = loop {
            let Some(&byte) = bytes.get(n) else { break false };
            if let Some(string) = self.string {
                // Most of a task is the inside of strings.
                if string == InString::Plain {
                    n += memchr::memchr2(b'"', b'\\', &bytes[n..]).unwrap_or(bytes.len() - n);
                }
                let Some(&byte) = bytes.get(n) else { break false };
                self.string = after(string, byte);
            } else {
                match byte {
                    b'"' => self.string = Some(InString::Plain),
                    b'{' | b'[' => self.depth += 1,
                    b',' | b']' if self.depth == 0 => break true,
                    b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                    _ => {}
                }
            }
            n += 1;
        };
        self.keep(&bytes[..n]);
        (n, ended)
    }

    fn keep(&mut self, bytes: &[u8]) {
        if let Some(last) = bytes.iter().rposition(|b| !is_space(*b)) {
            self.length = self.seen + last + 1;
        }
        self.seen += bytes.len();
        let room = limits::TASK_JSON_MAX_BYTES.saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    pub fn write(&self, lines: &mut Lines) -> Result<(), SplitError> {
        if self.length > limits::TASK_JSON_MAX_BYTES {
            // In its place stands what is no task either, so that it keeps its index and is refused with the others.
            lines.push(format!("\"{} bytes\"", self.length).as_bytes());
            return Ok(());
        }
        let json = &self.kept[..self.length];
        serde_json::from_slice::<&RawValue>(json).map_err(|e| {
            SplitError::NotJson(self.begins.plus(Place { line: e.line(), column: e.column() }))
        })?;
        lines.push(json);
        Ok(())
    }
}
