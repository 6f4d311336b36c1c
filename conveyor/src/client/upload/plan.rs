//! How a file is cut into parts.

use super::slot::Multipart;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    size: u64,
    part_bytes: u64,
}

/// Where a part is in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// From 1.
    pub number: u32,
    pub offset: u64,
    pub bytes: u64,
}

impl Plan {
    /// Parts of the size that is wanted, or larger ones where the server takes no smaller ones, or there would be too many.
    pub fn new(size: u64, wanted_bytes: u64, multipart: &Multipart) -> Plan {
        let fewest = size.div_ceil(u64::from(multipart.parts_max().max(1)));
        Plan { size, part_bytes: wanted_bytes.max(multipart.part_min_bytes()).max(fewest).max(1) }
    }

    pub fn pieces(self) -> impl Iterator<Item = Piece> {
        let starts = (0..self.size).step_by(usize::try_from(self.part_bytes).unwrap_or(usize::MAX));
        (1..).zip(starts).map(move |(number, offset)| Piece {
            number,
            offset,
            bytes: self.part_bytes.min(self.size - offset),
        })
    }

    pub fn count(self) -> u64 {
        self.size.div_ceil(self.part_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(size: u64, wanted: u64, parts_max: u32, part_min: u64) -> Vec<(u32, u64, u64)> {
        let multipart = serde_json::json!({"parts_max": parts_max, "part_min_bytes": part_min});
        let plan = Plan::new(size, wanted, &serde_json::from_value(multipart).unwrap());
        let pieces: Vec<_> = plan.pieces().map(|p| (p.number, p.offset, p.bytes)).collect();
        assert_eq!(pieces.len() as u64, plan.count());
        assert_eq!(pieces.iter().map(|p| p.2).sum::<u64>(), size);
        pieces
    }

    #[test]
    fn every_byte_is_in_one_part() {
        assert_eq!(cut(10, 4, 1_000, 1), [(1, 0, 4), (2, 4, 4), (3, 8, 2)]);
        assert_eq!(cut(8, 4, 1_000, 1), [(1, 0, 4), (2, 4, 4)]);
        assert_eq!(cut(3, 4, 1_000, 1), [(1, 0, 3)]);
        assert_eq!(cut(0, 4, 1_000, 1), []);
    }

    #[test]
    fn no_part_but_the_last_is_smaller_than_the_server_takes() {
        assert_eq!(cut(12, 4, 1_000, 5), [(1, 0, 5), (2, 5, 5), (3, 10, 2)]);
        assert_eq!(cut(3, 4, 1_000, 5), [(1, 0, 3)]);
    }

    #[test]
    fn there_are_never_more_parts_than_an_upload_takes() {
        for size in [999, 1_000, 1_001, 123_456] {
            assert!(cut(size, 1, 1_000, 1).len() <= 1_000, "{size}");
        }
    }
}
