//! SPEC 6.14: what a tally says of a run is what its rows and counters are, and the two agree at every moment.

use crate::audit::read;
use crate::violation::{Check, Rule, require};
use crate::world::World;
use conveyor_domain::repair::proof::drift;
use conveyor_domain::{RowCounts, Task, TaskStatus};
use conveyor_store::port::NamedObjects;

/// A run that nobody deleted, against its rows as they were read just now.
pub async fn check(world: &World, number: usize, rows: &[Task]) -> Check {
    let job = &world.model.jobs[number];
    let tally = read("a tally", world.truth.store.tally(job.key, true).await)?;
    require(tally.is_some(), Rule::Proof, || format!("{job} is there, and cannot be counted"))?;
    let Some(tally) = tally else { return Ok(()) };
    let counted = count(rows);
    require(tally.rows == counted, Rule::Proof, || {
        format!("{job}: its rows are {counted:?}, and a tally says {:?}", tally.rows)
    })?;
    require(counted.unclassified == 0, Rule::Proof, || {
        format!("{job}: {} of its rows failed and do not say why", counted.unclassified)
    })?;
    let missing = drift(&tally.rows, &tally.counters);
    require(missing.is_zero(), Rule::Proof, || {
        format!("{job}: its counters are off by {missing:?}: {tally:?}")
    })?;
    let objects = objects(rows);
    require(tally.objects == objects, Rule::Proof, || {
        format!("{job}: its results are in {objects:?}, and a tally says {:?}", tally.objects)
    })
}

fn count(rows: &[Task]) -> RowCounts {
    let mut counts = RowCounts::default();
    for row in rows {
        match (row.status, row.class) {
            (TaskStatus::Pending, _) => counts.pending += 1,
            (TaskStatus::Processing, _) => counts.processing += 1,
            (TaskStatus::Successful, _) => counts.settled.successful += 1,
            (TaskStatus::Failed, Some(class)) => counts.settled.add_failed(class),
            (TaskStatus::Failed, None) => counts.unclassified += 1,
        }
    }
    counts
}

fn objects(rows: &[Task]) -> NamedObjects {
    let mut objects = NamedObjects::default();
    for row in rows.iter().filter(|row| row.status == TaskStatus::Successful) {
        objects.add(row.result.as_ref().and_then(|result| result.object.as_deref()));
    }
    objects
}
