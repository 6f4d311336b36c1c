//! A network that sends things again, much later: an operation that was acknowledged long ago arrives once more, and
//! must change nothing (SPEC 3.5).

use crate::audit::read;
use crate::model::{JobModel, Presence};
use crate::violation::{Check, Rule, require};
use crate::world::World;
use conveyor_domain::{Command, IngestEvent, IngestState, JobId, QueueName, Task, TaskInput, TimelineEntry};
use conveyor_store::Error;
use conveyor_store::port::{
    Appended, Chunk, Depth, Ingest, JobView, Reader, Receipt, RunKey, SettleGroup, Settled, StatusFilter,
    Submission, TasksQuery,
};
use std::collections::VecDeque;

/// How far back an echo can come from.
const REMEMBERED_MAX: usize = 60;
const ROWS_MAX: u32 = 1_000;
const EVENTS_MAX: u32 = 1_000;

#[derive(Clone, Debug)]
pub enum Operation {
    Submit(Box<Submission>),
    /// An event of the log of an ingest, appended again by somebody who had the log as it was before it.
    Log(RunKey),
    Command(JobId, Command),
    Settle(SettleGroup),
    Ack(RunKey, Vec<Receipt>),
    /// Rows that are there, written again with something else in them.
    Rows(RunKey),
    DeleteRun(RunKey),
}

impl Operation {
    fn job(&self) -> JobId {
        match self {
            Operation::Submit(submission) => submission.job.id,
            Operation::Command(job, _) => *job,
            Operation::Settle(group) => group.key.job,
            Operation::Ack(key, _)
            | Operation::Rows(key)
            | Operation::Log(key)
            | Operation::DeleteRun(key) => key.job,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Operation::Submit(_) => "submit",
            Operation::Log(_) => "append",
            Operation::Command(..) => "command",
            Operation::Settle(_) => "settle",
            Operation::Ack(..) => "ack",
            Operation::Rows(_) => "put_tasks",
            Operation::DeleteRun(_) => "delete_run",
        }
    }
}

/// Operations that were acknowledged, the oldest first.
#[derive(Debug, Default)]
pub struct Past {
    recent: VecDeque<Operation>,
    /// What made the jobs, each and every one.
    made: Vec<Operation>,
}

impl Past {
    pub fn remember(&mut self, operation: Operation) {
        if let Operation::Submit(_) = &operation {
            self.made.push(operation.clone());
        }
        if self.recent.len() == REMEMBERED_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(operation);
    }
}

pub async fn step(world: &mut World) -> Check {
    let past: Vec<Operation> = world.past.recent.iter().cloned().collect();
    let Some(operation) = world.dice.pick(&past) else { return Ok(()) };
    let job = world.model.job(operation.job()).clone();
    if job.presence == Presence::Gone {
        return make_again(world, &job, operation).await;
    }
    if job.presence != Presence::There || job.asked.deleted {
        return Ok(());
    }
    let before = snapshot(world, &job).await?;
    let too_late = match operation {
        // Any command on the job may be what ends a run that only waits for somebody to notice.
        Operation::Command(..) => before.completion_is_due(),
        // Nobody writes rows of a run that has ended; doing so would bring its queue back, empty.
        Operation::Rows(_) => before.has_ended(),
        Operation::Submit(_)
        | Operation::Log(_)
        | Operation::Settle(_)
        | Operation::Ack(..)
        | Operation::DeleteRun(_) => false,
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

/// Whatever made the jobs that are gone, at once.
pub async fn make_all_again(world: &mut World) -> Check {
    for operation in world.past.made.clone() {
        let job = world.model.job(operation.job()).clone();
        if job.presence == Presence::Gone {
            make_again(world, &job, &operation).await?;
        }
    }
    Ok(())
}

/// SPEC 6.6: a job that is gone cannot be made again, by whoever was stalled across all of that.
async fn make_again(world: &mut World, job: &JobModel, operation: &Operation) -> Check {
    let store = &world.truth.store;
    let made = match operation {
        Operation::Submit(submission) => store.submit(Submission::clone(submission)).await,
        Operation::Log(_)
        | Operation::Command(..)
        | Operation::Settle(_)
        | Operation::Ack(..)
        | Operation::Rows(_)
        | Operation::DeleteRun(_) => return Ok(()),
    };
    let found = read("a job", store.job(None, job.key.job).await)?;
    require(matches!(made, Err(Error::Conflict(_))) && found.is_none(), Rule::Deletion, || {
        format!("{job} is gone, and a late {} of it was answered {made:?}: {found:?}", operation.name())
    })?;
    world.tally.late_submits += 1;
    world.note(format!("echo: {} of {job}, which is gone", operation.name()));
    Ok(())
}

#[derive(Debug, PartialEq)]
struct Snapshot {
    view: Option<JobView>,
    rows: Vec<Task>,
    events: Vec<TimelineEntry>,
    depth: Depth,
    calls: Depth,
}

impl Snapshot {
    fn has_ended(&self) -> bool {
        self.view.as_ref().is_none_or(|view| view.latest_run().run.status.is_terminal())
    }

    fn completion_is_due(&self) -> bool {
        self.view.as_ref().is_some_and(|view| {
            let run = &view.latest_run().run;
            run.latched && !run.status.is_terminal() && run.is_drained(&view.latest_run().stats.counts)
        })
    }

    fn amounts(&self) -> String {
        let Snapshot { rows, events, depth, calls, .. } = self;
        format!("{} rows, {} events, {depth:?} and {calls:?}", rows.len(), events.len())
    }

    fn difference(&self, other: &Snapshot) -> String {
        if self.view != other.view {
            return format!("the job from {:?} to {:?}", self.view, other.view);
        }
        let differs = |(a, b): &(&Task, &Task)| a != b;
        match self.rows.iter().zip(&other.rows).find(differs) {
            Some((a, b)) => format!("a row from {a:?} to {b:?}"),
            None => format!("{} to {}", self.amounts(), other.amounts()),
        }
    }
}

async fn snapshot(world: &World, job: &JobModel) -> Check<Snapshot> {
    let (store, queue) = (&world.truth.store, &world.truth.queue);
    let query = TasksQuery {
        key: job.key,
        filter: StatusFilter::All,
        after: None,
        limit: ROWS_MAX,
        max_bytes: usize::MAX,
    };
    let rows = match store.tasks(query).await {
        Err(Error::NotFound) if job.asked.run_deleted => Vec::new(),
        rows => read("tasks", rows)?,
    };
    Ok(Snapshot {
        view: read("a job", store.job(Some(job.caller), job.key.job).await)?,
        rows,
        events: read("events", store.events(job.key.job, 0, EVENTS_MAX).await)?,
        depth: read("a queue", queue.depth(QueueName::Run(job.key.run), Reader::Role, world.now()).await)?,
        calls: read("a queue", queue.depth(QueueName::Control, Reader::Role, world.now()).await)?,
    })
}

async fn repeat(world: &World, operation: &Operation) -> Check {
    let (store, now) = (&world.truth.store, world.now());
    match operation {
        Operation::Submit(submission) => {
            read("a repeated submit", store.submit(Submission::clone(submission)).await)
        }
        Operation::Log(key) => match read("an ingest", store.ingest(*key, Reader::Role).await)? {
            Some(ingest) => append_again(world, *key, &ingest).await,
            None => Ok(()),
        },
        Operation::DeleteRun(key) => match store.delete_run(*key, now).await {
            Err(Error::NotFound) => Ok(()),
            deleted => read("a repeated delete", deleted).map(drop),
        },
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
            let other = TaskInput::from_url("https://example.com/another").expect("a valid URL");
            let accepted = world.model.find(key.job).into_iter().flat_map(|job| job.tasks.keys());
            let rows = accepted.map(|index| (*index, other.clone())).collect();
            read("repeated rows", store.put_tasks(*key, rows, now).await).map(drop)
        }
    }
}

/// An ingester that stood still for long takes its step at last: it was taken by another.
async fn append_again(world: &World, key: RunKey, ingest: &Ingest) -> Check {
    let at = 1 + world.dice.below(ingest.log.len());
    let (Some(late), Ok(before)) = (ingest.log.get(at), IngestState::fold(&ingest.log[..at])) else {
        return Ok(());
    };
    let Ok(entry) = before.entry(late.event.clone()) else { return Ok(()) };
    let (store, now) = (&world.truth.store, world.now());
    let appended = if let IngestEvent::ChunkCommitted { next, .. } = &late.event {
        let list = world.model.find(key.job).and_then(|job| job.list.as_ref());
        let tasks = list.into_iter().flat_map(|list| list.list.tasks(before.next.index, next.index));
        let rows = tasks.map(|(index, task)| (index, task.clone())).collect();
        store.commit_chunk(key, Chunk { rows, replayed: Vec::new(), entry }, now).await
    } else {
        store.append(key, entry, now).await
    };
    let appended = read("a repeated append", appended)?;
    require(appended == Appended::Lost, Rule::Replay, || {
        format!("event {at} of an ingest was appended again, and answered {appended:?}")
    })
}
