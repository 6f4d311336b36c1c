//! SPEC 3.2: what is counted is what the rows say, and never more than was accepted.

use crate::model::JobModel;
use crate::violation::{Check, Rule, Violation, require};
use conveyor_domain::run::Counts;
use conveyor_domain::{FailureClass, Task, TaskStatus};
use conveyor_store::port::JobView;

/// The total is what was acknowledged, or that with the one addition whose answer was lost. Which of the two it is, is
/// known from then on.
pub fn total(job: &mut JobModel, view: &JobView) -> Check {
    let (found, known) = (view.latest.stats.total, job.total());
    if let Some(addition) = job.unanswered.take()
        && found != known
    {
        // All or nothing: the tasks of one addition are there together, and its latch with them.
        job.known.latched |= addition.last_batch;
        job.asked.latched |= addition.last_batch;
        job.tasks.extend(addition.tasks);
    }
    require(found == job.total(), Rule::Durable, || {
        format!("{job} has a total of {found}, and {known} to {} tasks were accepted", job.total())
    })?;
    let next = view.latest.run.next_index;
    require(view.latest.run.total == found && next == found, Rule::OnceEach, || {
        format!(
            "{job}: total {found}, but its run says {} and the next index is {next}",
            view.latest.run.total
        )
    })
}

pub fn of_view(job: &JobModel, view: &JobView) -> Check {
    let stats = view.latest.stats;
    let completed = stats.counts.completed();
    require(completed <= stats.total, Rule::OnceEach, || {
        format!("{job} counts {completed} of {} tasks as completed", stats.total)
    })?;
    let acknowledged = job.settled.len();
    require(acknowledged <= completed as usize, Rule::Durable, || {
        format!("{job} counts {completed} tasks, and {acknowledged} settles were acknowledged")
    })?;
    let Some(last) = &job.last else { return Ok(()) };
    let before = last.latest.stats.counts;
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
    FailureClass::ALL.into_iter().find(|class| class.as_str() == code)
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
    let stored = view.latest.stats.counts;
    require(stored == counted, Rule::OnceEach, || {
        format!("{job}: the counters say {stored:?}, the rows say {counted:?}")
    })
}
