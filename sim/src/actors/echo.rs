//! A network that sends things again, much later: an operation that was acknowledged long ago arrives once more, and
//! must change nothing (SPEC 3.5).

use crate::audit::read;
use crate::model::{JobModel, Presence};
use crate::violation::{Check, Rule, require};
use crate::world::World;
use conveyor_domain::lifecycle::Command;
use conveyor_domain::message::QueueName;
use conveyor_domain::{JobId, Task, TaskInput};
use conveyor_store::port::{
    Depth, JobView, Receipt, RunKey, SettleGroup, Settled, StatusFilter, Submission, TasksQuery,
};
use std::collections::VecDeque;

/// How far back an echo can come from.
const REMEMBERED_MAX: usize = 60;
const ROWS_MAX: u32 = 1_000;

#[derive(Clone, Debug)]
pub enum Operation {
    Submit(Submission),
    Command(JobId, Command),
    Settle(SettleGroup),
    Ack(RunKey, Vec<Receipt>),
    /// Rows that are there, written again with something else in them.
    Rows(RunKey),
}

impl Operation {
    fn job(&self) -> JobId {
        match self {
            Operation::Submit(submission) => submission.job.id,
            Operation::Command(job, _) => *job,
            Operation::Settle(group) => group.key.job,
            Operation::Ack(key, _) | Operation::Rows(key) => key.job,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Operation::Submit(_) => "submit",
            Operation::Command(..) => "command",
            Operation::Settle(_) => "settle",
            Operation::Ack(..) => "ack",
            Operation::Rows(_) => "put_tasks",
        }
    }
}

/// Operations that were acknowledged, the oldest first.
#[derive(Debug, Default)]
pub struct Past(VecDeque<Operation>);

impl Past {
    pub fn remember(&mut self, operation: Operation) {
        if self.0.len() == REMEMBERED_MAX {
            self.0.pop_front();
        }
        self.0.push_back(operation);
    }
}

pub async fn step(world: &mut World) -> Check {
    let past: Vec<Operation> = world.past.0.iter().cloned().collect();
    let Some(operation) = world.dice.pick(&past) else { return Ok(()) };
    let job = world.model.job(operation.job()).clone();
    // The submit of a job that is gone would make a new one: its id is all there was to know it by.
    if job.presence != Presence::There || job.asked.deleted {
        return Ok(());
    }
    let before = snapshot(world, &job).await?;
    let too_late = match operation {
        // Any command on the job may be what ends a run that only waits for somebody to notice.
        Operation::Command(..) => before.completion_is_due(),
        // Nobody writes rows of a run that has ended; doing so would bring its queue back, empty.
        Operation::Rows(_) => before.has_ended(),
        Operation::Submit(_) | Operation::Settle(_) | Operation::Ack(..) => false,
    };
    if too_late {
        return Ok(());
    }
    repeat(world, operation).await?;
    let after = snapshot(world, &job).await?;
    world.tally.replays += 1;
    world.note(format!("echo: {} of {job}", operation.name()));
    require(before == after, Rule::Replay, || {
        format!("{job}: a late {} changed {}", operation.name(), before.difference(&after))
    })
}

#[derive(Debug, PartialEq)]
struct Snapshot {
    view: Option<JobView>,
    rows: Vec<Task>,
    depth: Depth,
}

impl Snapshot {
    fn has_ended(&self) -> bool {
        self.view.as_ref().is_none_or(|view| view.latest.run.status.is_terminal())
    }

    fn completion_is_due(&self) -> bool {
        self.view.as_ref().is_some_and(|view| {
            let run = &view.latest.run;
            run.latched && !run.status.is_terminal() && run.is_drained(&view.latest.stats.counts)
        })
    }

    fn difference(&self, other: &Snapshot) -> String {
        if self.view != other.view {
            return format!("the job from {:?} to {:?}", self.view, other.view);
        }
        let differs = |(a, b): &(&Task, &Task)| a != b;
        match self.rows.iter().zip(&other.rows).find(differs) {
            Some((a, b)) => format!("a row from {a:?} to {b:?}"),
            None => format!(
                "{} rows and {:?} to {} rows and {:?}",
                self.rows.len(),
                self.depth,
                other.rows.len(),
                other.depth
            ),
        }
    }
}

async fn snapshot(world: &World, job: &JobModel) -> Check<Snapshot> {
    let (store, queue) = (&world.truth.store, &world.truth.queue);
    let query = TasksQuery { key: job.key, filter: StatusFilter::All, after: None, limit: ROWS_MAX };
    Ok(Snapshot {
        view: read("a job", store.job(job.caller, job.key.job).await)?,
        rows: read("tasks", store.tasks(query).await)?,
        depth: read("a queue", queue.depth(QueueName::Run(job.key.run), world.now()).await)?,
    })
}

async fn repeat(world: &World, operation: &Operation) -> Check {
    let (store, now) = (&world.truth.store, world.now());
    match operation {
        Operation::Submit(submission) => {
            let unsent = read("a repeated submit", store.submit(submission.clone()).await)?;
            require(unsent.is_empty(), Rule::Replay, || "a repeated submit has refs to send".to_owned())
        }
        // Refused is as good as done: the job has moved on.
        Operation::Command(job, command) => {
            let _ = store.apply(*job, command.clone(), now).await;
            Ok(())
        }
        Operation::Settle(group) => {
            let answers = read("a repeated settle", store.settle(group.clone(), now).await)?;
            require(!answers.contains(&Settled::Applied), Rule::Replay, || {
                format!("a settle that was answered before is applied again: {group:?}: {answers:?}")
            })
        }
        Operation::Ack(key, receipts) => {
            let ack = world.truth.queue.ack(QueueName::Run(key.run), receipts.clone()).await;
            read("a repeated ack", ack)
        }
        Operation::Rows(key) => {
            let total = world.model.find(key.job).map_or(0, JobModel::total);
            let other = TaskInput::from_url("https://example.com/another").expect("a valid URL");
            let rows = (0..total).map(|index| (index, other.clone())).collect();
            read("repeated rows", store.put_tasks(*key, rows, now).await).map(drop)
        }
    }
}
