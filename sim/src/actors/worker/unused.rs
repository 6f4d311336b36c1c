//! Which objects of a worker nobody will ever read (SPEC 6.6).

use crate::faults::{Answer, answer};
use crate::violation::Violation;
use crate::world::World;
use conveyor_domain::{JobStatus, RunStatus, TaskId};
use conveyor_store::port::{BlobKey, RunKey};

/// What is not answered is not known.
pub async fn is_nobodys(
    world: &World,
    key: RunKey,
    object: &BlobKey,
    tasks: &[TaskId],
) -> Result<bool, Violation> {
    for task in tasks {
        let nobodys = match answer("task", world.backend.store.task(key, *task).await)? {
            Answer::Got(Some(row)) => {
                let named = row.result.and_then(|result| result.object);
                row.status.is_terminal() && named.as_deref() != Some(object.as_str())
            }
            Answer::Got(None) => is_deleted(world, key).await?,
            Answer::Refused(_) | Answer::NotFound | Answer::Unknown => false,
        };
        if !nobodys {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A job of the simulation has one run, its latest.
async fn is_deleted(world: &World, key: RunKey) -> Result<bool, Violation> {
    let view = answer("any_job", world.backend.store.job(None, key.job).await)?;
    let Answer::Got(Some(view)) = view else { return Ok(false) };
    Ok(view.job.status == JobStatus::Deleted || view.latest_run().run.status == RunStatus::Deleted)
}
