//! What a job of a staged list was accepted with, as an object beside its results (SPEC 6.18): with it, and the list, a job
//! whose rows are lost can be made anew.

use crate::state::ApiState;
use conveyor_domain::ingest::Source;
use conveyor_domain::job::lifecycle::Decision;
use conveyor_domain::{CallerId, Job, JobId, JobSpec, Run, RunId, Timestamp, lifecycle};
use conveyor_store::port::BlobKey;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const VERSION: u32 = 1;

/// The object `jobs/<job>/accepted`. Stored means frozen: a field that is added needs a default. The key that the job
/// forwards is in it as it is in the job's row: sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    version: u32,
    pub job_id: JobId,
    pub run_id: RunId,
    pub caller_id: CallerId,
    pub created_ms: i64,
    pub spec: Arc<JobSpec>,
    /// Names the upload that it was staged in, which is made anew under its old id.
    pub source: Source,
}

/// Not a document that this version reads.
#[derive(Debug, thiserror::Error)]
pub enum NotAccepted {
    #[error(transparent)]
    Malformed(#[from] serde_json::Error),
    #[error("it is of version {0}, which this program does not know")]
    Version(u32),
}

impl Accepted {
    pub fn new(job: &Job, run: &Run, source: Source) -> Accepted {
        Accepted {
            version: VERSION,
            job_id: job.id,
            run_id: run.id,
            caller_id: job.caller,
            created_ms: job.created.0,
            spec: job.spec.clone(),
            source,
        }
    }

    pub fn parse(bytes: &[u8]) -> Result<Accepted, NotAccepted> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        match serde_json::from_slice::<Versioned>(bytes)?.version {
            VERSION => Ok(serde_json::from_slice(bytes)?),
            other => Err(NotAccepted::Version(other)),
        }
    }

    /// Job and run as they were when they were accepted: nothing of the list is read yet.
    pub fn rows(&self, caller: CallerId) -> Decision {
        let spec = JobSpec::clone(&self.spec);
        let (open, created) = (spec.submitted_open, Timestamp(self.created_ms));
        let expected = self.source.expected(&spec.params);
        let mut rows = lifecycle::accept(self.job_id, self.run_id, caller, spec, open, created);
        rows.run.doc.expected = expected;
        rows
    }
}

/// Keeps the document. The job is made: that it could not be rebuilt one day is no reason to tell its caller otherwise.
pub(crate) async fn keep(state: &ApiState, accepted: &Accepted) {
    let written = match serde_json::to_vec(accepted) {
        Ok(bytes) => {
            let key = BlobKey::accepted(accepted.job_id);
            state.backend.blobs.put(&key, bytes.into()).await.map_err(|error| error.to_string())
        }
        Err(error) => Err(error.to_string()),
    };
    if let Err(error) = written {
        tracing::warn!(job = %accepted.job_id, error, "what the job was accepted with is not kept; it cannot be rebuilt if its rows are lost");
    }
}

/// Removes the document of a job that was deleted, or whose first run was: nobody is to bring that back. The sweeper does it
/// as well; this is for a database that is lost before it comes to that. Asked for whatever the job was made of: of a short
/// list there is a document as well, and its run does not say so.
pub(crate) async fn forget(state: &ApiState, job: JobId) {
    if let Err(error) = state.backend.blobs.delete(&BlobKey::accepted(job)).await {
        tracing::warn!(%job, %error, "what a deleted job was accepted with is still there; a sweep will remove it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = r#"{"version":1,"job_id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","run_id":"01ARZ3NDEKTSV4RRFFQ69G5FAW",
        "caller_id":"01ARZ3NDEKTSV4RRFFQ69G5FAX","created_ms":1700000000000,
        "spec":{"format":"html","max_inflight":7,"limits_revision":0,"submitted_open":false,"task_shard_count":4,"credential":"c2VhbGVk"},
        "source":{"upload":"01ARZ3NDEKTSV4RRFFQ69G5FAY","staged":{"object":"uploads/x/y-0","size":9,"etag":"e"},"spec":{"type":"lines"},
            "on_invalid_rows":"skip","param_policy":"zen_rows"}}"#;

    #[test]
    fn what_was_kept_reads_and_makes_the_same_rows() {
        let accepted = Accepted::parse(OLD.as_bytes()).unwrap();
        let Decision { job, run } = accepted.rows(accepted.caller_id);
        assert_eq!((job.id, run.id, job.latest_run), (accepted.job_id, accepted.run_id, accepted.run_id));
        assert_eq!((job.created, job.spec.task_shard_count), (Timestamp(1_700_000_000_000), 4));
        assert!(run.is_ingesting() && !run.latched && run.total == 0);
        assert_eq!(Accepted::new(&job, &run, accepted.source.clone()), accepted);
        let written = serde_json::to_vec(&accepted).unwrap();
        assert_eq!(Accepted::parse(&written).unwrap(), accepted);
    }

    #[test]
    fn what_a_later_version_kept_is_not_guessed_at() {
        let later = OLD.replacen(r#""version":1"#, r#""version":2"#, 1);
        assert!(matches!(Accepted::parse(later.as_bytes()), Err(NotAccepted::Version(2))));
        assert!(matches!(Accepted::parse(b"{}"), Err(NotAccepted::Malformed(_))));
    }
}
