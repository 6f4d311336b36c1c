//! Figures as they are printed: no more digits than mean something.

/// Seconds, to the millisecond.
pub fn seconds(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

/// How many times one rate is another.
pub fn ratio(ratio: f64) -> f64 {
    (ratio * 1000.0).round() / 1000.0
}

/// What falls on one of many, to five digits.
pub fn part(part: f64) -> f64 {
    (part * 1e5).round() / 1e5
}

/// Rows or tasks a second.
pub fn rate(count: u64, seconds: f64) -> f64 {
    (count as f64 / seconds).round()
}
