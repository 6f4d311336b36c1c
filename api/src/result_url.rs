//! Where the body of a result can be had without a key: from the storage itself where it lets callers in and the body has
//! an object of its own, from us otherwise (SPEC 10).

use crate::problem::Result;
use crate::signed_url::{BaseUrl, ContentPath};
use crate::state::ApiState;
use conveyor_domain::task::ResultRef;
use conveyor_domain::{Task, TaskStatus, limits};
use conveyor_store::port::{BlobKey, RunKey, Validity};

/// `None` for a task that has no result.
pub(crate) async fn of(state: &ApiState, base: &BaseUrl, key: RunKey, task: &Task) -> Result<Option<String>> {
    if task.status != TaskStatus::Successful {
        return Ok(None);
    }
    let from = state.now();
    if let (Some(direct), Some((object, result))) = (state.direct(), own_object(task)) {
        let validity = Validity { from, until: from.after(limits::RESULT_URL_TTL) };
        return Ok(Some(direct.get_url(&object, result.format.content_type(), validity).await?));
    }
    let path = ContentPath { job: key.job, run: key.run, task: task.id };
    Ok(Some(path.signed(&state.secret, base, from)))
}

fn own_object(task: &Task) -> Option<(BlobKey, &ResultRef)> {
    let result = task.result.as_ref().filter(|result| result.whole)?;
    Some((result.object.as_ref()?.parse().ok()?, result))
}
