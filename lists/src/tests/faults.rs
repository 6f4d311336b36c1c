//! What ends a list before its end.

use super::*;
use crate::invariants::{Pieces, now, read_on};
use crate::{ListError, ListReader, SNIFF_BYTES};
use conveyor_domain::ListFault;
use conveyor_domain::ingest::list::{Layout, Position};
use conveyor_domain::limits::LINE_MAX_BYTES;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, ReadBuf};

fn too_long(line: u64) -> Result<Position, String> {
    Err(format!("line {line}: longer than {LINE_MAX_BYTES} bytes (line_too_long)"))
}

#[test]
fn a_record_may_be_as_long_as_the_limit_and_no_longer() {
    let longest = format!("https://a.example/{}", "x".repeat(LINE_MAX_BYTES - "https://a.example/".len()));
    for spec in [ListSpec::Lines, CSV] {
        for end in ["", "\n", "\r\n"] {
            for sizes in [&[][..], &[1_000], &[LINE_MAX_BYTES + 18]] {
                let fits = read(format!("https://b.example\n{longest}{end}").as_bytes(), &spec, sizes);
                let want = [url(1, 0, "https://b.example"), url(2, 18, &longest)];
                assert_eq!(seen(&fits), want, "{spec:?} {end:?} {sizes:?}");
                let list = format!("https://b.example\n{longest}x{end}https://c.example\n");
                let over = read(list.as_bytes(), &spec, sizes);
                assert_eq!(seen(&over), [url(1, 0, "https://b.example")], "{spec:?} {end:?} {sizes:?}");
                assert_eq!(over.end, too_long(2), "{spec:?} {end:?} {sizes:?}");
            }
        }
    }
    let list = format!("{{}}\n{{\"url\":\"{longest}\"}}\n");
    assert_eq!(read(list.as_bytes(), &ListSpec::Jsonl, &[]).end, too_long(2));
}

#[test]
fn a_quote_that_is_never_closed_cannot_swallow_the_list() {
    let rest = "https://c.example\n".repeat(LINE_MAX_BYTES / 10);
    let list = format!("url\nhttps://a.example\n\"https://b.example\n{rest}");
    let reading = read(list.as_bytes(), &CSV, &[]);
    assert_eq!((&seen(&reading)[..], reading.end), (&[url(2, 4, "https://a.example")][..], too_long(3)));
    let reading = read(format!("\"url\n{rest}").as_bytes(), &CSV, &[]);
    assert_eq!((seen(&reading), reading.layout, reading.end), (vec![], None, too_long(1)));
}

#[test]
fn blank_lines_are_no_part_of_a_record() {
    for blank in ["\r\n", "  \n"] {
        let list = format!("url\nhttps://a.example\n{}https://b.example", blank.repeat(LINE_MAX_BYTES));
        let last = url(3 + LINE_MAX_BYTES as u64, list.len() as u64 - 17, "https://b.example");
        assert_eq!(decode(list, &CSV)[1], last);
    }
    let before_the_header = format!("{}url\nhttps://a.example\n", " \n".repeat(LINE_MAX_BYTES));
    assert_eq!(decode(before_the_header, &CSV).len(), 1);
}

#[test]
fn rows_are_counted_to_the_end_of_their_number() {
    let at = Position { offset: 0, line: 0, index: u32::MAX };
    let mut reader = ListReader::resume(&b"https://a.example\n"[..], Layout::Lines, at);
    let fault = now(reader.next()).unwrap_err();
    assert!(matches!(fault, ListError::Fault { fault: ListFault::TooManyRows, .. }));
}

/// Fails once its bytes are used up, and after that pretends to have ended.
struct Broken {
    bytes: Pieces,
    failures: Vec<io::Error>,
}

impl Broken {
    fn after(bytes: &[u8], failure: impl Into<io::Error>) -> Broken {
        Broken { bytes: Pieces::new(bytes, &[]), failures: vec![failure.into()] }
    }
}

impl AsyncRead for Broken {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.bytes).poll_read(cx, buf);
        match self.failures.pop() {
            Some(failure) if buf.filled().len() == before => Poll::Ready(Err(failure)),
            kept => {
                self.failures.extend(kept);
                read
            }
        }
    }
}

#[test]
fn a_failed_read_is_never_the_end_of_the_list() {
    let gone = || io::Error::other("gone");
    for spec in [CSV, ListSpec::Lines, ListSpec::Jsonl] {
        let opened = now(ListReader::open(Broken::after(b"ht", gone()), &spec));
        assert!(matches!(opened, Err(ListError::Read(_))), "{spec:?}");
    }
    let list = "https://a.example,1\n".repeat(SNIFF_BYTES / 10);
    for spec in [CSV, ListSpec::Lines] {
        let mut reader = now(ListReader::open(Broken::after(list.as_bytes(), gone()), &spec)).unwrap();
        while now(reader.next()).is_ok() {}
        assert_eq!(reader.position().offset, list.len() as u64, "{spec:?}");
        let again = read_on(reader);
        assert_eq!((again.records.len(), again.end), (0, Err("the list could not be read: gone".to_owned())));
    }
}

#[test]
fn a_source_can_name_a_fault() {
    let changed = ListError::Fault { fault: ListFault::SourceChanged, line: None, detail: "replaced".into() };
    let reader = now(ListReader::open(Broken::after(b"https://a.example\nx", changed), &ListSpec::Lines));
    assert_eq!(read_on(reader.unwrap()).end, Err("replaced (source_changed)".to_owned()));
}

/// Only fails.
pub(super) struct Failing(pub io::ErrorKind);

impl AsyncRead for Failing {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Err(self.0.into()))
    }
}
