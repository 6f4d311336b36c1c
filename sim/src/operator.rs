//! Whoever runs the place, once the faults are over: takes care of lists that were given up on, and clears everything away.

use crate::audit::ingest::is_given_up;
use crate::audit::read;
use crate::model::{JobModel, Presence};
use crate::violation::Check;
use crate::world::World;
use conveyor_domain::ingest::IngestState;
use conveyor_domain::lifecycle::Command;
use conveyor_domain::message::{IngestRef, QueueName};
use conveyor_store::port::RunKey;

/// SPEC 6.11: a list whose message is a dead letter waits as it is, and can be stopped or redriven.
pub async fn step(world: &mut World) -> Check {
    let reading = |job: &&JobModel| job.presence == Presence::There && job.is_ingesting() && !job.is_over();
    let keys: Vec<RunKey> = world.model.jobs.iter().filter(reading).map(|job| job.key).collect();
    for key in keys {
        let Some(ingest) = read("an ingest", world.truth.store.ingest(key).await)? else { continue };
        let Ok(state) = IngestState::fold(&ingest.log) else { continue };
        if !is_given_up(&state) || ingest.run.status.is_terminal() {
            continue;
        }
        let name = world.name(key.job);
        if world.dice.chance(0.5) {
            world.note(format!("operator: stops {name}, whose list was given up on"));
            let asked = &mut world.model.job(key.job).asked;
            (asked.stopped, asked.latched) = (true, true);
            let stopped = world.truth.store.apply(key.job, Command::Stop, world.now()).await;
            world.see(&read("a stop", stopped)?)?;
        } else {
            world.note(format!("operator: redrives the list of {name}"));
            let message = IngestRef { job: key.job, run: key.run, progress: state.progress };
            let queue = &world.truth.queue;
            read("a queue", queue.send(QueueName::Control, vec![message.to_string()], world.now()).await)?;
        }
        world.tally.given_up += 1;
    }
    Ok(())
}

/// What is paused waits for whoever paused it.
pub async fn resume_all(world: &mut World) -> Check {
    let paused = |job: &&JobModel| job.presence == Presence::There && !job.is_over();
    let keys: Vec<RunKey> = world.model.jobs.iter().filter(paused).map(|job| job.key).collect();
    for key in keys {
        world.model.job(key.job).steering = Some(Command::Resume);
        let resumed = world.truth.store.apply(key.job, Command::Resume, world.now()).await;
        world.see(&read("a resume", resumed)?)?;
        world.model.job(key.job).steering = None;
    }
    Ok(())
}

pub async fn delete_all(world: &mut World) -> Check {
    let there = |job: &&JobModel| job.presence == Presence::There;
    let keys: Vec<RunKey> = world.model.jobs.iter().filter(there).map(|job| job.key).collect();
    for key in keys {
        let job = world.model.job(key.job);
        (job.asked.deleted, job.asked.latched, job.known.deleted) = (true, true, true);
        let deleted = world.truth.store.apply(key.job, Command::Delete, world.now()).await;
        world.see(&read("a delete", deleted)?)?;
    }
    Ok(())
}
