//! Cutting bytes into lines.

use conveyor_domain::limits::LINE_MAX_BYTES;

/// What ends a line, at most.
const TERMINATOR_MAX_BYTES: usize = b"\r\n".len();

/// The record has more than [`LINE_MAX_BYTES`].
#[derive(Debug)]
pub(crate) struct TooLong;

#[derive(Debug)]
pub(crate) enum Cut<'a> {
    /// All bytes were taken in, and the line goes on.
    Hungry,
    /// With its terminator, if it has one.
    Line(&'a [u8]),
    End,
}

/// Holds the beginning of a line whose end has not come yet, and nothing else.
#[derive(Debug, Default)]
pub(crate) struct LineCutter {
    carry: Vec<u8>,
    /// What is in `carry` was given out.
    spent: bool,
}

impl LineCutter {
    /// Takes bytes off the front of `input`, to the end of the line. After the `last` bytes there are no more.
    pub fn cut<'a, 'i: 'a>(&'a mut self, input: &mut &'i [u8], last: bool) -> Result<Cut<'a>, TooLong> {
        if std::mem::take(&mut self.spent) {
            self.carry.clear();
        }
        let end = memchr::memchr(b'\n', input).map(|at| at + 1);
        let (taken, rest) = input.split_at(end.unwrap_or(input.len()));
        *input = rest;
        let whole = end.is_some() || last;
        // Most lines come in one piece, and are not copied.
        if self.carry.is_empty() && whole {
            return if taken.is_empty() { Ok(Cut::End) } else { within_limit(taken).map(Cut::Line) };
        }
        if self.carry.len() + taken.len() > LINE_MAX_BYTES + TERMINATOR_MAX_BYTES {
            return Err(TooLong);
        }
        self.carry.extend_from_slice(taken);
        self.spent = whole;
        let line = within_limit(&self.carry)?;
        Ok(if whole { Cut::Line(line) } else { Cut::Hungry })
    }
}

fn within_limit(line: &[u8]) -> Result<&[u8], TooLong> {
    if without_terminator(line).len() > LINE_MAX_BYTES { Err(TooLong) } else { Ok(line) }
}

pub(crate) fn without_terminator(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
