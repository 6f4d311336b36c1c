//! SPEC 3.2: what is counted is what the rows say, and never more than was accepted.

use crate::model::JobModel;
use crate::violation::{Check, Rule, Violation, require};
use conveyor_domain::{Counts, FailureClass, Storage, Task, TaskStatus};
use conveyor_store::port::JobView;

/// The total is what was acknowledged and read of a list, or that with the one addition whose answer was lost. Which of the
/// two it is, is known from then on.
pub fn total(job: &mut JobModel, view: &JobView) -> Check {
    let next = view.latest_run().run.next_index;
    read_on(job, next)?;
    let (found, known) = (view.latest_run().stats.total, job.total());
    if let Some(addition) = job.unanswered.take()
        && next != job.next_index
    {
        // All or nothing: the tasks of one addition are there together, and its latch with them.
        job.known.latched |= addition.last_batch;
        job.asked.latched |= addition.last_batch;
        job.take(addition.tasks);
    }
    require(found == job.total(), Rule::Durable, || {
        format!("{job} has a total of {found}, and {known} to {} tasks were accepted", job.total())
    })?;
    require(view.latest_run().run.total == found && next == job.next_index, Rule::OnceEach, || {
        format!(
            "{job}: total {found}, but its run says {} and the next index is {next}",
            view.latest_run().run.total
        )
    })
}

/// How far its list is read shows in the next index, and is never taken back.
fn read_on(job: &mut JobModel, next: u32) -> Check {
    let Some(list) = &job.list else { return Ok(()) };
    let end = list.list.len();
    if job.next_index >= end {
        return Ok(());
    }
    require(next >= job.next_index, Rule::Durable, || {
        format!("{job}: {} records of its list were read, and now {next}", job.next_index)
    })?;
    job.read_to(next.min(end));
    Ok(())
}

pub fn of_view(job: &JobModel, view: &JobView) -> Check {
    let stats = view.latest_run().stats;
    let completed = stats.counts.completed();
    if view.latest_run().run.storage == Storage::Removed {
        return require(completed == 0, Rule::Deletion, || {
            format!("{job}: its run was removed, and its counters were not: {stats:?}")
        });
    }
    require(completed <= stats.total, Rule::OnceEach, || {
        format!("{job} counts {completed} of {} tasks as completed", stats.total)
    })?;
    let acknowledged = job.settled.len();
    require(acknowledged <= completed as usize, Rule::Durable, || {
        format!("{job} counts {completed} tasks, and {acknowledged} settles were acknowledged")
    })?;
    let Some(last) = &job.last else { return Ok(()) };
    let before = last.latest_run().stats.counts;
    let grew = before.successful <= stats.counts.successful
        && before.failed.iter().zip(stats.counts.failed).all(|(before, now)| *before <= now);
    require(grew, Rule::OnceEach, || format!("{job}: counts fell from {before:?} to {:?}", stats.counts))
}

/// The class that a failed row was counted under: workers of the simulation write it into the code of the problem.
fn class_of(task: &Task) -> Option<FailureClass> {
    let code = task.error.as_ref()?.code.as_str();
    if code == "task_abandoned" {
        return Some(FailureClass::Other);
    }
    code.parse().ok()
}

pub fn equal_rows(job: &JobModel, view: &JobView, rows: &[Task]) -> Check {
    let mut counted = Counts::default();
    for row in rows {
        match row.status {
            TaskStatus::Pending | TaskStatus::Processing => {}
            TaskStatus::Successful => counted.successful += 1,
            TaskStatus::Failed => match class_of(row) {
                Some(class) => counted.add_failed(class),
                None => {
                    let text = format!("{job}: task {} failed without a known problem", row.id.index());
                    return Err(Violation { rule: Rule::OnceEach, text });
                }
            },
        }
    }
    let stored = view.latest_run().stats.counts;
    require(stored == counted, Rule::OnceEach, || {
        format!("{job}: the counters say {stored:?}, the rows say {counted:?}")
    })
}
