//! What queues do by themselves: deliver a message twice, or lose it. Rows are truth, so neither may cost data (SPEC 3.4).

use crate::audit::read;
use crate::model::{JobModel, Presence};
use crate::violation::Check;
use crate::world::World;
use conveyor_domain::message::{QueueName, TaskRef};
use conveyor_domain::{TaskId, limits};

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
    let Some(job) = pick(world).await? else { return Ok(()) };
    // Rather of a task that has not ended: that is where a second delivery can do harm.
    let drawn = world.dice.between(0, job.total() - 1);
    let unsettled = (0..job.total()).find(|index| !job.settled.contains_key(index));
    let index = unsettled.filter(|_| world.dice.chance(0.5)).unwrap_or(drawn);
    let task = TaskRef { task: TaskId::of(job.key.run, index), task_shard_count: 1 };
    world.note(format!("  fault: task {index} of {job} is delivered once more"));
    world.tally.duplicates += 1;
    let queue = QueueName::Run(job.key.run);
    read("a queue", world.truth.queue.send(queue, vec![task.to_string()], world.now()).await)
}

pub async fn lose(world: &mut World) -> Check {
    let Some(job) = pick(world).await? else { return Ok(()) };
    let (queue, now) = (QueueName::Run(job.key.run), world.now());
    let received = world.truth.queue.receive(queue, 1, limits::VISIBILITY, now).await;
    for delivery in read("a queue", received)? {
        world.note(format!("  fault: {} of {job} is lost", delivery.body));
        world.tally.lost_messages += 1;
        read("a queue", world.truth.queue.ack(queue, vec![delivery.receipt]).await)?;
    }
    Ok(())
}
