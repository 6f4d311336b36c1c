//! Records that change together with a job and its run, in the same transaction (SPEC 5.7). A backend calls [`records`] with
//! what it read and what was decided, and writes what comes back; so what is due because of a change can be neither lost nor
//! made up.

use crate::CallerId;
use crate::delivery::{self, Delivery};
use crate::id::JobId;
use crate::job::{Job, JobStatus};
use crate::record::{Expected, Record, RecordKey, RecordKind, RecordVersion, RecordWrite};
use crate::run::{Counts, Run};
use crate::time::Timestamp;

/// A change of a job and a run of it. `before` is `None` for what is made.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    pub before: Option<(&'a Job, &'a Run)>,
    pub after: (&'a Job, &'a Run),
    /// What was counted of the run when it was decided.
    pub counts: &'a Counts,
    pub now: Timestamp,
}

pub fn records(change: Change<'_>) -> Vec<RecordWrite> {
    live_job(change).into_iter().chain(notices(change)).collect()
}

/// A job is live from the moment that a run of it is made until that run ends.
fn live_job(Change { before, after: (job, run), .. }: Change<'_>) -> Option<RecordWrite> {
    let was = before.is_some_and(|(job, run)| is_live(job, run));
    let is = is_live(job, run);
    let key = live_job_key(job.caller, job.id);
    match (was, is) {
        (false, true) => {
            let record = Record::new(key, RecordVersion::of(run.id), &serde_json::json!({ "run": run.id }));
            Some(RecordWrite::put(record, Expected::Anything))
        }
        // Of an earlier run that is deleted, say, while the latest goes on.
        (true, false) if run.id == job.latest_run => Some(RecordWrite::remove(key, Expected::Anything)),
        (true, false) | (false, false) | (true, true) => None,
    }
}

/// Whoever is to hear of the end of a run is told because of the very write that ended it (SPEC 6.21).
fn notices(Change { before, after: (job, run), counts, now }: Change<'_>) -> Vec<RecordWrite> {
    let had_ended = before.is_some_and(|(_, run)| run.status.is_terminal());
    if had_ended || !run.status.is_terminal() {
        return Vec::new();
    }
    let notice = |delivery: Delivery| {
        // Nothing can be there: a run ends once.
        RecordWrite::put(delivery.record(RecordVersion::of(run.id), Some(now)), Expected::Anything)
    };
    delivery::of_ended_run(job, run, counts).into_iter().map(notice).collect()
}

pub fn live_job_key(caller: CallerId, job: JobId) -> RecordKey {
    RecordKey::new(RecordKind::LiveJob, caller, job)
}

fn is_live(job: &Job, run: &Run) -> bool {
    job.status != JobStatus::Deleted && !run.status.is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::RunId;
    use crate::job::JobSpec;
    use crate::lifecycle::{self, Command, Decision};

    fn submitted() -> Decision {
        let (job, run) = (JobId::from_bytes([1; 16]), RunId::from_bytes([2; 16]));
        lifecycle::submit(job, run, CallerId::from_bytes([3; 16]), JobSpec::default(), true, 1, Timestamp(0))
    }

    fn of(before: Option<&Decision>, after: &Decision) -> Vec<RecordWrite> {
        records(Change {
            before: before.map(|rows| (&rows.job, &rows.run)),
            after: (&after.job, &after.run),
            counts: &Counts::default(),
            now: Timestamp(1),
        })
    }

    #[test]
    fn a_job_is_live_from_its_submit_to_the_end_of_its_run() {
        let made = submitted();
        let key = live_job_key(made.job.caller, made.job.id);
        assert!(matches!(&of(None, &made)[..], [RecordWrite::Put { record, .. }] if record.key == key));
        let decide =
            |command| lifecycle::decide(&made.job, &made.run, &Counts::default(), &command, Timestamp(1));
        let paused = decide(Command::Pause).unwrap();
        assert!(of(Some(&made), &paused).is_empty());
        for end in [Command::Stop, Command::Delete] {
            let ended = decide(end).unwrap();
            assert_eq!(of(Some(&made), &ended), [RecordWrite::remove(key.clone(), Expected::Anything)]);
        }
    }
}
