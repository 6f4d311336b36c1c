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
