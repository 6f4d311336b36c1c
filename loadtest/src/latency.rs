//! How long calls took.

use serde::Serialize;
use std::time::Duration;

/// Percentiles by nearest rank: each is a latency that was really seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    #[serde(rename = "status_reads")]
    pub calls: usize,
    #[serde(rename = "status_p50_ms")]
    pub p50_ms: f64,
    #[serde(rename = "status_p99_ms")]
    pub p99_ms: f64,
    #[serde(rename = "status_max_ms")]
    pub max_ms: f64,
}

impl Summary {
    /// Of no calls, all zeros.
    pub fn of(latencies: &[Duration]) -> Summary {
        let mut sorted = latencies.to_vec();
        sorted.sort_unstable();
        let at = |percent| in_ms(nearest_rank(&sorted, percent).unwrap_or_default());
        Summary { calls: sorted.len(), p50_ms: at(50), p99_ms: at(99), max_ms: at(100) }
    }
}

fn nearest_rank(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

pub fn in_ms(latency: Duration) -> f64 {
    (latency.as_secs_f64() * 1e5).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(latencies_ms: impl IntoIterator<Item = u64>) -> Summary {
        Summary::of(&latencies_ms.into_iter().map(Duration::from_millis).collect::<Vec<_>>())
    }

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let hundred = of((1..=100).rev());
        assert_eq!(hundred, Summary { calls: 100, p50_ms: 50.0, p99_ms: 99.0, max_ms: 100.0 });
        assert_eq!(of([7, 3, 5]), Summary { calls: 3, p50_ms: 5.0, p99_ms: 7.0, max_ms: 7.0 });
        assert_eq!(of([4]), Summary { calls: 1, p50_ms: 4.0, p99_ms: 4.0, max_ms: 4.0 });
        assert_eq!(of([]), Summary { calls: 0, p50_ms: 0.0, p99_ms: 0.0, max_ms: 0.0 });
    }

    #[test]
    fn milliseconds_keep_two_digits() {
        assert_eq!(in_ms(Duration::from_nanos(1_234_567)), 1.23);
    }
}
