//! Separates the tasks of a submit from the rest of its body, while the body arrives: each task becomes a line of JSON,
//! and what is left is the same object with `"tasks":[]`. No I/O, and never more in memory than one task and that rest.
//!
//! What is not JSON stays not JSON: each task is checked here, everything outside the list is left for the parser of the
//! rest, and a list of good tasks is as good a value as the empty one in its place.

mod outside;
mod task;

use bytes::BytesMut;
use outside::Outside;
use task::Task;

/// Tasks, a line each.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    pub bytes: BytesMut,
    pub count: usize,
}

impl Lines {
    /// A line is JSON, so that what ends lines in it is space between two of its words.
    fn push(&mut self, json: &[u8]) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(json);
        self.bytes[at..].iter_mut().filter(|b| matches!(b, b'\n' | b'\r')).for_each(|b| *b = b' ');
        self.bytes.extend_from_slice(b"\n");
        self.count += 1;
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes[..].split(|&b| b == b'\n').take(self.count)
    }
}

/// A place in a text, as JSON parsers tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// From 1.
    pub line: usize,
    /// Bytes since the line began.
    pub column: usize,
}

impl Place {
    pub const START: Place = Place { line: 1, column: 0 };

    pub fn pass(&mut self, bytes: &[u8]) {
        match memchr::memrchr(b'\n', bytes) {
            None => self.column += bytes.len(),
            Some(last) => {
                self.line += memchr::memchr_iter(b'\n', bytes).count();
                self.column = bytes.len() - last - 1;
            }
        }
    }

    /// Where `inner` is in the text in which its own text begins here.
    pub fn plus(self, inner: Place) -> Place {
        let column = if inner.line == 1 { self.column + inner.column } else { inner.column };
        Place { line: self.line + inner.line - 1, column }
    }

    /// The reverse: where this is in the text that begins at `start`.
    pub fn since(self, start: Place) -> Place {
        let column = if self.line == start.line { self.column - start.column } else { self.column };
        Place { line: self.line - start.line + 1, column }
    }

    pub fn is_behind(self, other: Place) -> bool {
        (self.line, self.column) > (other.line, other.column)
    }
}

/// The body without its tasks.
#[derive(Debug)]
pub(crate) struct Rest {
    pub bytes: Vec<u8>,
    /// Where the list opens here, and where it closes in the body.
    left_out: Option<(Place, Place)>,
}

impl Rest {
    /// Where in the body this place of the rest is.
    pub fn in_body(&self, place: Place) -> Place {
        match self.left_out {
            Some((opens, closes)) if place.is_behind(opens) => closes.plus(place.since(opens)),
            Some(_) | None => place,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SplitError {
    NotJson(Place),
    RestTooLarge,
}

#[derive(Debug)]
pub(crate) struct Splitter {
    rest: Rest,
    rest_max: usize,
    at: Place,
    outside: Outside,
    list: List,
}

/// Where the list of tasks is, as far as it was seen.
#[derive(Debug)]
enum List {
    NotYet,
    /// Between two tasks, or before the first.
    Between {
        after_comma: bool,
    },
    Task(Task),
    Over,
}

impl Splitter {
    pub fn new(rest_max: usize) -> Splitter {
        let rest = Rest { bytes: Vec::new(), left_out: None };
        Splitter { rest, rest_max, at: Place::START, outside: Outside::default(), list: List::NotYet }
    }

    /// Takes in the next bytes of the body; the tasks that they end go to `lines`.
    pub fn feed(&mut self, mut bytes: &[u8], lines: &mut Lines) -> Result<(), SplitError> {
        while !bytes.is_empty() {
            let taken = match &mut self.list {
                List::NotYet | List::Over => self.outside(bytes)?,
                List::Between { after_comma } => {
                    let after_comma = *after_comma;
                    self.between(bytes, after_comma)?
                }
                List::Task(task) => {
                    let (taken, ended) = task.take(bytes);
                    if ended {
                        let closed = bytes.get(taken) == Some(&b']');
                        self.end_task(lines, &bytes[..taken], closed)?;
                        taken + 1
                    } else {
                        taken
                    }
                }
            };
            self.at.pass(&bytes[..taken]);
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    /// Bytes that it holds of the body.
    pub fn held(&self) -> usize {
        let task = match &self.list {
            List::Task(task) => task.held(),
            List::NotYet | List::Between { .. } | List::Over => 0,
        };
        self.rest.bytes.len() + task
    }

    /// The body is over.
    pub fn finish(self) -> Result<Rest, SplitError> {
        match self.list {
            List::NotYet | List::Over => Ok(self.rest),
            List::Between { .. } | List::Task(_) => Err(SplitError::NotJson(self.at)),
        }
    }

    /// Bytes up to the list, or all there are.
    fn outside(&mut self, bytes: &[u8]) -> Result<usize, SplitError> {
        let searching = matches!(self.list, List::NotYet);
        for (n, &byte) in bytes.iter().enumerate() {
            if self.rest.bytes.len() == self.rest_max {
                return Err(SplitError::RestTooLarge);
            }
            self.rest.bytes.push(byte);
            if self.outside.opens_list(byte, &self.rest.bytes) && searching {
                self.list = List::Between { after_comma: false };
                return Ok(n + 1);
            }
        }
        Ok(bytes.len())
    }

    fn between(&mut self, bytes: &[u8], after_comma: bool) -> Result<usize, SplitError> {
        let Some(spaces) = bytes.iter().position(|b| !is_space(*b)) else { return Ok(bytes.len()) };
        let mut at = self.at;
        at.pass(&bytes[..spaces]);
        match bytes[spaces] {
            b']' if !after_comma => {
                self.close(at)?;
                Ok(spaces + 1)
            }
            // A comma too many.
            b']' | b',' => {
                at.pass(b",");
                Err(SplitError::NotJson(at))
            }
            _ => {
                self.list = List::Task(Task::new(at));
                Ok(spaces)
            }
        }
    }

    fn end_task(&mut self, lines: &mut Lines, last: &[u8], closed: bool) -> Result<(), SplitError> {
        let List::Task(task) = std::mem::replace(&mut self.list, List::Between { after_comma: true }) else {
            return Ok(());
        };
        task.write(lines)?;
        if closed {
            let mut at = self.at;
            at.pass(last);
            self.close(at)?;
        }
        Ok(())
    }

    /// The list closes at this place of the body.
    fn close(&mut self, at: Place) -> Result<(), SplitError> {
        if self.rest.bytes.len() == self.rest_max {
            return Err(SplitError::RestTooLarge);
        }
        let mut opens = Place::START;
        opens.pass(&self.rest.bytes);
        self.rest.bytes.push(b']');
        self.rest.left_out = Some((opens, at));
        self.outside.close_list();
        self.list = List::Over;
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InString {
    Plain,
    Escaped,
}

/// Whether the string goes on behind this byte of it.
fn after(string: InString, byte: u8) -> Option<InString> {
    match (string, byte) {
        (InString::Escaped, _) => Some(InString::Plain),
        (InString::Plain, b'\\') => Some(InString::Escaped),
        (InString::Plain, b'"') => None,
        (InString::Plain, _) => Some(InString::Plain),
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

#[cfg(test)]
mod tests;
