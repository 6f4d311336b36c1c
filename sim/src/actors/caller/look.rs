//! Requests that only read.

use super::{Caller, Request, wrong};
use crate::audit::{self, rows};
use crate::faults::{Answer, answer};
use crate::violation::{Check, Rule, require};
use crate::world::World;
use conveyor_domain::{JobId, TaskId};
use conveyor_store::port::{StatusFilter, TasksQuery};

impl Caller {
    pub(super) async fn read(&self, world: &mut World, id: JobId) -> Check<Option<Request>> {
        match answer("job", world.backend.store.job(Some(self.id), id).await)? {
            Answer::Got(Some(view)) => {
                let (name, run) = (world.name(id), view.latest_run());
                let (done, total) = (run.stats.counts.completed(), run.stats.total);
                let status = run.run.status.as_str();
                world.note(format!("caller {}: {name} is {status}, {done} of {total}", self.number));
                world.see(&view)?;
                Ok(None)
            }
            Answer::Got(None) | Answer::NotFound => self.missing(world, id),
            Answer::Unknown => Ok(Some(Request::Read(id))),
            outcome @ Answer::Refused(_) => Err(wrong(&world.name(id), "a read", &outcome)),
        }
    }

    /// One page from anywhere: in order, without gaps, and each row as it was.
    pub(super) async fn page(&self, world: &mut World, id: JobId) -> Check<Option<Request>> {
        let job = world.model.job(id).clone();
        let first = world.dice.between(0, job.next_index);
        let after = first.checked_sub(1).map(|index| TaskId::of(job.key.run, index));
        let limit = world.dice.between(1, 20);
        let query =
            TasksQuery { key: job.key, filter: StatusFilter::All, after, limit, max_bytes: usize::MAX };
        match answer("tasks", world.backend.store.tasks(query).await)? {
            Answer::Got(page) => {
                world.note(format!("caller {}: {} tasks of {job} from {first}", self.number, page.len()));
                // Read only now: what the page shows of an unanswered addition must not look like a surprise.
                let view = audit::read("a job", world.truth.store.job(Some(self.id), id).await)?;
                if let Some(view) = &view {
                    world.see(view)?;
                }
                let job = world.model.job(id);
                let expected = job.tasks.range(first..).map(|(index, _)| *index).take(limit as usize);
                let whole = page.iter().map(|row| row.id.index()).eq(expected);
                require(job.asked.deleted || job.asked.run_deleted || whole, Rule::Reads, || {
                    format!("{job}: the page of {limit} from {first} has gaps: {page:?}")
                })?;
                rows::check(job, &page)?;
                Ok(None)
            }
            Answer::NotFound if job.asked.run_deleted => Ok(None),
            Answer::NotFound => self.missing(world, id),
            Answer::Unknown => Ok(None),
            outcome @ Answer::Refused(_) => Err(wrong(&job.to_string(), "a page", &outcome)),
        }
    }

    /// Only what was deleted may be missing.
    pub(super) fn missing(&self, world: &mut World, id: JobId) -> Check<Option<Request>> {
        world.note(format!("caller {}: {} is not there", self.number, world.name(id)));
        let job = world.model.job(id);
        require(job.asked.deleted, Rule::Durable, || format!("{job} is not found; nobody deleted it"))?;
        Ok(None)
    }
}
