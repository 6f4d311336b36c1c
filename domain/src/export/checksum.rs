//! The checksum of a result body (SPEC 6.14): CRC-32 with the polynomial of zip, gzip and S3. It detects damage, not forgery.

pub use crc32fast::{Hasher, hash};

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows and objects have it.
    #[test]
    fn stored_means_frozen() {
        assert_eq!(hash(b"123456789"), 0xcbf4_3926, "the check value of CRC-32/ISO-HDLC");
    }
}
