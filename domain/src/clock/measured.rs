//! The time of a server, measured by the `Date` header of its answers. Each answer bounds the server's offset from a
//! monotonic clock: the header was written between request and answer, and says the second, not the moment. The offset is in
//! the intersection of these intervals (Marzullo's and NTP's argument), which a few answers narrow to far below a second.

use crate::{Timestamp, limits};
use std::time::Duration;

const DATE_RESOLUTION_US: i64 = 1_000_000;

/// Where the offset of the server's time from the monotonic clock is, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interval {
    least: i64,
    most: i64,
}

impl Interval {
    fn of(sent_us: i64, received_us: i64, date: Timestamp) -> Interval {
        let date_us = date.0.saturating_mul(1000);
        Interval { least: date_us - received_us, most: date_us + DATE_RESOLUTION_US - sent_us }
    }

    fn and(self, other: Interval) -> Option<Interval> {
        let both = Interval { least: self.least.max(other.least), most: self.most.min(other.most) };
        (both.least <= both.most).then_some(both)
    }

    fn wider(self, by: i64) -> Interval {
        Interval { least: self.least - by, most: self.most + by }
    }

    fn middle(self) -> i64 {
        self.least + (self.most - self.least) / 2
    }
}

/// What is known of the server's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    interval: Interval,
    at_us: i64,
    offset_us: i64,
    /// Answers in a row that contradict the interval and agree with each other: the server's clock, or the monotonic one, has
    /// jumped. One answer alone is not believed.
    rival: Option<(Interval, u32)>,
}

fn us(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX / 4)
}

impl Measured {
    /// By the first answer.
    pub fn new(sent: Duration, received: Duration, date: Timestamp) -> Measured {
        let interval = Interval::of(us(sent), us(received), date);
        Measured { interval, at_us: us(received), offset_us: interval.middle(), rival: None }
    }

    /// One more answer. The estimate moves no further than it has to.
    pub fn learn(&mut self, sent: Duration, received: Duration, date: Timestamp) {
        let (sent, received) = (us(sent), us(received));
        let seen = Interval::of(sent, received, date);
        // The two clocks drift apart.
        let drift = received.saturating_sub(self.at_us).max(0) / (1_000_000 / limits::CLOCK_DRIFT_PPM);
        let known = self.interval.wider(drift);
        (self.interval, self.rival) = match (known.and(seen), self.rival) {
            (Some(both), _) => (both, None),
            (None, Some((rival, count))) => match rival.and(seen) {
                Some(both) if count + 1 >= limits::CLOCK_RIVALS => (both, None),
                Some(both) => (known, Some((both, count + 1))),
                None => (known, Some((seen, 1))),
            },
            (None, None) => (known, Some((seen, 1))),
        };
        self.at_us = self.at_us.max(received);
        self.offset_us = self.offset_us.clamp(self.interval.least, self.interval.most);
    }

    /// The server's time.
    pub fn at(&self, monotonic: Duration) -> Timestamp {
        Timestamp(us(monotonic).saturating_add(self.offset_us).div_euclid(1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: i64 = 1_800_000_000_000;

    fn ms(ms: i64) -> Duration {
        Duration::from_millis(ms.unsigned_abs())
    }

    /// What a server says whose clock began at `START + offset`.
    fn date(offset: i64, monotonic: i64) -> Timestamp {
        Timestamp((START + offset + monotonic).div_euclid(1000) * 1000)
    }

    fn error(measured: &Measured, offset: i64, at: i64) -> i64 {
        (measured.at(ms(at)).0 - (START + offset + at)).abs()
    }

    proptest! {
        #[test]
        fn it_is_never_off_by_more_than_a_second_and_soon_by_little(
            offset in 0i64..100_000,
            calls in proptest::collection::vec((1i64..700, 0i64..60, 0i64..60), 40..80),
        ) {
            let (mut at, mut measured) = (0, None);
            for (pause, there, back) in calls {
                at += pause;
                let (sent, served, received) = (at, at + there, at + there + back);
                let said = date(offset, served);
                match &mut measured {
                    None => measured = Some(Measured::new(ms(sent), ms(received), said)),
                    Some(measured) => measured.learn(ms(sent), ms(received), said),
                }
                at = received;
                prop_assert!(error(&measured.unwrap(), offset, at) <= 1_000);
            }
            prop_assert!(error(&measured.unwrap(), offset, at) <= 400, "{}", error(&measured.unwrap(), offset, at));
        }
    }

    #[test]
    fn one_wrong_answer_is_not_believed_and_several_are() {
        let mut measured = Measured::new(ms(0), ms(4), date(0, 2));
        measured.learn(ms(100), ms(104), Timestamp(START + 60 * 24 * 3_600_000));
        assert!(error(&measured, 0, 200) <= 1_000);
        measured.learn(ms(200), ms(204), date(0, 202));
        assert!(error(&measured, 0, 300) <= 1_000);
        for n in 3..3 + i64::from(limits::CLOCK_RIVALS) {
            measured.learn(ms(n * 100), ms(n * 100 + 4), date(90_000, n * 100));
        }
        assert!(error(&measured, 90_000, 1_000) <= 1_000, "the machine slept");
    }
}
