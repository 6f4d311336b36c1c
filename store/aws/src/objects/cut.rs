//! A stream of bytes, cut into parts.

use bytes::{Bytes, BytesMut};
use conveyor_domain::limits::MIB;
use conveyor_store::Result;
use conveyor_store::port::ByteStream;
use futures::StreamExt;

/// Until it is known how long an object will be, its parts are small; the longer it gets, the larger they become, so that
/// the largest object that S3 takes (5 TiB) has fewer than the 10,000 parts that it takes.
const PART_BYTES: usize = 8 * MIB;
const PARTS_OF_A_SIZE: usize = 1_000;

/// How large part `number`, from 1, is, unless it is the last.
pub fn part_bytes(number: usize) -> usize {
    PART_BYTES << (number.saturating_sub(1) / PARTS_OF_A_SIZE)
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
    use futures::stream;

    #[test]
    fn the_largest_object_has_few_enough_parts() {
        assert_eq!([1, 1_000, 1_001, 2_001].map(part_bytes), [8, 8, 16, 32].map(|mib| mib * MIB));
        let all: u64 = (1..=10_000).map(|number| part_bytes(number) as u64).sum();
        assert!(all >= 5 << 40, "5 TiB");
        assert!(part_bytes(10_000) as u64 <= 5 << 30, "S3 takes no larger part");
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
