//! Whoever runs the place, once the faults are over: takes care of lists that were given up on, and clears everything away.

use crate::audit::ingest::is_given_up;
use crate::audit::read;
use crate::model::{JobModel, Presence};
use crate::violation::{Check, Rule, Violation, require};
use crate::world::World;
use conveyor_domain::repair::dead_letter::Redriven;
use conveyor_domain::{Command, DeadLetter, IngestRef, IngestState, LetterId, RunStatus, Timestamp};
use conveyor_store::port::{Reader, RunKey};
use conveyor_sweeper::{Sweep, letters};
use tokio_util::sync::CancellationToken;

/// SPEC 6.15: a list whose message is a dead letter waits as it is, and can be stopped, redriven or given up.
pub async fn step(world: &mut World) -> Check {
    let reading = |job: &&JobModel| job.presence == Presence::There && job.is_ingesting() && !job.is_over();
    let keys: Vec<RunKey> = world.model.jobs.iter().filter(reading).map(|job| job.key).collect();
    for key in keys {
        let Some(ingest) = read("an ingest", world.truth.store.ingest(key, Reader::Role).await)? else {
            continue;
        };
        let Ok(state) = IngestState::fold(&ingest.log) else { continue };
        if !is_given_up(&state) || ingest.run.status.is_terminal() {
            continue;
        }
        let letter = letter_of(key);
        if world.dice.chance(0.3) {
            stop(world, key).await?;
        } else if read("a letter", world.truth.store.letter(letter).await)?.is_none() {
            // Its message waits in a queue, or the next sweep writes it.
            continue;
        } else if world.dice.chance(0.3) {
            purge(world, key, letter).await?;
        } else {
            redrive(world, key, letter).await?;
        }
        world.tally.given_up += 1;
    }
    Ok(())
}

/// The letter of whatever message asks for this run's list.
pub fn letter_of(key: RunKey) -> LetterId {
    let message = IngestRef { job: key.job, run: key.run, progress: 1 };
    DeadLetter::new(message.to_string(), Timestamp(0)).id
}

async fn stop(world: &mut World, key: RunKey) -> Check {
    world.note(format!("operator: stops {}, whose list was given up on", world.name(key.job)));
    let asked = &mut world.model.job(key.job).asked;
    (asked.stopped, asked.latched) = (true, true);
    let stopped = world.truth.store.apply(key.job, Command::Stop, world.now()).await;
    world.see(&read("a stop", stopped)?)
}

async fn purge(world: &mut World, key: RunKey, letter: LetterId) -> Check {
    let name = world.name(key.job);
    world.note(format!("operator: purges the letter of {name}"));
    if let Some(list) = &mut world.model.job(key.job).list {
        list.purged = true;
    }
    let stop = CancellationToken::new();
    let purged = letters::purge(&Sweep::new(&world.truth, world.clock.as_ref(), &stop), letter).await;
    let run = read("a run", world.truth.store.run(key.job, key.run).await)?;
    let failed = run.as_ref().is_some_and(|view| view.run.status == RunStatus::Failed);
    require(purged == Ok(true) && failed, Rule::Ingest, || {
        format!("{name}: its letter was purged: {purged:?}, and its run is {run:?}")
    })
}

async fn redrive(world: &mut World, key: RunKey, letter: LetterId) -> Check {
    let name = world.name(key.job);
    world.note(format!("operator: redrives the list of {name}"));
    let stop = CancellationToken::new();
    let sent = letters::redrive(&Sweep::new(&world.truth, world.clock.as_ref(), &stop), letter).await;
    let left = read("a letter", world.truth.store.letter(letter).await)?;
    match sent {
        // Nothing fails any more: it gets somewhere with the first.
        Ok(Some(Redriven::Sent)) if left.is_none() => Ok(()),
        _ => Err(Violation {
            rule: Rule::Ingest,
            text: format!("{name}: its letter was redriven: {sent:?}, and {left:?} is left"),
        }),
    }
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
