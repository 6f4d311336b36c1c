//! Where the body of a result can be had without a key: from the storage itself where it lets callers in and the body has
//! an object of its own, from us otherwise (SPEC 10).

use crate::problem::Result;
use crate::signed_url::{BaseUrl, ContentPath, Link, link_expires};
use crate::state::ApiState;
use conveyor_domain::job::retention::result_ttl;
use conveyor_domain::{Job, JobSpec, ResultRef, Run, Task, TaskStatus, Timestamp, limits};
use conveyor_store::port::{BlobKey, Validity};

/// `None` for a task that has no result.
pub(crate) async fn of(
    state: &ApiState,
    base: &BaseUrl,
    job: &Job,
    run: &Run,
    task: &Task,
) -> Result<Option<Link>> {
    if task.status != TaskStatus::Successful {
        return Ok(None);
    }
    let from = state.now();
    let Some(until) = link_expires(from, state.config.result_url_ttl, seen_until(&job.spec, run, task))
    else {
        return Ok(None);
    };
    if let (Some(direct), Some((object, result))) = (state.direct(), own_object(task)) {
        let validity = Validity { from, until };
        let url = direct.get_url(&object, result.format.content_type(), None, validity).await?;
        return Ok(Some(Link { url, expires: until }));
    }
    let path = ContentPath { job: run.job, run: run.id, task: task.id };
    Ok(Some(Link { url: path.signed(job.caller, &state.secret, base, until), expires: until }))
}

/// Nobody who asks us sees a result past its time, and a URL, which asks nobody, must not show it either.
fn seen_until(spec: &JobSpec, run: &Run, task: &Task) -> Timestamp {
    let until = task.ended().after(result_ttl(spec));
    match run.status.is_terminal() {
        true => until.min(run.updated.after(limits::ROWS_KEPT)),
        false => until,
    }
}

fn own_object(task: &Task) -> Option<(BlobKey, &ResultRef)> {
    let result = task.result.as_ref().filter(|result| result.whole)?;
    Some((result.object.as_ref()?.parse().ok()?, result))
}
