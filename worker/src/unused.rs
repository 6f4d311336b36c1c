//! Result objects that nobody will ever read (SPEC 6.6).

use conveyor_domain::{JobStatus, RunStatus, TaskId};
use conveyor_store::port::{BlobKey, RunKey};
use conveyor_store::{Backend, Result};

/// Deletes an object of which no settle won, if it is surely nobody's. That no settle won does not say so: beside a rebuild
/// (SPEC 6.18) a row that was lost is put anew, which supersedes the claim, and is then given the newest body that is found,
/// which may be in this very object, or was listed already and is about to be given. What is left here goes with its run,
/// its job or its tombstone.
pub async fn drop_if_nobodys(backend: &Backend, key: RunKey, object: &BlobKey, tasks: &[TaskId]) {
    let dropped = async {
        if is_nobodys(backend, key, object, tasks).await? {
            backend.blobs.delete(object).await?;
        }
        Ok::<_, conveyor_store::Error>(())
    };
    if let Err(error) = dropped.await {
        tracing::debug!(%error, %object, "an unused object was left behind");
    }
}

/// Only what can never change counts: a terminal row stays as it is, and so does what was deleted. No row and no job may
/// mean that the table was lost.
async fn is_nobodys(backend: &Backend, key: RunKey, object: &BlobKey, tasks: &[TaskId]) -> Result<bool> {
    for task in tasks {
        let nobodys = match backend.store.task(key, *task).await? {
            Some(row) => {
                let named = row.result.and_then(|result| result.object);
                row.status.is_terminal() && named.as_deref() != Some(object.as_str())
            }
            None => is_deleted(backend, key).await?,
        };
        if !nobodys {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn is_deleted(backend: &Backend, key: RunKey) -> Result<bool> {
    let Some(view) = backend.store.job(None, key.job).await? else { return Ok(false) };
    if view.job.status == JobStatus::Deleted {
        return Ok(true);
    }
    let run = match view.job.latest_run == key.run {
        // It is seen here even when it is removed already.
        true => view.latest.map(|latest| latest.run),
        false => backend.store.run(key.job, key.run).await?.map(|view| view.run),
    };
    Ok(run.is_some_and(|run| run.status == RunStatus::Deleted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use conveyor_domain::{
        CallerId, FailureClass, JobId, JobSpec, Outcome, Problem, RunId, TaskInput, Timestamp, WorkerId,
        lifecycle,
    };
    use conveyor_store::embedded::Embedded;
    use conveyor_store::port::Submission;

    #[tokio::test]
    async fn a_shared_object_goes_only_if_none_of_its_bodies_is_needed() {
        let dir = tempfile::tempdir().unwrap();
        let (now, worker) = (Timestamp(1_800_000_000_000), WorkerId::from_bytes([4; 16]));
        let backend = Embedded::open(dir.path(), now).unwrap().backend();
        let key = RunKey { job: JobId::from_bytes([1; 16]), run: RunId::from_bytes([2; 16]) };
        let caller = CallerId::from_bytes([3; 16]);
        let rows = lifecycle::submit(key.job, key.run, caller, JobSpec::default(), false, 2, now);
        let tasks = (0..2).map(|n| (n, TaskInput::from_url("https://example.com/").unwrap())).collect();
        let submission = Submission { job: rows.job, run: Some(rows.run), tasks, list: None, once: None };
        backend.store.submit(submission).await.unwrap();

        let object = BlobKey::results(key.job, key.run, worker, 0);
        backend.blobs.put(&object, Bytes::from_static(b"bodies")).await.unwrap();
        let both = [0, 1].map(|n| TaskId::of(key.run, n));
        for (task, kept) in both.into_iter().zip([true, false]) {
            let problem = Problem::new(500, "test", "Failed elsewhere");
            let end = Outcome::Failed { class: FailureClass::Other, problem };
            assert_eq!(backend.store.restore(key, worker, vec![(task, end)], now).await.unwrap(), [true]);
            drop_if_nobodys(&backend, key, &object, &both).await;
            assert_eq!(backend.blobs.get(&object, 0, 6).await.is_ok(), kept);
        }
    }
}
