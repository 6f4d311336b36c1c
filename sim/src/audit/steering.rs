//! SPEC 2, 6.7: a job has the limits that it was given, and its run is paused if somebody paused it.

use crate::model::JobModel;
use crate::violation::{Check, Rule, require};
use conveyor_domain::Command;
use conveyor_store::port::{Claim, JobView};
use std::sync::Arc;

/// What is found is what was known, or that with the one change whose answer was lost. Which of the two it is, is known from
/// then on.
pub fn of_view(job: &mut JobModel, view: &JobView) -> Check {
    let (spec, paused) = (&view.job.spec, view.latest_run().run.paused);
    let changed = match &job.steering {
        Some(Command::Limits(change)) => Some(job.spec.with(change)),
        Some(_) | None => None,
    };
    require(*spec == job.spec || changed.as_ref() == Some(&**spec), Rule::Durable, || {
        format!("{job} was submitted with, or changed to, {:?}, and has {spec:?}", job.spec)
    })?;
    let turned = match &job.steering {
        Some(Command::Pause) => paused,
        Some(Command::Resume) => !paused,
        Some(_) | None => false,
    };
    require(paused == job.paused || turned, Rule::Durable, || {
        format!("{job}: paused was {} and is {paused}; unanswered: {:?}", job.paused, job.steering)
    })?;
    (job.spec, job.paused) = (Arc::clone(spec), paused);
    Ok(())
}

/// The answer to one claim.
pub fn claimed(job: &JobModel, index: u32, claim: &Claim) -> Check {
    let fits = match claim {
        Claim::Claimed(_) | Claim::Exhausted(_) | Claim::Early(_) => {
            !job.paused || job.steering == Some(Command::Resume)
        }
        Claim::Paused => job.paused || job.steering == Some(Command::Pause),
        Claim::Terminal | Claim::Gone => true,
    };
    require(fits, Rule::Lifecycle, || {
        format!("{job}: paused is {}, and a claim of task {index} is answered {claim:?}", job.paused)
    })
}
