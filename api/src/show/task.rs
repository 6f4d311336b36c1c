use super::Time;
use crate::signed_url::Link;
use conveyor_domain::{Attempt, Problem, RunId, Task, TaskStatus};
use conveyor_wire as wire;

/// With the URL of its result, if it has one that can still be seen.
pub(crate) fn task(run: RunId, task: Task, expired: bool, result: Option<Link>) -> wire::Task {
    let successful = task.status == TaskStatus::Successful;
    let link = result.filter(|_| successful && !expired);
    let (result_url, result_url_expires_at) = link.map(|link| (link.url, Time(link.expires))).unzip();
    // A task that waits for another attempt may carry the error of the last one; that belongs to its history.
    // A damaged row is marked in whatever state it is (SPEC 6.14).
    let shown = |error: &Problem| task.status == TaskStatus::Failed || error.is_damage();
    wire::Task {
        task_id: task.id,
        external_id: task.input.external_id,
        run_id: run,
        url: task.input.url,
        metadata: task.input.metadata,
        method: Some(task.input.method).filter(|method| !method.is_get()).map(wire::Open::from),
        status: if expired {
            wire::TaskStatus::Expired.into()
        } else {
            wire::TaskStatus::from(task.status).into()
        },
        format: task.result.filter(|_| successful).map(|result| result.format.into()),
        result_url,
        result_url_expires_at,
        error: task.error.filter(shown),
        source_run_id: task.inherited.map(|from| from.run),
        created_at: Time(task.created),
        updated_at: Time(task.updated),
    }
}

pub(crate) fn history(attempts: Vec<Attempt>) -> wire::History {
    let attempt = |attempt: Attempt| wire::Attempt {
        started_at: Time(attempt.started),
        ended_at: Time(attempt.ended),
        attempt: attempt.number,
        error: attempt.error,
        spend: wire::Spend::of(attempt.spend),
    };
    wire::History { events: attempts.into_iter().map(attempt).collect() }
}
