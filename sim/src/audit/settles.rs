//! SPEC 3.2 at the moment of the answer: a task ends once, under one claim, and nothing reopens it.

use crate::model::JobModel;
use crate::violation::{Check, Rule, require};
use conveyor_store::port::{Claim, Settle, Settled};

/// The answer to one settle.
pub fn answered(job: &mut JobModel, settle: &Settle, answer: Settled) -> Check {
    let index = settle.task.index();
    let earlier = job.settled_under(index);
    let ours = earlier == Some(settle.token);
    let ends = settle.outcome.status().is_terminal();
    match answer {
        Settled::Applied => {
            require(earlier.is_none(), Rule::OnceEach, || {
                format!(
                    "{job}: task {index} was settled under {earlier:?} and again under {:?}",
                    settle.token
                )
            })?;
        }
        Settled::Already if ends => {
            require(earlier.is_none() || ours, Rule::OnceEach, || {
                format!("{job}: task {index} was settled under {earlier:?}, not under {:?}", settle.token)
            })?;
        }
        Settled::Already => {}
        Settled::Lost => {
            return require(!ours || job.asked.deleted || job.asked.run_deleted, Rule::Durable, || {
                format!("{job}: the acknowledged settle of task {index} is not there any more")
            });
        }
    }
    if ends {
        job.settled.insert(index, settle.clone());
    }
    Ok(())
}

/// The answer to one claim.
pub fn claimed(job: &JobModel, index: u32, claim: &Claim) -> Check {
    let reopened = match claim {
        Claim::Claimed(_) | Claim::Exhausted(_) | Claim::Early(_) | Claim::Paused => {
            job.settled.contains_key(&index)
        }
        Claim::Terminal | Claim::Gone => false,
    };
    require(!reopened, Rule::OnceEach, || {
        format!("{job}: task {index} was settled, and a claim of it is answered {claim:?}")
    })
}
