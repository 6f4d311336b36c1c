//! The breaker (SPEC 6.25): a run too many of whose tasks fail is paused, before it spends more.

use crate::{Counts, JobSpec, PauseCode, PauseReason, Run, limits};
use serde::{Deserialize, Serialize};

const MILLION: u32 = 1_000_000;

/// A share of tasks, exact to a millionth, more than none and at most all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FailureRatio {
    millionths: u32,
}

impl FailureRatio {
    pub fn new(ratio: f64) -> Option<FailureRatio> {
        let millionths = (ratio * f64::from(MILLION)).round();
        let fits = ratio <= 1.0 && (1.0..=f64::from(MILLION)).contains(&millionths);
        fits.then_some(FailureRatio { millionths: millionths as u32 })
    }

    pub fn as_f64(self) -> f64 {
        f64::from(self.millionths) / f64::from(MILLION)
    }

    fn is_passed(self, failed: u32, completed: u32) -> bool {
        u64::from(failed) * u64::from(MILLION) > u64::from(completed) * u64::from(self.millionths)
    }
}

/// Why a run has to pause, if it has to and goes on so far.
pub fn judge(job: &JobSpec, run: &Run, counts: &Counts) -> Option<PauseReason> {
    let most = job.max_failure_ratio.filter(|_| !run.paused && !run.status.is_terminal())?;
    trips(most, counted(run, counts))
}

/// Whether too few tasks are done to tell.
pub fn is_too_early(run: &Run, counts: &Counts) -> bool {
    counted(run, counts).completed() < limits::BREAKER_MIN_TASKS
}

/// What came of it since it began, or was last resumed. What it inherited is not its own.
fn counted(run: &Run, counts: &Counts) -> Counts {
    counts.minus(run.doc.inherited).minus(run.doc.breaker_from)
}

fn trips(most: FailureRatio, counts: Counts) -> Option<PauseReason> {
    let (completed, failed) = (counts.completed(), counts.failed_total());
    if completed < limits::BREAKER_MIN_TASKS || !most.is_passed(failed, completed) {
        return None;
    }
    let detail = format!("{failed} of {completed} tasks failed, more than {} of them.", most.as_f64());
    Some(PauseReason { code: PauseCode::FailureRatio, detail })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FailureClass;

    fn counts(successful: u32, failed: u32) -> Counts {
        let mut counts = Counts { successful, ..Counts::default() };
        (0..failed).for_each(|_| counts.add_failed(FailureClass::Blocked));
        counts
    }

    #[test]
    fn a_ratio_is_more_than_none_and_at_most_all() {
        for bad in [0.0, -0.5, 1.000_000_1, 2.0, f64::NAN, f64::INFINITY, 1e-9] {
            assert_eq!(FailureRatio::new(bad), None, "{bad}");
        }
        for good in [0.000_001, 0.2, 1.0] {
            assert_eq!(FailureRatio::new(good).unwrap().as_f64(), good);
        }
    }

    #[test]
    fn it_takes_enough_tasks_and_more_than_the_ratio() {
        let half = FailureRatio::new(0.5).unwrap();
        assert_eq!(trips(half, counts(0, 19)), None, "too few to tell");
        assert_eq!(trips(half, counts(10, 10)), None, "not above it");
        let reason = trips(half, counts(9, 11)).unwrap();
        assert_eq!(reason.code, PauseCode::FailureRatio);
        assert_eq!(reason.detail, "11 of 20 tasks failed, more than 0.5 of them.");
        assert_eq!(trips(FailureRatio::new(1.0).unwrap(), counts(0, 100)), None, "never above all");
    }
}
