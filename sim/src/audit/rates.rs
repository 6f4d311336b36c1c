//! SPEC 3.7: the starts of a job, whoever was told of them, keep to its rate over any window.

use crate::model::JobModel;
use crate::violation::{Check, Rule, require};
use conveyor_domain::dispatch::grant::Ask;
use conveyor_domain::{Grant, Rate, Timestamp, limits};
use std::time::Duration;

/// Starts are told in milliseconds, rounded up: two of them may look that much nearer than they are.
const ROUNDING: Duration = Duration::from_millis(1);

/// One answer.
pub fn taken(job: &mut JobModel, ask: &Ask, grant: &Grant, now: Timestamp) -> Check {
    let Grant { starts, limits, .. } = grant;
    // A job on its way out has no work to limit, and its budget goes with it.
    if starts.is_empty() || job.asked.deleted {
        return Ok(());
    }
    let ahead = now.after(limits::STARTS_AHEAD + ROUNDING);
    let fits =
        starts.len() <= ask.starts as usize && starts.iter().all(|start| (now..=ahead).contains(start));
    require(fits && grant.permits > 0, Rule::Limits, || {
        format!("{job}: {ask:?} was answered {grant:?}, at {now:?}")
    })?;
    let held = job.budget.held_until;
    require(held.is_none_or(|until| until <= now), Rule::Limits, || {
        format!("{job} is held until {held:?} and starts {starts:?}")
    })?;
    let all = job.budget.starts.entry(limits.revision).or_default();
    all.extend(starts);
    all.sort();
    let kept = limits.rate.is_some_and(|rate| keeps_to(rate, all));
    require(kept, Rule::Limits, || {
        let all = &job.budget.starts[&limits.revision];
        format!("{job}: under {limits:?} there were these starts: {all:?}")
    })
}

/// Whether no window has more than a full bucket and what the rate brings. `n` starts from `a` to `b` are too many if
/// `n > tokens + rate * (b - a)`; so it is enough to look from each start at the one with the most room before it.
fn keeps_to(rate: Rate, starts: &[Timestamp]) -> bool {
    let most = f64::from(rate.burst()) + rate.per_second() * ROUNDING.as_secs_f64() + 1e-6;
    let Some(first) = starts.first() else { return true };
    let mut least = f64::MAX;
    (0u32..).zip(starts).all(|(n, start)| {
        let seconds = (start.0 - first.0) as f64 / 1000.0;
        let ahead = f64::from(n) - rate.per_second() * seconds;
        least = least.min(ahead);
        ahead - least + 1.0 <= most
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_start_too_many_is_found_in_any_window() {
        let rate = Rate::new(10.0, Some(4)).unwrap();
        let at = |starts: &[i64]| keeps_to(rate, &starts.iter().map(|ms| Timestamp(*ms)).collect::<Vec<_>>());
        assert!(at(&[]) && at(&[0, 0, 0, 0, 100, 200, 300]) && at(&[0, 100, 900, 900, 900, 900, 1_000]));
        assert!(!at(&[0, 0, 0, 0, 0]), "four at once");
        assert!(!at(&[0, 0, 0, 0, 100, 190]), "then ten a second");
        assert!(!at(&[0, 5_000, 5_000, 5_000, 5_000, 5_050, 9_000]), "also later");
    }
}
