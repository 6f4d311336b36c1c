//! How long a run is likely to take, from what its limits allow and how long a task takes (SPEC 6.23). None is tried twice.

use crate::{DomainLimit, Rate};
use schemars::JsonSchema;

/// What there is to do, and what may be done at once.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub tasks: u64,
    pub max_inflight: u32,
    pub rate: Option<Rate>,
    pub seconds_per_task: f64,
}

crate::words! {
    /// `measured`: the newest tasks of the caller took so long. `built_in_gateway`: no site is asked.
    /// `nothing_measured`: nothing is known, so it is an estimate.
    #[derive(JsonSchema)]
    pub enum Basis as json {
        Measured = "measured",
        BuiltInGateway = "built_in_gateway",
        NothingMeasured = "nothing_measured",
    }
}

crate::words! {
    /// What makes a run take as long as it does: `max_inflight`, `rate_limit` or `domain_limits` of the job; `none`:
    /// all of it is done at once.
    #[derive(JsonSchema)]
    pub enum Bound as json {
        MaxInflight = "max_inflight",
        RateLimit = "rate_limit",
        DomainLimits = "domain_limits",
        /// All of it is done at once.
        None = "none",
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub seconds: f64,
    pub bound_by: Bound,
}

/// How long it takes, if the tightest of the limits is what holds it up. `sites` are the budgets of domains that its tasks
/// draw on, with how many do.
pub fn estimate(work: Work, sites: impl IntoIterator<Item = (u64, DomainLimit)>) -> Estimate {
    if work.tasks == 0 {
        return Estimate { seconds: 0.0, bound_by: Bound::None };
    }
    let alone = work.seconds_per_task;
    let site = |(tasks, limit): (u64, DomainLimit)| {
        let inflight = limit.max_inflight.map_or(0.0, |max| by_inflight(tasks, max, alone));
        inflight.max(limit.rate.map_or(0.0, |rate| by_rate(tasks, rate, alone)))
    };
    let held_up = [
        (by_inflight(work.tasks, work.max_inflight, alone), Bound::MaxInflight),
        (work.rate.map_or(0.0, |rate| by_rate(work.tasks, rate, alone)), Bound::RateLimit),
        (sites.into_iter().map(site).fold(0.0, f64::max), Bound::DomainLimits),
    ];
    // The first of equals: what holds up all of a run rather than a part.
    let at_once = Estimate { seconds: alone, bound_by: Bound::None };
    held_up.into_iter().fold(at_once, |longest, (seconds, bound_by)| match seconds > longest.seconds {
        true => Estimate { seconds, bound_by },
        false => longest,
    })
}

fn by_inflight(tasks: u64, max: u32, alone: f64) -> f64 {
    let rounds = tasks as f64 / f64::from(max.max(1));
    rounds * alone
}

/// Until the last one starts, and then until it is done.
fn by_rate(tasks: u64, rate: Rate, alone: f64) -> f64 {
    let waiting = tasks.saturating_sub(u64::from(rate.burst()));
    waiting as f64 / rate.per_second() + alone
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: f64 = 2.0;

    fn rate(per_second: f64, burst: u32) -> Rate {
        Rate::new(per_second, Some(burst)).unwrap()
    }

    fn of(tasks: u64, max_inflight: u32, rate: Option<Rate>, sites: &[(u64, DomainLimit)]) -> (f64, Bound) {
        let Estimate { seconds, bound_by } =
            estimate(Work { tasks, max_inflight, rate, seconds_per_task: ALONE }, sites.iter().copied());
        (seconds, bound_by)
    }

    fn at_once(max: u32) -> DomainLimit {
        DomainLimit { max_inflight: Some(max), rate: None }
    }

    #[test]
    fn nothing_takes_no_time_and_one_round_takes_a_task() {
        assert_eq!(of(0, 100, Some(rate(1.0, 1)), &[]), (0.0, Bound::None));
        assert_eq!(of(1, 100, None, &[]), (ALONE, Bound::None));
        assert_eq!(of(100, 100, None, &[]), (ALONE, Bound::None));
    }

    #[test]
    fn the_tightest_limit_is_named() {
        assert_eq!(of(1_000, 100, None, &[]), (10.0 * ALONE, Bound::MaxInflight));
        assert_eq!(of(1_000, 100, Some(rate(10.0, 100)), &[]), (90.0 + ALONE, Bound::RateLimit));
        assert_eq!(of(1_000, 100, Some(rate(1_000.0, 100)), &[]), (10.0 * ALONE, Bound::MaxInflight));
        let sites = [(500, at_once(1)), (500, at_once(400))];
        assert_eq!(of(1_000, 100, None, &sites), (500.0 * ALONE, Bound::DomainLimits));
        let slow = DomainLimit { rate: Some(rate(0.5, 1)), max_inflight: Some(100) };
        assert_eq!(of(1_000, 100, Some(rate(10.0, 1)), &[(101, slow)]), (200.0 + ALONE, Bound::DomainLimits));
        assert_eq!(of(1_000, 100, None, &[(101, DomainLimit::default())]).1, Bound::MaxInflight);
    }

    #[test]
    fn more_to_do_never_takes_less_and_more_room_never_more() {
        let mut before = 0.0;
        for tasks in [1, 10, 99, 100, 101, 5_000, 1_000_000] {
            let (seconds, _) = of(tasks, 100, Some(rate(50.0, 20)), &[(tasks / 2, at_once(10))]);
            assert!(seconds >= before, "{tasks}");
            assert!(of(tasks, 200, Some(rate(50.0, 20)), &[(tasks / 2, at_once(10))]).0 <= seconds);
            before = seconds;
        }
    }

    #[test]
    fn a_bound_is_named_as_it_is_written() {
        for bound in [Bound::MaxInflight, Bound::RateLimit, Bound::DomainLimits, Bound::None] {
            assert_eq!(serde_json::to_value(bound).unwrap(), bound.as_str());
        }
        for basis in [Basis::Measured, Basis::BuiltInGateway, Basis::NothingMeasured] {
            assert_eq!(serde_json::to_value(basis).unwrap(), basis.as_str());
        }
    }
}
