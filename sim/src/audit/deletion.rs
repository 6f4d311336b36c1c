//! SPEC 6.6: what was deleted goes away as a whole and does not come back; nothing else goes.

use crate::audit::read;
use crate::model::{JobModel, Presence};
use crate::violation::{Check, Rule, require};
use crate::world::World;
use conveyor_domain::{JobStatus, QueueName, Task, Timestamp};
use conveyor_store::port::{Reader, StatusFilter, TasksQuery, Tombstone};
use conveyor_store::{Error, Result};

const TOMBSTONES_MAX: u32 = 10_000;

/// A job that cannot be found.
pub async fn absent(world: &mut World, number: usize) -> Check {
    let job = &mut world.model.jobs[number];
    match job.presence {
        Presence::Gone => return Ok(()),
        Presence::Unknown => {
            return require(!job.acknowledged, Rule::Durable, || {
                format!("{job} was acknowledged and is lost")
            });
        }
        Presence::There => {
            require(job.asked.deleted, Rule::Durable, || format!("{job} is lost; nobody deleted it"))?;
            (job.presence, job.unanswered) = (Presence::Gone, None);
        }
    }
    let (job, store) = (&world.model.jobs[number], &world.truth.store);
    let remembered = read("the tombstones", store.tombstones(Timestamp(i64::MAX), TOMBSTONES_MAX).await)?;
    let same = |tombstone: &Tombstone| (tombstone.job, &*tombstone.runs) == (job.key.job, &[job.key.run]);
    require(remembered.iter().any(same), Rule::Deletion, || {
        format!("{job} is gone, and nobody remembers it: {remembered:?}")
    })?;
    let run = read("a run", store.run(job.key.job, job.key.run).await)?;
    let rows = first_row(world, job).await;
    require(run.is_none() && rows == Err(Error::NotFound), Rule::Deletion, || {
        format!("{job} is gone, and its run or rows are not: {run:?}, {rows:?}")
    })?;
    let ingest = read("an ingest", store.ingest(job.key, Reader::Role).await)?;
    let events = read("a timeline", store.events(job.key.job, 0, 1).await)?;
    require(ingest.is_none() && events.is_empty(), Rule::Deletion, || {
        format!("{job} is gone, and its timeline is not: {ingest:?}, {events:?}")
    })?;
    no_messages(world, job).await
}

/// A run that was deleted and removed, of a job that is there. That it is not listed is looked at with the others.
pub async fn run_removed(world: &World, number: usize) -> Check {
    let (job, store) = (&world.model.jobs[number], &world.truth.store);
    let rows = first_row(world, job).await;
    let tally = read("a tally", store.tally(job.key, false).await)?;
    require(rows == Err(Error::NotFound) && tally.is_none(), Rule::Deletion, || {
        format!("{job}: its run was removed, and its rows were not: {rows:?}, {tally:?}")
    })?;
    no_messages(world, job).await
}

async fn first_row(world: &World, job: &JobModel) -> Result<Vec<Task>> {
    let query =
        TasksQuery { key: job.key, filter: StatusFilter::All, after: None, limit: 1, max_bytes: usize::MAX };
    world.truth.store.tasks(query).await
}

async fn no_messages(world: &World, job: &JobModel) -> Check {
    let depth = read(
        "a queue",
        world.truth.queue.depth(QueueName::Run(job.key.run), Reader::Role, world.now()).await,
    )?;
    require(depth.visible + depth.hidden == 0, Rule::Deletion, || {
        format!("{job}: its run is gone, and messages of it are left: {depth:?}")
    })
}

/// After a sweep that nothing disturbed, jobs whose deletion was acknowledged before it are gone.
pub async fn after_sweep(world: &World) -> Check {
    for job in world.model.jobs.iter().filter(|job| job.known.deleted && job.presence == Presence::There) {
        let view = read("a job", world.truth.store.job(Some(job.caller), job.key.job).await)?;
        require(view.is_none(), Rule::Deletion, || {
            let status = view.as_ref().map(|view| view.job.status).unwrap_or(JobStatus::Deleted);
            format!("{job} was deleted and is still there after a sweep, as {}", status.as_str())
        })?;
    }
    let of_run = |job: &&JobModel| job.known.run_deleted && job.presence == Presence::There;
    for job in world.model.jobs.iter().filter(of_run) {
        let run = read("a run", world.truth.store.run(job.key.job, job.key.run).await)?;
        require(run.is_none(), Rule::Deletion, || {
            format!("{job}: its run was deleted and is still there after a sweep: {run:?}")
        })?;
    }
    Ok(())
}
