//! Lists of jobs are whole, newest first and each caller's own (SPEC 3.9, 10).

use crate::audit::read;
use crate::model::{JobModel, Presence};
use crate::violation::{Check, Rule, require};
use crate::world::World;
use conveyor_domain::{JobId, Storage};
use conveyor_store::port::{ActiveRun, JobView, JobsQuery, RunsQuery};

const PAGE_LIMITS: [u32; 3] = [1, 4, 50];

/// Pages through each caller's jobs.
pub async fn check(world: &mut World) -> Check {
    for caller in world.callers.clone() {
        let limit = PAGE_LIMITS[world.turn(0) % PAGE_LIMITS.len()];
        let (mut listed, mut before) = (Vec::new(), None);
        loop {
            // Pages are short, and the list is the same.
            let look = limit.div_ceil(2);
            let query = JobsQuery { caller, status: None, scheduled: None, before, limit, look };
            let page = read("a list of jobs", world.truth.store.jobs(query).await)?;
            for view in &page.rows {
                world.see(view)?;
                listed.push(view.job.id);
            }
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        let there = |job: &&JobModel| job.caller == caller && job.presence == Presence::There;
        let mut expected: Vec<JobId> = world.model.jobs.iter().filter(there).map(|job| job.key.job).collect();
        expected.sort_by(|a, b| b.cmp(a));
        require(listed == expected, Rule::Reads, || {
            format!("the list of jobs of {caller} is {listed:?}, and should be {expected:?}")
        })?;
    }
    Ok(())
}

/// What a worker knows of, once it has looked at what changed since it looked last, is what it would know had it looked at
/// everything, but for jobs that were removed.
pub async fn discovered(world: &World, known: &[ActiveRun]) -> Check {
    let store = &world.truth.store;
    let same = |a: &ActiveRun, b: &ActiveRun| a.run == b.run && a.job.spec == b.job.spec;
    let active = read("the active runs", store.changed_runs(None, world.now()).await)?.active;
    for there in &active {
        require(known.iter().any(|known| same(known, there)), Rule::Reads, || {
            format!("a look at what changed missed {there:?}")
        })?;
    }
    for run in known.iter().filter(|run| !active.iter().any(|there| same(there, run))) {
        let now = read("a run", store.run(run.job.id, run.run.id).await)?;
        require(now.is_none(), Rule::Reads, || {
            format!("a look at what changed left {run:?}, which is {now:?}")
        })?;
    }
    Ok(())
}

/// The run that the job calls its latest is the only one it has, however it is read; none, once it was removed.
pub async fn one_run(world: &World, number: usize, view: &JobView) -> Check {
    let (job, store) = (&world.model.jobs[number], &world.truth.store);
    let runs = read("the runs of a job", store.runs(RunsQuery::newest(job.key.job, 10)).await)?.rows;
    let run = read("a run", store.run(job.key.job, job.key.run).await)?;
    let expected = Some(view.latest_run()).filter(|latest| latest.run.storage != Storage::Removed);
    let same = runs.iter().eq(expected) && run.as_ref() == expected;
    require(same, Rule::Reads, || {
        format!("{job}: its latest run is {:?}, by itself {run:?}, in the list {runs:?}", view.latest)
    })
}

/// Another's job answers like none.
pub async fn strangers_see_nothing(world: &World, number: usize) -> Check {
    let job = &world.model.jobs[number];
    for stranger in world.callers.iter().filter(|caller| **caller != job.caller) {
        let view = read("a job", world.truth.store.job(Some(*stranger), job.key.job).await)?;
        require(view.is_none(), Rule::Isolation, || format!("{stranger} sees {job} of {}", job.caller))?;
    }
    Ok(())
}
