//! Server-sent events, as far as the API uses them: `id`, `event` and `data`.

use std::mem;

/// Far more than an event of the API has.
const EVENT_MAX_BYTES: usize = 1024 * 1024;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    pub id: Option<String>,
    pub event: Option<String>,
    pub data: String,
}

/// More than an event can be.
#[derive(Debug)]
pub struct TooLong;

/// Cuts a stream into events, however its bytes arrive.
#[derive(Debug, Default)]
pub struct Parser {
    line: Vec<u8>,
    message: Message,
    has_data: bool,
}

impl Parser {
    /// Takes bytes in, and gives the events that they complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Message>, TooLong> {
        let mut complete = Vec::new();
        for piece in bytes.split_inclusive(|&b| b == b'\n') {
            if self.line.len() + self.message.data.len() + piece.len() > EVENT_MAX_BYTES {
                return Err(TooLong);
            }
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = mem::take(&mut self.line);
                let line = String::from_utf8_lossy(&line);
                complete.extend(self.take_line(line.trim_end_matches(['\r', '\n'])));
            }
        }
        Ok(complete)
    }

    fn take_line(&mut self, line: &str) -> Option<Message> {
        if line.is_empty() {
            let message = mem::take(&mut self.message);
            // Without data it is nothing that happened.
            return mem::take(&mut self.has_data).then_some(message);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.message.id = Some(value.to_owned()),
            "event" => self.message.event = Some(value.to_owned()),
            "data" => {
                if mem::replace(&mut self.has_data, true) {
                    self.message.data.push('\n');
                }
                self.message.data.push_str(value);
            }
            // A comment keeps the connection alive.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = ": hello\n\nid: 1\nevent: job.submitted\ndata: {\"a\":\ndata: 1}\n\nretry: 5\n\n\
                          id:2\r\ndata:x\r\n\r\nid: 3\ndata: cut off\n";

    fn message(id: &str, event: Option<&str>, data: &str) -> Message {
        Message { id: Some(id.to_owned()), event: event.map(str::to_owned), data: data.to_owned() }
    }

    #[test]
    fn any_split_of_the_bytes_gives_the_same_events() {
        let want = [message("1", Some("job.submitted"), "{\"a\":\n1}"), message("2", None, "x")];
        for size in 1..STREAM.len() {
            let mut parser = Parser::default();
            let seen: Vec<_> =
                STREAM.as_bytes().chunks(size).flat_map(|piece| parser.feed(piece).unwrap()).collect();
            assert_eq!(seen, want, "in pieces of {size}");
        }
    }

    #[test]
    fn an_endless_event_is_not_held() {
        let mut parser = Parser::default();
        let line = [b"data: ".as_slice(), &[b'x'; 1_000], b"\n"].concat();
        assert!((0..2_000).any(|_| parser.feed(&line).is_err()));
        let mut parser = Parser::default();
        assert!((0..2_000).any(|_| parser.feed(&[b'x'; 1_000]).is_err()));
    }
}
