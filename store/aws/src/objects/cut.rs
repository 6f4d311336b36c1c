//! A stream of bytes, cut into parts.

use bytes::{Bytes, BytesMut};
use conveyor_domain::limits::MIB;
use conveyor_store::Result;
use conveyor_store::port::ByteStream;
use futures::StreamExt;

/// Nobody knows beforehand how long an object will be, and memory must not grow with it: parts are of one size, or of twice
/// that once it is long. The 10,000 parts that S3 takes hold more than the largest export or list.
const PART_BYTES: usize = 8 * MIB;
const SMALL_PARTS: usize = 1_000;

/// How large part `number`, from 1, is, unless it is the last.
pub fn part_bytes(number: usize) -> usize {
    if number <= SMALL_PARTS { PART_BYTES } else { 2 * PART_BYTES }
}

pub struct Cutter {
    body: ByteStream,
    /// Of a piece that did not fit into the part before.
    left_over: Bytes,
}

impl Cutter {
    pub fn new(body: ByteStream) -> Cutter {
        Cutter { body, left_over: Bytes::new() }
    }

    /// So many bytes, or fewer at the end; none when nothing is left.
    pub async fn next(&mut self, bytes: usize) -> Result<Bytes> {
        let mut part = BytesMut::new();
        loop {
            let taken = self.left_over.split_to(self.left_over.len().min(bytes - part.len()));
            part.extend_from_slice(&taken);
            if part.len() == bytes {
                return Ok(part.freeze());
            }
            match self.body.next().await.transpose()? {
                Some(piece) => self.left_over = piece,
                None => return Ok(part.freeze()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::limits;

    /// S3 takes no more.
    const PARTS_MAX: usize = 10_000;
    use futures::stream;

    #[test]
    fn the_largest_object_has_few_enough_parts_and_none_is_large() {
        assert_eq!([1, 1_000, 1_001, PARTS_MAX].map(part_bytes), [8, 8, 16, 16].map(|mib| mib * MIB));
        let all: u64 = (1..=PARTS_MAX).map(|number| part_bytes(number) as u64).sum();
        assert!(all >= limits::OBJECT_MAX_BYTES_MOST);
    }

    #[tokio::test]
    async fn parts_are_full_however_the_pieces_come() {
        let pieces: [&'static [u8]; 5] = [b"ab", b"", b"cdefghij", b"k", b"lm"];
        let body = stream::iter(pieces).map(|piece| Ok(Bytes::from_static(piece))).boxed();
        let mut cutter = Cutter::new(body);
        for expected in ["abcd", "efgh", "ijkl", "m", "", ""] {
            assert_eq!(cutter.next(4).await.unwrap(), expected);
        }
    }
}
