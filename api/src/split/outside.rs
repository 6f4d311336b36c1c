//! What is not a task: enough of JSON to find the list of the outermost object.

use super::{InString, after, is_space};

#[derive(Debug, Default)]
pub(super) struct Outside {
    depth: usize,
    string: Option<InString>,
    /// The next string of the outermost object is a key.
    key_next: bool,
    /// Where in the rest the latest key begins; only while it is one.
    key: Option<usize>,
    /// The latest key is that of the list, and what follows its colon is its value.
    is_tasks: bool,
    value_next: bool,
}

impl Outside {
    /// Takes in a byte, the last of `rest`; true if it opens the list of tasks.
    pub fn opens_list(&mut self, byte: u8, rest: &[u8]) -> bool {
        if let Some(string) = self.string {
            self.string = after(string, byte);
            if self.string.is_none() {
                self.end_string(rest);
            }
            return false;
        }
        let value_next = self.value_next;
        self.value_next = value_next && is_space(byte);
        match byte {
            b'"' => {
                self.string = Some(InString::Plain);
                self.key = (self.depth == 1 && self.key_next).then(|| rest.len() - 1);
            }
            b':' if self.depth == 1 => (self.key_next, self.value_next) = (false, true),
            b',' if self.depth == 1 => (self.key_next, self.is_tasks) = (true, false),
            b'{' | b'[' => {
                self.key_next = self.depth == 0 && byte == b'{';
                self.depth += 1;
                return byte == b'[' && value_next && self.is_tasks;
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        false
    }

    fn end_string(&mut self, rest: &[u8]) {
        if let Some(begin) = self.key.take() {
            // A key may be written with escapes, and is the same key then.
            self.is_tasks = serde_json::from_slice::<String>(&rest[begin..]).is_ok_and(|key| key == "tasks");
        }
    }
}

impl Outside {
    /// The list that was opened is closed.
    pub fn close_list(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }
}
