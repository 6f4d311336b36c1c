//! What queues do by themselves: deliver a message twice, or lose it. Rows are truth, so neither may cost data (SPEC 3.4).

use crate::audit::read;
use crate::model::{JobModel, Presence};
use crate::violation::Check;
use crate::world::World;
use conveyor_domain::{IngestRef, QueueName, TaskId, TaskRef, limits};

/// Faults that strike the control queue, if a list is being read: its messages are few, and each matters.
const CONTROL_SHARE: f64 = 0.4;

/// A job whose queue is in use: that of a run that ended is being removed, and would come back.
async fn pick(world: &World) -> Check<Option<JobModel>> {
    let live = |job: &&JobModel| job.presence == Presence::There && !job.is_over() && job.total() > 0;
    let jobs: Vec<&JobModel> = world.model.jobs.iter().filter(live).collect();
    let Some(job) = world.dice.pick(&jobs) else { return Ok(None) };
    let view = read("a run", world.truth.store.run(job.key.job, job.key.run).await)?;
    let in_use = view.is_some_and(|view| !view.run.status.is_terminal());
    Ok(in_use.then(|| (*job).clone()))
}

pub async fn duplicate(world: &mut World) -> Check {
    if world.model.any_ingesting() && world.dice.chance(CONTROL_SHARE) {
        return call_again(world).await;
    }
    let Some(job) = pick(world).await? else { return Ok(()) };
    // Rather of a task that has not ended: that is where a second delivery can do harm.
    let indexes: Vec<u32> = job.tasks.keys().copied().collect();
    let Some(drawn) = world.dice.pick(&indexes) else { return Ok(()) };
    let unsettled = indexes.iter().find(|index| !job.settled.contains_key(index));
    let index = *unsettled.filter(|_| world.dice.chance(0.5)).unwrap_or(drawn);
    let task = TaskRef { task: TaskId::of(job.key.run, index), task_shard_count: 1 };
    world.note(format!("  fault: task {index} of {job} is delivered once more"));
    world.tally.duplicates += 1;
    let queue = QueueName::Run(job.key.run);
    read("a queue", world.truth.queue.send(queue, vec![task.to_string()], world.now()).await)
}

/// A control message is delivered once more, of an ingest that may be over or gone.
async fn call_again(world: &mut World) -> Check {
    let called = |job: &&JobModel| job.list.is_some() && job.presence != Presence::Unknown;
    let lists: Vec<&JobModel> = world.model.jobs.iter().filter(called).collect();
    // Rather of one that is being read: that is where two get in each other's way.
    let reading: Vec<&JobModel> = lists.iter().filter(|job| job.is_ingesting()).copied().collect();
    let rather = !reading.is_empty() && world.dice.chance(0.8);
    let Some(job) = world.dice.pick(if rather { &reading } else { &lists }) else { return Ok(()) };
    let message = IngestRef { job: job.key.job, run: job.key.run, progress: 1 };
    world.note(format!("  fault: the control message of {job} is delivered once more"));
    world.tally.duplicates += 1;
    let sent = world.truth.queue.send(QueueName::Control, vec![message.to_string()], world.now()).await;
    read("a queue", sent)
}

pub async fn lose(world: &mut World) -> Check {
    let control = world.model.any_ingesting() && world.dice.chance(CONTROL_SHARE);
    let queue = if control {
        QueueName::Control
    } else {
        let Some(job) = pick(world).await? else { return Ok(()) };
        QueueName::Run(job.key.run)
    };
    let received = world.truth.queue.receive(queue, 1, limits::VISIBILITY, world.now()).await;
    for delivery in read("a queue", received)? {
        world.note(format!("  fault: {} of {queue} is lost", delivery.body));
        world.tally.lost_messages += 1;
        read("a queue", world.truth.queue.ack(queue, vec![delivery.receipt]).await)?;
    }
    Ok(())
}
