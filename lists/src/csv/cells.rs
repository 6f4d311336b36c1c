//! One record of a CSV.

/// The cells of a record, without their quotes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cells<'a> {
    text: &'a [u8],
    ends: &'a [usize],
}

impl<'a> Cells<'a> {
    /// `ends` says where each cell ends in `text`.
    pub fn new(text: &'a [u8], ends: &'a [usize]) -> Cells<'a> {
        Cells { text, ends }
    }

    pub fn get(&self, column: usize) -> Option<&'a [u8]> {
        let end = *self.ends.get(column)?;
        let start = column.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.text[start..end])
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        (0..self.len()).filter_map(move |column| self.get(column))
    }

    /// Whether it is a line of white space, which is no record.
    pub fn is_blank(&self) -> bool {
        self.len() == 1 && self.text.trim_ascii().is_empty()
    }
}
