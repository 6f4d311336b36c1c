//! How many calls were in flight, and since when. Pure: a log of changes, and what can be read from it.

use serde::Serialize;
use std::time::Duration;

/// From this moment on so many calls were in flight. Times are microseconds since the log began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    pub at_us: u64,
    pub in_flight: u64,
}

/// As `[at_us, in_flight]`: there may be two million of them.
impl Serialize for Change {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.at_us, self.in_flight).serialize(serializer)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub from_us: u64,
    pub to_us: u64,
}

impl Span {
    pub fn seconds(self) -> f64 {
        self.to_us.saturating_sub(self.from_us) as f64 / 1e6
    }
}

/// Changes by one, in the order of their times.
#[derive(Clone, Debug, Default)]
pub struct History(Vec<Change>);

impl History {
    pub fn new(changes: Vec<Change>) -> History {
        debug_assert!(changes.is_sorted_by_key(|change| change.at_us));
        History(changes)
    }

    /// When calls began.
    pub fn arrivals_us(&self) -> Vec<u64> {
        let before = std::iter::once(0).chain(self.0.iter().map(|change| change.in_flight));
        let grown = self.0.iter().zip(before).filter(|(change, before)| change.in_flight > *before);
        grown.map(|(change, _)| change.at_us).collect()
    }

    /// In flight at that moment, after all that changed in it.
    fn at(&self, at_us: u64) -> u64 {
        let next = self.0.partition_point(|change| change.at_us <= at_us);
        next.checked_sub(1).map_or(0, |last| self.0[last].in_flight)
    }

    fn after(&self, at_us: u64) -> &[Change] {
        &self.0[self.0.partition_point(|change| change.at_us <= at_us)..]
    }

    /// The most at once from a moment on.
    pub fn max_since(&self, from_us: u64) -> u64 {
        let later = self.after(from_us).iter().map(|change| change.in_flight);
        later.fold(self.at(from_us), u64::max)
    }

    /// What was in flight on average, each number weighted with the time that it held. Of no time there is none.
    pub fn average(&self, span: Span) -> Option<f64> {
        let length_us = span.to_us.checked_sub(span.from_us).filter(|length| *length > 0)?;
        let mut sum = 0_u128;
        let (mut at_us, mut in_flight) = (span.from_us, self.at(span.from_us));
        for change in self.after(span.from_us).iter().take_while(|change| change.at_us < span.to_us) {
            sum += u128::from(in_flight) * u128::from(change.at_us - at_us);
            (at_us, in_flight) = (change.at_us, change.in_flight);
        }
        sum += u128::from(in_flight) * u128::from(span.to_us - at_us);
        Some(sum as f64 / length_us as f64)
    }

    /// From the first moment at the cap to the one when fewer than that were left to begin: between them nothing but the
    /// limit may keep calls from beginning. `None` if there is no such time.
    pub fn saturation(&self, cap: u64, tasks: u64) -> Option<Span> {
        let from_us = self.0.iter().find(|change| change.in_flight >= cap)?.at_us;
        let last_needed = usize::try_from(tasks.checked_sub(cap)?).ok()?;
        let to_us = *self.arrivals_us().get(last_needed)?;
        (from_us < to_us).then_some(Span { from_us, to_us })
    }

    /// The first moment at the cap after `since_us` from which on the average of a window is at least `average_min`. The
    /// log must reach over the whole window: what was not seen is not full speed.
    pub fn full_speed_since(
        &self,
        since_us: u64,
        cap: u64,
        window: Duration,
        average_min: f64,
        seen_until_us: u64,
    ) -> Option<u64> {
        let window_us = u64::try_from(window.as_micros()).unwrap_or(u64::MAX);
        let now = std::iter::once(since_us).filter(|at_us| self.at(*at_us) >= cap);
        let later =
            self.after(since_us).iter().filter(|change| change.in_flight >= cap).map(|change| change.at_us);
        now.chain(later).find(|from_us| {
            let span = Span { from_us: *from_us, to_us: from_us.saturating_add(window_us) };
            span.to_us <= seen_until_us && self.average(span).is_some_and(|average| average >= average_min)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(changes: &[(u64, u64)]) -> History {
        History::new(
            changes
                .iter()
                .map(|(at_us, in_flight)| Change { at_us: *at_us, in_flight: *in_flight })
                .collect(),
        )
    }

    fn span(from_us: u64, to_us: u64) -> Span {
        Span { from_us, to_us }
    }

    #[test]
    fn arrivals_are_where_it_grows() {
        let history = history(&[(5, 1), (7, 2), (9, 1), (9, 2), (12, 1), (20, 0)]);
        assert_eq!(history.arrivals_us(), [5, 7, 9]);
        assert!(History::default().arrivals_us().is_empty());
    }

    #[test]
    fn the_average_weighs_each_number_with_its_time() {
        let history = history(&[(10, 1), (20, 2), (30, 4), (40, 0)]);
        assert_eq!(history.average(span(10, 40)), Some(70.0 / 30.0));
        assert_eq!(history.average(span(15, 25)), Some(1.5), "the ends cut through");
        assert_eq!(history.average(span(0, 20)), Some(0.5), "nothing counts as well");
        assert_eq!(history.average(span(40, 100)), Some(0.0));
        assert_eq!(history.average(span(30, 50)), Some(2.0), "a change at the very beginning counts");
        // The plain mean of the numbers would be 7/4.
        assert_ne!(history.average(span(10, 40)), Some(1.75));
        assert_eq!(history.average(span(20, 20)), None);
        assert_eq!(history.average(span(20, 10)), None);
        assert_eq!(History::default().average(span(0, 10)), Some(0.0));
    }

    #[test]
    fn the_most_since_a_moment_includes_what_held_then() {
        let history = history(&[(10, 1), (11, 2), (12, 3), (20, 2), (30, 1)]);
        assert_eq!(history.max_since(0), 3);
        assert_eq!(history.max_since(15), 3, "still in flight");
        assert_eq!(history.max_since(20), 2);
        assert_eq!(history.max_since(31), 1);
    }

    /// Six calls, at most two at once, each of 10 us and begun 1 us after the one before it ended.
    fn six_calls() -> History {
        history(&[
            (0, 1),
            (1, 2), // two
            (10, 1),
            (11, 2),
            (12, 1),
            (13, 2), // four
            (21, 1),
            (22, 2),
            (23, 1),
            (24, 2), // six
            (32, 1),
            (34, 0),
        ])
    }

    #[test]
    fn saturation_ends_when_fewer_than_the_cap_are_left() {
        // With the fifth call one is left.
        assert_eq!(six_calls().saturation(2, 6), Some(span(1, 22)));
        let average = six_calls().average(span(1, 22)).unwrap();
        assert!((1.8..2.0).contains(&average), "{average}");
    }

    #[test]
    fn there_is_no_saturation_that_was_never_reached() {
        assert_eq!(six_calls().saturation(3, 6), None, "three were never in flight");
        assert_eq!(six_calls().saturation(2, 60), None, "and it did not last until the end of so many");
        assert_eq!(six_calls().saturation(2, 1), None, "fewer tasks than the cap");
        assert_eq!(six_calls().saturation(2, 2), None, "nothing was left once it was reached");
        assert_eq!(History::default().saturation(1, 5), None);
    }

    #[test]
    fn full_speed_has_to_last() {
        let us = Duration::from_micros;
        // Half of it is gone at 100; a touch of the cap at 150; back for good at 300.
        let history = history(&[
            (0, 4),
            (100, 3),
            (101, 2),
            (150, 3),
            (151, 4),
            (152, 3),
            (153, 2),
            (299, 3),
            (300, 4),
        ]);
        let back = |since, until| history.full_speed_since(since, 4, us(50), 3.8, until);
        assert_eq!(back(100, 1_000), Some(300));
        assert_eq!(back(40, 1_000), Some(40), "not yet gone");
        assert_eq!(back(60, 1_000), Some(300), "gone within the window");
        assert_eq!(back(400, 1_000), Some(400), "never away since");
        assert_eq!(back(100, 349), None, "not seen long enough");
        assert_eq!(back(100, 350), Some(300));
        assert_eq!(history.full_speed_since(100, 5, us(50), 1.0, 1_000), None, "never so many");
    }
}
