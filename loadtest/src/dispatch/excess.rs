//! Whether arrivals kept to a rate. Pure.

/// What a gateway may see in one moment (SPEC 6.7): the burst, and calls that are late. A call may be late by what half of the
/// burst is worth, at least 20 ms or a twentieth of the time between two starts, at most 5 s; or by these after an answer
/// that took 100 ms. Starts are told in milliseconds, rounded up.
pub fn most_at_once(per_second: f64, burst: u32) -> f64 {
    let least_s = (0.05 / per_second).clamp(0.020, 5.0);
    let late_max_s = (f64::from(burst / 2) / per_second).clamp(least_s, 5.0);
    let lateness_s = late_max_s.max(0.100 + least_s) + 0.001;
    f64::from(burst) + per_second * lateness_s
}

/// How many more arrivals than `at_once + per_second * t` there were in the worst window of any length t, counting both of
/// its ends. Negative where there was always room. Of no arrivals there is none.
///
/// A window from arrival i to arrival j has `j - i + 1` of them. So with `f(n) = n - per_second * at(n)` its excess is
/// `f(j) - f(i) + 1 - at_once`, and the worst one that ends at j begins where f was least so far.
pub fn worst_excess(arrivals_us: &[u64], per_second: f64, at_once: f64) -> Option<f64> {
    let first = *arrivals_us.first()?;
    let (mut least, mut worst) = (f64::INFINITY, f64::NEG_INFINITY);
    for (n, at_us) in arrivals_us.iter().enumerate() {
        // Since the first one, so that large numbers do not take the digits of small differences.
        let ahead = n as f64 - per_second * (at_us - first) as f64 / 1e6;
        least = least.min(ahead);
        worst = worst.max(ahead - least + 1.0 - at_once);
    }
    Some(worst)
}

/// Arrivals a second from the first to the last.
pub fn mean_rate(arrivals_us: &[u64]) -> Option<f64> {
    let (first, last) = (arrivals_us.first()?, arrivals_us.last()?);
    (last > first).then(|| (arrivals_us.len() - 1) as f64 * 1e6 / (last - first) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every pair of arrivals, one by one.
    fn worst_of_all_windows(arrivals_us: &[u64], per_second: f64, burst: u32) -> f64 {
        let mut worst = f64::NEG_INFINITY;
        for (i, from) in arrivals_us.iter().enumerate() {
            for (j, to) in arrivals_us.iter().enumerate().skip(i) {
                let allowed = f64::from(burst) + per_second * (to - from) as f64 / 1e6;
                worst = worst.max((j - i + 1) as f64 - allowed);
            }
        }
        worst
    }

    fn excess(arrivals_us: &[u64], per_second: f64, burst: u32) -> f64 {
        let excess = worst_excess(arrivals_us, per_second, f64::from(burst)).unwrap();
        assert!((excess - worst_of_all_windows(arrivals_us, per_second, burst)).abs() < 1e-6);
        excess
    }

    #[test]
    fn an_even_flow_at_the_rate_has_room_for_all_but_one_of_the_burst() {
        let even: Vec<u64> = (0..500).map(|n| 7_000_000 + n * 20_000).collect();
        assert!((excess(&even, 50.0, 10) + 9.0).abs() < 1e-6);
        assert!(excess(&even, 50.0, 1).abs() < 1e-6, "exactly what is allowed");
        assert!(excess(&even, 49.0, 1) > 9.0, "one percent and more too fast, for ten seconds");
    }

    #[test]
    fn a_burst_within_a_slow_flow_is_found() {
        // Ten seconds of nothing much, eleven at once, and again nothing much: the mean is far below the rate.
        let slow = |from: u64| (0..10).map(move |n| from + n * 1_000_000);
        let burst = std::iter::repeat_n(10_500_000, 11);
        let arrivals: Vec<u64> = slow(0).chain(burst).chain(slow(11_500_000)).collect();
        assert!(mean_rate(&arrivals).unwrap() < 2.0);
        assert!((excess(&arrivals, 50.0, 10) - 1.0).abs() < 1e-6);
        assert!(excess(&arrivals, 50.0, 11) <= 1e-6);
    }

    #[test]
    fn two_bursts_that_are_each_allowed_may_not_be_together() {
        let arrivals: Vec<u64> = [0; 10].into_iter().chain([100_000; 10]).collect();
        // 100 ms bring five.
        assert!((excess(&arrivals, 50.0, 10) - 5.0).abs() < 1e-6);
        let apart: Vec<u64> = [0; 10].into_iter().chain([200_000; 10]).collect();
        assert!(excess(&apart, 50.0, 10).abs() < 1e-6);
    }

    #[test]
    fn one_arrival_is_within_any_burst_and_none_is_nothing() {
        assert_eq!(worst_excess(&[], 50.0, 10.0), None);
        assert!((excess(&[123], 50.0, 10) + 9.0).abs() < 1e-9);
    }

    #[test]
    fn a_burst_may_meet_calls_that_are_late() {
        for (per_second, burst, most) in
            [(50.0, 10, 16.05), (1.0, 1, 1.151), (50.0, 1, 7.05), (1.0, 100, 105.001)]
        {
            assert!((most_at_once(per_second, burst) - most).abs() < 1e-6, "{per_second} {burst}");
        }
    }

    #[test]
    fn the_mean_is_of_the_gaps_and_not_of_the_arrivals() {
        let even: Vec<u64> = (0..51).map(|n| 5_000_000 + n * 20_000).collect();
        assert_eq!(mean_rate(&even), Some(50.0));
        assert_eq!(mean_rate(&[7, 7]), None);
        assert_eq!(mean_rate(&[7]), None);
        assert_eq!(mean_rate(&[]), None);
    }
}
