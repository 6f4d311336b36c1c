//! Deleting a run by itself: its job stays, and says that the run is gone.

use super::{Caller, Request, wrong};
use crate::actors::echo::Operation;
use crate::faults::{Answer, answer};
use crate::violation::{Check, Rule, require};
use crate::world::World;
use conveyor_domain::{JobId, Refusal, RunStatus};

impl Caller {
    pub(super) async fn delete_run(&self, world: &mut World, id: JobId) -> Check<Option<Request>> {
        let job = world.model.job(id);
        let (key, before) = (job.key, job.asked);
        (job.asked.run_deleted, job.asked.latched) = (true, true);
        let deleted = world.backend.store.delete_run(key, world.now()).await;
        let outcome = answer("delete_run", deleted)?;
        let (name, caller) = (world.name(id), self.number);
        match outcome {
            Answer::Got(view) => {
                world.note(format!("caller {caller}: deleted the run of {name}"));
                require(
                    view.run.status == RunStatus::Deleted && view.run.id == key.run,
                    Rule::Durable,
                    || format!("{name}: a delete of its run was answered {view:?}"),
                )?;
                let known = &mut world.model.job(id).known;
                (known.run_deleted, known.latched) = (true, true);
                world.tally.runs_deleted += 1;
                world.past.remember(Operation::DeleteRun(key));
                self.look_again(world, id).await?;
                Ok(None)
            }
            Answer::Refused(Refusal::JobDeleted) => {
                world.note(format!("caller {caller}: the run of {name} goes with its job"));
                world.model.job(id).asked = before;
                require(before.deleted, Rule::Durable, || format!("nobody deleted {name}"))?;
                Ok(None)
            }
            Answer::NotFound => {
                // An earlier one, unanswered, was swept meanwhile; it is no excuse for itself.
                world.note(format!("caller {caller}: the run of {name} is not there"));
                world.model.job(id).asked = before;
                require(before.run_deleted || before.deleted, Rule::Durable, || {
                    format!("the run of {name} is not found; nobody deleted it")
                })?;
                Ok(None)
            }
            Answer::Unknown => {
                world.note(format!("caller {caller}: delete of the run of {name} not answered"));
                Ok(Some(Request::DeleteRun(id)))
            }
            // It has no other run that could point to it.
            Answer::Refused(_) => Err(wrong(&name, "a delete of its run", &outcome)),
        }
    }
}
