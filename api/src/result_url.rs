//! Where the body of a result can be had without a key: from the storage itself where it lets callers in and the body has
//! an object of its own, from us otherwise (SPEC 10).

use crate::problem::Result;
use crate::signed_url::{BaseUrl, ContentPath};
use crate::state::ApiState;
use conveyor_domain::job::JobSpec;
use conveyor_domain::retention::result_ttl;
use conveyor_domain::task::ResultRef;
use conveyor_domain::{Run, Task, TaskStatus, Timestamp, limits};
use conveyor_store::port::{BlobKey, Validity};

/// `None` for a task that has no result.
pub(crate) async fn of(
    state: &ApiState,
    base: &BaseUrl,
    spec: &JobSpec,
    run: &Run,
    task: &Task,
) -> Result<Option<String>> {
    if task.status != TaskStatus::Successful {
        return Ok(None);
    }
    let from = state.now();
    let until = expiry(spec, run, task, from);
    if until <= from {
        return Ok(None);
    }
    if let (Some(direct), Some((object, result))) = (state.direct(), own_object(task)) {
        let validity = Validity { from, until };
        return Ok(Some(direct.get_url(&object, result.format.content_type(), None, validity).await?));
    }
    let path = ContentPath { job: run.job, run: run.id, task: task.id };
    Ok(Some(path.signed(&state.secret, base, until)))
}

/// Nobody who asks us sees a result past its time, and a URL, which asks nobody, must not show it either.
fn expiry(spec: &JobSpec, run: &Run, task: &Task, now: Timestamp) -> Timestamp {
    let until = now.after(limits::RESULT_URL_TTL).min(task.ended().after(result_ttl(spec)));
    match run.status.is_terminal() {
        true => until.min(run.updated.after(limits::ROWS_KEPT)),
        false => until,
    }
}

fn own_object(task: &Task) -> Option<(BlobKey, &ResultRef)> {
    let result = task.result.as_ref().filter(|result| result.whole)?;
    Some((result.object.as_ref()?.parse().ok()?, result))
}
