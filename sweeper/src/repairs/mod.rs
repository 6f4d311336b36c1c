//! Every repair, one file each.

mod abandoned_submits;
mod damaged_rows;
mod dead_letters;
mod deleted_jobs;
mod deleted_runs;
mod due_schedules;
mod ended_queues;
mod expired_runs;
mod expired_uploads;
mod leftovers;
mod lost_completion;
mod lost_notices;
mod missing_refs;
mod scheduled_lists;
mod stalled_ingest;
mod unsent_refs;
mod wrong_counters;

use crate::Sweep;
use crate::proofs::Proofs;
use crate::repair::Repair;
use conveyor_domain::{JobId, QueueName, RunId, Task, TaskRef, limits};
use conveyor_store::Result;
use conveyor_store::port::{BlobKey, Removal};
use std::sync::Arc;

/// All of them, with nothing proved yet.
pub(crate) fn all() -> Vec<Box<dyn Repair>> {
    with(&Arc::default())
}

/// In the order in which one makes room for the next: messages that were given up before those that are missed, counters
/// before ends that go by them, jobs before the uploads that they hold.
pub(crate) fn with(proofs: &Arc<Proofs>) -> Vec<Box<dyn Repair>> {
    vec![
        Box::new(due_schedules::DueSchedules::default()),
        Box::new(dead_letters::DeadLetters::default()),
        Box::new(unsent_refs::UnsentRefsOfRuns),
        Box::new(stalled_ingest::StalledIngest::default()),
        Box::new(missing_refs::MissingRefs(proofs.clone())),
        Box::new(wrong_counters::WrongCounters(proofs.clone())),
        Box::new(lost_completion::LostCompletion(proofs.clone())),
        Box::new(abandoned_submits::AbandonedSubmits),
        Box::new(scheduled_lists::ScheduledLists),
        Box::new(lost_notices::LostNotices),
        Box::new(ended_queues::EndedQueues(proofs.clone())),
        Box::new(deleted_runs::DeletedRuns),
        Box::new(deleted_jobs::DeletedJobs),
        Box::new(leftovers::Leftovers::default()),
        Box::new(expired_runs::ExpiredRuns),
        Box::new(expired_uploads::ExpiredUploads),
        Box::new(damaged_rows::DamagedRows),
    ]
}

/// Removes rows, in steps. False if the time was up first.
async fn remove_rows(sweep: &Sweep<'_>, rows: Removal) -> Result<bool> {
    while sweep.backend.store.remove_rows(rows, limits::SWEEP_STEP_ROWS).await? > 0 {
        if sweep.is_over() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes every object of a job that is deleted, or gone.
async fn remove_objects(sweep: &Sweep<'_>, job: JobId) -> Result<()> {
    for prefix in [BlobKey::job_prefix(job), BlobKey::template_prefix(job)] {
        sweep.backend.blobs.delete_under(&prefix).await?;
    }
    Ok(())
}

/// Removes the queue of a run. False if the time was up first.
async fn remove_queue(sweep: &Sweep<'_>, run: RunId) -> Result<bool> {
    let queue = &sweep.backend.queue;
    while !queue.remove(QueueName::Run(run), limits::SWEEP_STEP_ROWS).await? {
        if sweep.is_over() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Sends the messages of tasks, and returns how many.
async fn send_refs(
    sweep: &Sweep<'_>,
    run: RunId,
    task_shard_count: u32,
    tasks: impl Iterator<Item = &Task>,
) -> Result<u64> {
    let refs: Vec<_> = tasks.map(|task| TaskRef { task: task.id, task_shard_count }.to_string()).collect();
    let count = refs.len() as u64;
    if count > 0 {
        sweep.backend.queue.send(QueueName::Run(run), refs, sweep.clock.now()).await?;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::repair::REPAIRS;

    #[test]
    fn repairs_are_called_as_the_api_says() {
        let names: Vec<&str> = all().iter().map(|repair| repair.name()).collect();
        assert_eq!(names, REPAIRS);
    }
}
