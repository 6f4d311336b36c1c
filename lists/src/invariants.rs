//! What holds for any bytes at all, as functions that panic where it does not. Property tests and fuzz targets share them;
//! nothing else may use them.

use crate::{ExpandLimits, ListError, ListReader, Record, expand};
use conveyor_domain::ingest::list::{Layout, Position};
use conveyor_domain::limits::{KIB, MIB};
use conveyor_domain::{Compression, ListFault, ListSpec, ParamPolicy, Params, TaskRules};
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncReadExt, ReadBuf};

/// Gives its bytes in reads of these sizes, over and over; all at once without any.
#[derive(Clone, Debug)]
pub struct Pieces {
    bytes: Vec<u8>,
    at: usize,
    sizes: Vec<usize>,
    reads: usize,
}

impl Pieces {
    pub fn new(bytes: &[u8], sizes: &[usize]) -> Pieces {
        Pieces { bytes: bytes.to_owned(), at: 0, sizes: sizes.to_owned(), reads: 0 }
    }

    fn piece(&self) -> &[u8] {
        let left = &self.bytes[self.at..];
        let size = self.sizes.get(self.reads % self.sizes.len().max(1)).copied().unwrap_or(left.len());
        &left[..size.max(1).min(left.len())]
    }
}

impl AsyncBufRead for Pieces {
    fn poll_fill_buf(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        Poll::Ready(Ok(self.get_mut().piece()))
    }

    fn consume(mut self: Pin<&mut Self>, bytes: usize) {
        self.at += bytes;
        self.reads += 1;
    }
}

impl AsyncRead for Pieces {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let piece = this.piece();
        let read = piece.len().min(buf.remaining());
        buf.put_slice(&piece[..read]);
        this.at += read;
        this.reads += 1;
        Poll::Ready(Ok(()))
    }
}

/// The result of something that never has to wait, as bytes in memory do not.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("bytes in memory made it wait"),
    }
}

/// All that a reader says about a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    pub layout: Option<Layout>,
    /// Each record, and the position before it.
    pub records: Vec<(Position, Record)>,
    /// The position at the end, or the words of the error there.
    pub end: Result<Position, String>,
}

pub fn read(bytes: &[u8], spec: &ListSpec, sizes: &[usize]) -> Reading {
    match now(ListReader::open(Pieces::new(bytes, sizes), spec)) {
        Ok(reader) => read_on(reader),
        Err(e) => Reading { layout: None, records: Vec::new(), end: Err(words(&e)) },
    }
}

pub fn read_on<R: AsyncRead + Unpin>(mut reader: ListReader<R>) -> Reading {
    let mut records = Vec::new();
    let end = loop {
        let before = reader.position();
        match now(reader.next()) {
            Ok(Some(record)) => records.push((before, record)),
            Ok(None) => break Ok(reader.position()),
            Err(e) => break Err(words(&e)),
        }
    };
    Reading { layout: Some(reader.layout().clone()), records, end }
}

/// An error with its cause.
pub fn words(error: &ListError) -> String {
    match error {
        ListError::Fault { .. } => error.to_string(),
        ListError::Read(cause) => format!("{error}: {cause}"),
    }
}

/// How the bytes arrive does not matter.
pub fn any_split_reads_the_same(bytes: &[u8], spec: &ListSpec, sizes: &[usize]) -> Reading {
    let whole = read(bytes, spec, &[]);
    assert_eq!(read(bytes, spec, sizes), whole, "split into {sizes:?}");
    whole
}

/// Records come in order, each behind the position before it, and are counted.
pub fn places_are_in_order(bytes: &[u8], reading: &Reading) {
    let ends = reading.records.iter().skip(1).map(|(before, _)| *before).chain(reading.end.clone().ok());
    let (mut counted, mut lines) = (0, 0);
    for (number, (before, record)) in reading.records.iter().enumerate() {
        assert_eq!((before.index, record.index), (number as u32, number as u32));
        assert!(before.offset <= record.offset && before.line < record.line, "{before:?} {record:?}");
        let offset = record.offset as usize;
        lines += bytes[counted..offset].iter().filter(|&&b| b == b'\n').count() as u64;
        counted = offset;
        assert_eq!(record.line, lines + 1, "{record:?}");
    }
    for ((_, record), behind) in reading.records.iter().zip(ends) {
        assert!(record.offset < behind.offset && record.line <= behind.line + 1, "{record:?} {behind:?}");
    }
    if let Ok(end) = reading.end {
        assert_eq!(end.offset, bytes.len() as u64, "the end of the list is the end of its bytes");
    }
}

/// From the position before a record, and from its very first byte, exactly the rest is read.
pub fn a_resumed_reader_gives_the_rest(bytes: &[u8], reading: &Reading, number: usize, sizes: &[usize]) {
    let (Some(layout), Some((before, first))) = (&reading.layout, reading.records.get(number)) else {
        return;
    };
    let own_place = Position { offset: first.offset, line: first.line - 1, index: first.index };
    for at in [*before, own_place] {
        let rest = Pieces::new(&bytes[at.offset as usize..], sizes);
        let resumed = read_on(ListReader::resume(rest, layout.clone(), at));
        let records =
            |of: &[(Position, Record)]| of.iter().map(|(_, record)| record.clone()).collect::<Vec<_>>();
        assert_eq!(records(&resumed.records), records(&reading.records[number..]), "from {at:?}");
        assert_eq!(resumed.end, reading.end, "from {at:?}");
    }
}

/// Every row is a task, or has a reason why not.
pub fn rows_can_be_checked(reading: &Reading) {
    for (_, record) in &reading.records {
        if let Ok(row) = record.row.clone() {
            let _ = row.check(&Params::new(), TaskRules::strict(ParamPolicy::ZenRows));
        }
    }
}

/// Small, so that random bytes reach them.
pub const SMALL: ExpandLimits =
    ExpandLimits { expanded_max_bytes: MIB as u64, ratio_max: 100, ratio_free_bytes: 64 * KIB as u64 };

/// What a list expands to, and how that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expansion {
    pub compression: Compression,
    pub bytes: Vec<u8>,
    pub end: Result<(), Option<ListFault>>,
}

pub fn expand_pieces(bytes: &[u8], sizes: &[usize], limits: ExpandLimits) -> Expansion {
    let mut expanded = now(expand(Pieces::new(bytes, sizes), limits)).expect("bytes in memory can be read");
    let mut out = Vec::new();
    let mut buffer = vec![0; 16 * KIB];
    let end = loop {
        match now(expanded.read(&mut buffer)) {
            Ok(0) => break Ok(()),
            Ok(read) => out.extend_from_slice(&buffer[..read]),
            Err(e) => break Err(fault_of(&e.into())),
        }
    };
    if end.is_err() {
        assert!(now(expanded.read(&mut buffer)).is_err(), "a failed list has no end");
    }
    Expansion { compression: expanded.compression(), bytes: out, end }
}

fn fault_of(error: &ListError) -> Option<ListFault> {
    match error {
        ListError::Fault { fault, .. } => Some(*fault),
        ListError::Read(_) => None,
    }
}

/// Whatever the bytes are, they expand within the limits, end in a fault of their own or in full, and do so in any split.
pub fn expansion_is_bounded(bytes: &[u8], sizes: &[usize], limits: ExpandLimits) -> Expansion {
    let whole = expand_pieces(bytes, &[], limits);
    assert!(whole.bytes.len() as u64 <= limits.expanded_max_bytes);
    assert_ne!(whole.end, Err(None), "bytes in memory can be read");
    if whole.compression == Compression::None && whole.end.is_ok() {
        assert_eq!(whole.bytes, bytes);
    }
    let split = expand_pieces(bytes, sizes, limits);
    assert_eq!(split.compression, whole.compression, "split into {sizes:?}");
    // The ratio counts what a decompressor took in so far, and that may be some bytes ahead of what it needed.
    let by_ratio = Err(Some(ListFault::ExpansionRatioExceeded));
    if split.end != by_ratio && whole.end != by_ratio {
        assert_eq!(split.end, whole.end, "split into {sizes:?}");
    }
    if split.end.is_ok() && whole.end.is_ok() {
        assert!(split.bytes == whole.bytes, "split into {sizes:?}");
    }
    whole
}
