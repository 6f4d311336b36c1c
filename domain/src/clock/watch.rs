//! The time that removals go by (SPEC 6.26): what a wrong clock removes is gone for good, so a jump of the clock stops
//! removal by time until the new time has held for a while, or an operator confirms it.

use crate::{RecordKey, RecordKind, Timestamp, limits};
use serde::{Deserialize, Serialize};

/// The latest time that sweepers agreed on, as the store keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    pub seen: Timestamp,
    /// A time that is more than a day from it, and is not believed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<Doubt>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    pub since: Timestamp,
    pub last: Timestamp,
}

fn apart_ms(a: Timestamp, b: Timestamp) -> u64 {
    a.0.abs_diff(b.0)
}

fn is_within(a: Timestamp, b: Timestamp, limit: std::time::Duration) -> bool {
    u128::from(apart_ms(a, b)) <= limit.as_millis()
}

impl Watch {
    pub fn key() -> RecordKey {
        RecordKey::new(RecordKind::Clock, "all", "watch")
    }

    pub fn new(now: Timestamp) -> Watch {
        Watch { seen: now, doubt: None }
    }

    /// Takes note of the time. Nothing is different more often than once in [`limits::CLOCK_SEEN_EVERY`].
    #[must_use]
    pub fn observe(self, now: Timestamp) -> Watch {
        let is_news = |last: Timestamp| now >= last.after(limits::CLOCK_SEEN_EVERY);
        if is_within(now, self.seen, limits::CLOCK_JUMP_MAX) {
            let seen = if is_news(self.seen) { now } else { self.seen };
            return Watch { seen, doubt: None };
        }
        // Only what was seen all along has held: neither two short jumps nor a pause between them.
        match self.doubt.filter(|doubt| is_within(now, doubt.last, limits::CLOCK_GAP_MAX)) {
            None => Watch { doubt: Some(Doubt { since: now, last: now }), ..self },
            Some(doubt) if now >= doubt.since.after(limits::CLOCK_HELD) => Watch::new(now),
            Some(doubt) if is_news(doubt.last) => Watch { doubt: Some(Doubt { last: now, ..doubt }), ..self },
            Some(_) => self,
        }
    }

    /// Whether nothing is removed by this time for now. A clock that is behind removes less, never too much.
    pub fn is_doubted(&self, now: Timestamp) -> bool {
        now > self.seen.after(limits::CLOCK_JUMP_MAX)
    }

    /// The time that removals go by: it stands still while the clock is doubted.
    pub fn removal_time(&self, now: Timestamp) -> Timestamp {
        if self.is_doubted(now) { self.seen } else { now }
    }

    /// When the time is believed, if it goes on like this.
    pub fn believed_from(&self, now: Timestamp) -> Option<Timestamp> {
        self.is_doubted(now).then(|| self.doubt.map_or(now, |doubt| doubt.since).after(limits::CLOCK_HELD))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const MINUTE: i64 = 60_000;
    const DAY: i64 = 24 * 60 * MINUTE;
    const START: i64 = 1_800_000_000_000;

    fn at(ms: i64) -> Timestamp {
        Timestamp(START + ms)
    }

    /// Looks every half minute from one moment to the other.
    fn watched(mut watch: Watch, from: i64, to: i64) -> Watch {
        let mut now = from;
        while now <= to {
            watch = watch.observe(at(now));
            now += MINUTE / 2;
        }
        watch
    }

    #[test]
    fn time_that_passes_is_believed_and_written_down_once_a_minute() {
        let watch = Watch::new(at(0));
        assert_eq!(watch.observe(at(MINUTE - 1)), watch);
        assert_eq!(watch.observe(at(-MINUTE)), watch, "somebody is a little behind");
        assert_eq!(watch.observe(at(MINUTE)), Watch::new(at(MINUTE)));
        assert_eq!(watch.observe(at(DAY)), Watch::new(at(DAY)));
        assert!(!watch.is_doubted(at(DAY)) && watch.is_doubted(at(DAY + 1)));
    }

    #[test]
    fn a_jump_removes_nothing_and_leaves_nothing_behind() {
        let jumped = watched(Watch::new(at(0)), 60 * DAY, 60 * DAY + 59 * MINUTE);
        assert_eq!(jumped.removal_time(at(60 * DAY + 59 * MINUTE)), at(0));
        assert_eq!(jumped.believed_from(at(60 * DAY)), Some(at(60 * DAY + 60 * MINUTE)));
        let back = jumped.observe(at(2 * MINUTE));
        assert_eq!(back, Watch::new(at(2 * MINUTE)));
        assert_eq!(back.removal_time(at(3 * MINUTE)), at(3 * MINUTE));
    }

    #[test]
    fn a_time_that_held_for_an_hour_is_believed() {
        let held = watched(Watch::new(at(0)), 60 * DAY, 60 * DAY + 60 * MINUTE);
        assert_eq!(held, Watch::new(at(60 * DAY + 60 * MINUTE)));
        // The clock was ahead when the store was made, and is right now: a later jump must be seen as one.
        let back = watched(held, 5 * MINUTE, 65 * MINUTE);
        assert_eq!(back, Watch::new(at(65 * MINUTE)));
    }

    #[test]
    fn two_short_jumps_are_not_one_that_held() {
        let mut watch = watched(Watch::new(at(0)), 60 * DAY, 60 * DAY + MINUTE);
        watch = watch.observe(at(60 * DAY + 61 * MINUTE));
        assert!(watch.is_doubted(at(60 * DAY + 61 * MINUTE)), "nobody looked in between");
        assert_eq!(watch.doubt.unwrap().since, at(60 * DAY + 61 * MINUTE));
        let gap = i64::try_from(limits::CLOCK_GAP_MAX.as_millis()).unwrap();
        let soon = watch.observe(at(60 * DAY + 61 * MINUTE + gap));
        assert_eq!(soon.doubt.unwrap().since, at(60 * DAY + 61 * MINUTE));
    }

    #[test]
    fn one_who_is_wrong_and_one_who_is_right_do_not_agree_on_a_jump() {
        let mut watch = Watch::new(at(0));
        for minute in 0..120 {
            watch = watch.observe(at(60 * DAY + minute * MINUTE)).observe(at(minute * MINUTE));
        }
        assert!(watch.is_doubted(at(60 * DAY)) && !watch.is_doubted(at(120 * MINUTE)));
        assert_eq!(limits::CLOCK_JUMP_MAX, Duration::from_secs(24 * 3600));
    }
}
