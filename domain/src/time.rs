//! Time as the system passes it around: milliseconds since 1970 UTC, read from a clock that the caller hands in.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A moment, in milliseconds since 1970 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    pub fn as_ms(self) -> i64 {
        self.0
    }

    /// This moment plus a duration; saturates instead of wrapping.
    pub fn after(self, d: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(i64::try_from(d.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long from `self` until `later`; zero if `later` has passed.
    pub fn until(self, later: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0))
    }
}

/// RFC 3339 in UTC with milliseconds, the form that the wire uses.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(t) => write!(f, "{t:.3}"),
            Err(_) => write!(f, "out of range"),
        }
    }
}

/// The text is not a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a time like 2026-09-01T09:00:00Z")]
pub struct InvalidTime;

/// RFC 3339 with any offset. What is finer than milliseconds is dropped.
impl FromStr for Timestamp {
    type Err = InvalidTime;
    fn from_str(text: &str) -> Result<Timestamp, InvalidTime> {
        let time: jiff::Timestamp = text.parse().map_err(|_| InvalidTime)?;
        Ok(Timestamp(time.as_millisecond()))
    }
}

/// Where the time comes from. Only the binary and tests implement it.
pub trait Clock: Send + Sync + fmt::Debug {
    fn now(&self) -> Timestamp;

    /// By how many milliseconds this machine's wall clock is ahead of the time that the process goes by, if it has one.
    fn skew_ms(&self) -> Option<i64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_rfc3339_with_zone() {
        assert_eq!(Timestamp(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp(1_767_225_600_123).to_string(), "2026-01-01T00:00:00.123Z");
    }

    #[test]
    fn reads_what_it_prints() {
        for time in [Timestamp(0), Timestamp(1_767_225_600_123)] {
            assert_eq!(time.to_string().parse(), Ok(time));
        }
        assert_eq!("2026-01-01T01:00:00.123456+01:00".parse(), Ok(Timestamp(1_767_225_600_123)));
        assert_eq!("yesterday".parse::<Timestamp>(), Err(InvalidTime));
    }

    #[test]
    fn until_is_never_negative() {
        assert_eq!(Timestamp(10).until(Timestamp(4)), Duration::ZERO);
        assert_eq!(Timestamp(4).until(Timestamp(10)), Duration::from_millis(6));
    }
}
