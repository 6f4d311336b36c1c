//! How a file is cut into parts.

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
    /// Parts of the size that the slot was made for.
    pub fn new(size: u64, part_bytes: u64) -> Plan {
        Plan { size, part_bytes: part_bytes.max(1) }
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

    fn cut(size: u64, part_bytes: u64) -> Vec<(u32, u64, u64)> {
        let plan = Plan::new(size, part_bytes);
        let pieces: Vec<_> = plan.pieces().map(|p| (p.number, p.offset, p.bytes)).collect();
        assert_eq!(pieces.len() as u64, plan.count());
        assert_eq!(pieces.iter().map(|p| p.2).sum::<u64>(), size);
        pieces
    }

    #[test]
    fn every_byte_is_in_one_part() {
        assert_eq!(cut(10, 4), [(1, 0, 4), (2, 4, 4), (3, 8, 2)]);
        assert_eq!(cut(8, 4), [(1, 0, 4), (2, 4, 4)]);
        assert_eq!(cut(3, 4), [(1, 0, 3)]);
        assert_eq!(cut(0, 4), []);
    }
}
