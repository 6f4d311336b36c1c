//! The bodies of a run, read and verified a page at a time (SPEC 6.14). It changes nothing and holds nobody up.

use conveyor_domain::{BodiesAudit, BodyFault, Task, TaskId, limits};
use conveyor_store::port::{Reader, RunKey, StatusFilter, TasksQuery};
use conveyor_store::{Backend, Blobs, Error, Result, check_body};
use futures::{StreamExt, TryStreamExt, stream};
use std::pin::pin;
use std::time::Duration;
use tokio::time::Instant;

/// Reads bodies of successful tasks behind `after`, one at least, and begins no more once the time is over. It fails only if
/// nothing was read: otherwise it ends before what does not answer, and what was found is not lost.
pub async fn audit_bodies(
    backend: &Backend,
    key: RunKey,
    after: Option<TaskId>,
    within: Duration,
) -> Result<BodiesAudit> {
    let until = Instant::now() + within;
    let mut audit = BodiesAudit { next: after, ..BodiesAudit::default() };
    loop {
        let query = TasksQuery {
            key,
            filter: StatusFilter::Successful,
            after: audit.next,
            limit: limits::RESULTS_PAGE_MAX,
            max_bytes: limits::RESULTS_PAGE_BYTES,
        };
        let page = match backend.store.scan_tasks(query, limits::LOOK_ROWS_MAX, Reader::Caller).await {
            Ok(page) => page,
            Err(_) if audit.read > 0 => return Ok(audit),
            Err(error) => return Err(error),
        };
        let (mut left, mut is_first) = (page.rows.len(), audit.read == 0);
        let in_time = |_: &Task| std::mem::take(&mut is_first) || Instant::now() < until;
        // In their order, so that the last one that was read says where to go on.
        let read = stream::iter(page.rows.into_iter().take_while(in_time))
            .map(|task| async move {
                let fault = fault_of(&*backend.blobs, &task).await?;
                Ok::<_, Error>((task, fault))
            })
            .buffered(limits::AUDIT_READS_MAX);
        let mut read = pin!(read);
        loop {
            match read.try_next().await {
                Ok(Some((task, fault))) => {
                    audit.add(&task, fault);
                    audit.next = Some(task.id);
                    left -= 1;
                }
                Ok(None) => break,
                Err(_) if audit.read > 0 => return Ok(audit),
                Err(error) => return Err(error),
            }
        }
        if left == 0 {
            audit.next = page.next;
        }
        if audit.next.is_none() || left > 0 || Instant::now() >= until {
            return Ok(audit);
        }
    }
}

async fn fault_of(blobs: &dyn Blobs, task: &Task) -> Result<Option<BodyFault>> {
    match &task.result {
        Some(result) => Ok(check_body(blobs, task.id, result).await?.err()),
        // Nobody can tell where it is.
        None => Ok(Some(BodyFault::Damaged)),
    }
}
