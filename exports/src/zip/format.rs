//! The records of a zip file, as bytes (PKWARE APPNOTE 6.3.10, sections 4.3 and 4.5.3).

use conveyor_domain::Timestamp;

pub(super) const STORED: u16 = 0;
pub(super) const DEFLATED: u16 = 8;

/// What a field of 16 or 32 bits holds when the number is elsewhere.
const ELSEWHERE_16: u16 = u16::MAX;
const ELSEWHERE_32: u32 = u32::MAX;
const VERSION: u16 = 20;
const VERSION_ZIP64: u16 = 45;
const UNIX: u16 = 3 << 8;
const REGULAR_FILE: u32 = 0o100_644 << 16;

/// What a header says about an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct About<'a> {
    pub name: &'a str,
    pub method: u16,
    pub modified: Timestamp,
    pub crc: u32,
    pub packed: u32,
    pub size: u32,
}

impl About<'_> {
    /// What the header before the bytes and the one in the directory have in common.
    fn common(&self, version: u16, out: &mut Vec<u8>) {
        out.extend(version.to_le_bytes());
        // No flags: names are ASCII, and sizes are known.
        out.extend(0_u16.to_le_bytes());
        out.extend(self.method.to_le_bytes());
        out.extend(dos_time(self.modified).to_le_bytes());
        out.extend(self.crc.to_le_bytes());
        out.extend(self.packed.to_le_bytes());
        out.extend(self.size.to_le_bytes());
        // A task id and a format: never longer than that.
        out.extend((self.name.len() as u16).to_le_bytes());
    }

    /// In front of an entry's bytes.
    pub fn local(&self) -> Vec<u8> {
        let mut out = b"PK\x03\x04".to_vec();
        self.common(VERSION, &mut out);
        out.extend(0_u16.to_le_bytes());
        out.extend(self.name.as_bytes());
        out
    }

    /// In the directory, for an entry that begins there.
    pub fn central(&self, offset: u64, out: &mut Vec<u8>) {
        let (at, extra) = match u32::try_from(offset) {
            Ok(at) if at < ELSEWHERE_32 => (at, None),
            Ok(_) | Err(_) => (ELSEWHERE_32, Some(offset)),
        };
        let version = if extra.is_some() { VERSION_ZIP64 } else { VERSION };
        out.extend(b"PK\x01\x02");
        out.extend((UNIX | version).to_le_bytes());
        self.common(version, out);
        out.extend((if extra.is_some() { 12_u16 } else { 0 }).to_le_bytes());
        // No comment, the first disk, no internal attributes.
        out.extend([0; 6]);
        out.extend(REGULAR_FILE.to_le_bytes());
        out.extend(at.to_le_bytes());
        out.extend(self.name.as_bytes());
        if let Some(offset) = extra {
            out.extend(1_u16.to_le_bytes());
            out.extend(8_u16.to_le_bytes());
            out.extend(offset.to_le_bytes());
        }
    }
}

/// What ends a file whose directory is there, so long, with so many entries.
pub(super) fn end(entries: u64, offset: u64, length: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let small = |n: u64| u32::try_from(n).ok().filter(|n| *n < ELSEWHERE_32);
    let few = u16::try_from(entries).ok().filter(|n| *n < ELSEWHERE_16);
    if few.is_none() || small(offset).is_none() || small(length).is_none() {
        end64(entries, offset, length, &mut out);
    }
    out.extend(b"PK\x05\x06\0\0\0\0");
    let few = few.unwrap_or(ELSEWHERE_16).to_le_bytes();
    out.extend(few);
    out.extend(few);
    out.extend(small(length).unwrap_or(ELSEWHERE_32).to_le_bytes());
    out.extend(small(offset).unwrap_or(ELSEWHERE_32).to_le_bytes());
    out.extend(0_u16.to_le_bytes());
    out
}

/// The same with 64 bits, and where it is.
fn end64(entries: u64, offset: u64, length: u64, out: &mut Vec<u8>) {
    out.extend(b"PK\x06\x06");
    out.extend(44_u64.to_le_bytes());
    out.extend((UNIX | VERSION_ZIP64).to_le_bytes());
    out.extend(VERSION_ZIP64.to_le_bytes());
    out.extend([0; 8]);
    for number in [entries, entries, length, offset] {
        out.extend(number.to_le_bytes());
    }
    out.extend(b"PK\x06\x07\0\0\0\0");
    out.extend((offset + length).to_le_bytes());
    out.extend(1_u32.to_le_bytes());
}

/// The time in the low half, the day in the high one, in UTC, to two seconds. From 1980 to 2107.
fn dos_time(at: Timestamp) -> u32 {
    const FIRST_DAY: u32 = (1 << 5 | 1) << 16;
    let Ok(at) = jiff::Timestamp::from_millisecond(at.as_ms()) else { return FIRST_DAY };
    let at = at.to_zoned(jiff::tz::TimeZone::UTC);
    let Ok(years @ 0..=127) = u32::try_from(at.year() - 1980) else { return FIRST_DAY };
    let small = |n: i8| u32::from(n.unsigned_abs());
    let day = years << 9 | small(at.month()) << 5 | small(at.day());
    let time = small(at.hour()) << 11 | small(at.minute()) << 5 | (small(at.second()) / 2);
    day << 16 | time
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_dos() {
        // 2026-01-01T00:00:00Z, and 2026-11-16T21:45:59Z.
        assert_eq!(dos_time(Timestamp(1_767_225_600_000)), (46 << 9 | 1 << 5 | 1) << 16);
        let evening = (46 << 9 | 11 << 5 | 16) << 16 | 21 << 11 | 45 << 5 | 29;
        assert_eq!(dos_time(Timestamp(1_794_865_559_999)), evening);
        assert_eq!(dos_time(Timestamp(0)), 0x0021_0000, "before their time");
        assert_eq!(dos_time(Timestamp(i64::MAX)), 0x0021_0000);
    }

    #[test]
    fn sixty_four_bits_are_used_only_where_they_are_needed() {
        let is_64 = |entries, offset, length| end(entries, offset, length).starts_with(b"PK\x06\x06");
        assert!(!is_64(0, 0, 0) && !is_64(65_534, 4_294_967_294, 9));
        assert!(is_64(65_535, 0, 0) && is_64(1, 4_294_967_295, 0) && is_64(1, 0, 4_294_967_295));
    }

    #[test]
    fn an_entry_behind_four_gigabytes_says_where_it_is() {
        let about = About { name: "a", method: STORED, modified: Timestamp(0), crc: 0, packed: 0, size: 0 };
        let header = |offset| {
            let mut out = Vec::new();
            about.central(offset, &mut out);
            out
        };
        assert_eq!(header(4_294_967_294).len(), 47);
        let far = header(4_294_967_295);
        assert_eq!(far.len(), 59);
        assert_eq!(far[51..], 4_294_967_295_u64.to_le_bytes());
    }
}
