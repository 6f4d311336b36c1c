//! The auditors. [`see`] judges one read of a job against all earlier ones; [`all`] reads everything there is.
//!
//! They draw nothing from the dice, and read the store past the faults.

pub mod completion;
pub mod counts;
pub mod deletion;
pub mod grants;
pub mod ingest;
pub mod listing;
pub mod proof;
pub mod rates;
pub mod rows;
pub mod settles;
pub mod steering;
pub mod timeline;
pub mod uploads;

use crate::model::{JobModel, Presence};
use crate::violation::{Check, Rule, Violation, require};
use crate::world::World;
use conveyor_domain::{JobStatus, RunStatus, Storage};
use conveyor_store::Result;
use conveyor_store::port::JobView;
use grants::Belief;

/// A read that nothing disturbs has to succeed.
pub fn read<T>(what: &str, outcome: Result<T>) -> Check<T> {
    outcome.map_err(|error| Violation { rule: Rule::Store, text: format!("{what} cannot be read: {error}") })
}

/// One read of a job: is it possible, given what was asked for, acknowledged and seen before?
pub fn see(job: &mut JobModel, view: &JobView) -> Check {
    require(job.presence != Presence::Gone, Rule::Deletion, || format!("{job} was gone and is there again"))?;
    same_job(job, view)?;
    steering::of_view(job, view)?;
    counts::total(job, view)?;
    counts::of_view(job, view)?;
    completion::of_view(job, view)?;
    job.presence = Presence::There;
    if view.latest_run().run.status.is_terminal() {
        job.ended = Some(view.latest_run().run.clone());
    }
    job.last = Some(view.clone());
    Ok(())
}

fn same_job(job: &JobModel, view: &JobView) -> Check {
    let (key, run) = (job.key, &view.latest_run().run);
    let same = view.job.id == key.job
        && view.job.latest_run == key.run
        && (run.id, run.job, run.id_seed, run.sequence) == (key.run, key.job, key.run, 1)
        && view.job.caller == job.caller;
    require(same, Rule::Durable, || format!("{job} is not what was submitted: {view:?}"))
}

/// How much of what should not change any more is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// All of it.
    Whole,
    /// A part each time, in turn.
    InTurn,
}

const TURNS: usize = 4;

/// Reads every job with all its rows and its timeline, every upload, every list and every budget.
pub async fn all(world: &mut World, beliefs: &[Belief], care: Care) -> Check {
    world.tally.audits += 1;
    let turn = usize::try_from(world.tally.audits).unwrap_or(0) % TURNS;
    for number in 0..world.model.jobs.len() {
        let job = &world.model.jobs[number];
        let its_turn = care == Care::Whole || number % TURNS == turn;
        if job.presence == Presence::Gone && !its_turn {
            continue;
        }
        match read("a job", world.truth.store.job(Some(job.caller), job.key.job).await)? {
            Some(view) if job.rests() && job.ended.is_some() && !its_turn => world.see(&view)?,
            Some(view) => present(world, number, &view).await?,
            None => deletion::absent(world, number).await?,
        }
    }
    uploads::check(world).await?;
    listing::check(world).await?;
    grants::check(world, beliefs).await
}

async fn present(world: &mut World, number: usize, view: &JobView) -> Check {
    see(&mut world.model.jobs[number], view)?;
    if view.latest_run().run.storage == Storage::Removed {
        deletion::run_removed(world, number).await?;
    } else {
        present_rows(world, number, view).await?;
    }
    ingest::check(world, number, view).await?;
    timeline::check(world, number, view).await?;
    listing::one_run(world, number, view).await?;
    listing::strangers_see_nothing(world, number).await
}

async fn present_rows(world: &mut World, number: usize, view: &JobView) -> Check {
    let rows = rows::scan(world, number).await?;
    let job = &mut world.model.jobs[number];
    rows::check(job, &rows)?;
    // The rows of a deleted job or run may be half removed already.
    if view.job.status == JobStatus::Deleted || view.latest_run().run.status == RunStatus::Deleted {
        return Ok(());
    }
    rows::dense(job, view, &rows)?;
    counts::equal_rows(job, view, &rows)?;
    completion::of_rows(job, view, &rows)?;
    rows::other_reads(world, number, &rows).await?;
    proof::check(world, number, &rows).await
}
