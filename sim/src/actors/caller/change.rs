//! Requests that change something: each may be carried out without an answer, and is then repeated or read back.

use super::{Caller, RUN_TASKS_MAX, Request, wrong};
use crate::actors::echo::Operation;
use crate::audit;
use crate::faults::{Answer, answer};
use crate::model::{Addition, Facts, Presence};
use crate::violation::{Check, Rule, require};
use crate::world::World;
use conveyor_domain::{Command, JobId, Refusal};
use conveyor_store::port::Submission;

impl Caller {
    pub(super) async fn submit(&self, world: &mut World, submission: Submission) -> Check<Option<Request>> {
        let outcome = answer("submit", world.backend.store.submit(submission.clone()).await)?;
        let id = submission.job.id;
        let (name, status) = (world.name(id), submission.job.status.as_str());
        let (count, caller) = (submission.tasks.len(), self.number);
        match outcome {
            Answer::Got(()) => {
                let job = world.model.job(id);
                (job.acknowledged, job.presence) = (true, Presence::There);
                let rows = Operation::Rows(job.key);
                world.past.remember(rows);
                world.tally.jobs += 1;
                world.note(format!("caller {caller}: submitted {name}, {status}, {count} tasks, {id}"));
                world.past.remember(Operation::Submit(Box::new(submission)));
                Ok(None)
            }
            Answer::Unknown => {
                world.note(format!("caller {caller}: submit of {name} ({id}) not answered"));
                Ok(Some(Request::Submit(submission)))
            }
            Answer::Refused(_) | Answer::NotFound => Err(wrong(&name, "a submit", &outcome)),
        }
    }

    pub(super) async fn add(
        &self,
        world: &mut World,
        id: JobId,
        addition: Addition,
    ) -> Check<Option<Request>> {
        let Addition { tasks, last_batch } = addition.clone();
        let (count, now) = (tasks.len(), world.now());
        world.model.job(id).unanswered = Some(addition.clone());
        let added = world.backend.store.add_tasks(id, tasks, last_batch, RUN_TASKS_MAX, None, now).await;
        let outcome = answer("add_tasks", added)?;
        let (name, caller) = (world.name(id), self.number);
        let last = if last_batch { ", the last" } else { "" };
        match outcome {
            Answer::Got(added) => {
                world.see(&added)?;
                world.note(format!("caller {caller}: added {count} tasks{last} to {name}"));
                let job = world.model.job(id);
                require(job.ends_with(&addition.tasks), Rule::Durable, || {
                    format!("{name}: {count} tasks were acknowledged and are not the last of {}", job.total())
                })?;
                Ok(None)
            }
            Answer::Refused(refusal) => {
                world.note(format!("caller {caller}: {count} tasks for {name} refused: {refusal}"));
                world.model.job(id).unanswered = None;
                self.look_again(world, id).await?;
                let job = world.model.job(id);
                let over = job.is_over() || job.asked != Facts::default();
                let fair = match refusal {
                    Refusal::JobNotOpen => !job.submitted_open || over,
                    Refusal::LastBatchReceived => job.submitted_open && job.asked.latched,
                    Refusal::RunTasksMax => job.total() as usize + count > RUN_TASKS_MAX as usize,
                    Refusal::JobDeleted => job.asked.deleted,
                    Refusal::Ingesting => job.is_ingesting(),
                    _ => false,
                };
                require(fair, Rule::Lifecycle, || {
                    format!("{name}: tasks were refused without a reason: {refusal}")
                })?;
                Ok(None)
            }
            Answer::NotFound => {
                world.model.job(id).unanswered = None;
                self.missing(world, id)
            }
            Answer::Unknown => {
                world.note(format!("caller {caller}: {count} tasks{last} for {name} not answered"));
                Ok(Some(Request::ReadBack { job: id, addition }))
            }
        }
    }

    pub(super) async fn read_back(
        &self,
        world: &mut World,
        id: JobId,
        addition: Addition,
    ) -> Check<Option<Request>> {
        if let Some(again) = self.read(world, id).await? {
            return Ok(Some(match again {
                Request::Read(job) => Request::ReadBack { job, addition },
                other => other,
            }));
        }
        let job = world.model.job(id);
        // Resolved by the read just now, or by an auditor's before it.
        let accepted = job.ends_with(&addition.tasks);
        let gives_up = job.presence != Presence::There || world.dice.chance(0.5);
        Ok((!accepted && !gives_up).then_some(Request::Add { job: id, addition }))
    }

    pub(super) async fn command(
        &self,
        world: &mut World,
        id: JobId,
        command: Command,
    ) -> Check<Option<Request>> {
        let before = world.model.job(id).asked;
        let asked = &mut world.model.job(id).asked;
        asked.latched = true;
        asked.stopped |= command == Command::Stop;
        asked.deleted |= command == Command::Delete;
        let applied = world.backend.store.apply(id, command.clone(), world.now()).await;
        let outcome = answer("apply", applied)?;
        let (name, caller) = (world.name(id), self.number);
        match outcome {
            Answer::Got(view) => {
                let status = (view.job.status.as_str(), view.latest_run().run.status.as_str());
                world.note(format!("caller {caller}: {command:?} of {name}: {status:?}"));
                let known = &mut world.model.job(id).known;
                known.latched |= command != Command::Delete;
                known.stopped |= command == Command::Stop;
                known.deleted |= command == Command::Delete;
                world.see(&view)?;
                world.past.remember(Operation::Command(id, command));
                Ok(None)
            }
            Answer::Refused(refusal) => {
                world.note(format!("caller {caller}: {command:?} of {name} refused: {refusal}"));
                // It did not happen, so it does not explain anything later.
                world.model.job(id).asked = before;
                let fair = match refusal {
                    Refusal::RunNotStoppable => command == Command::Stop && self.has_ended(world, id).await?,
                    Refusal::JobDeleted => before.deleted,
                    _ => false,
                };
                require(fair, Rule::Lifecycle, || {
                    format!("{name}: {command:?} was refused without a reason: {refusal}")
                })?;
                Ok(None)
            }
            Answer::NotFound => {
                // A delete finds nothing if an earlier one, unanswered, was swept meanwhile; it is no excuse for itself.
                world.model.job(id).asked = before;
                self.missing(world, id)
            }
            Answer::Unknown => {
                world.note(format!("caller {caller}: {command:?} of {name} not answered"));
                Ok(Some(Request::Command { job: id, command }))
            }
        }
    }

    /// What a refusal is judged by is what is there now: nobody has acted since.
    pub(super) async fn look_again(&self, world: &mut World, id: JobId) -> Check {
        match audit::read("a job", world.truth.store.job(Some(self.id), id).await)? {
            Some(view) => world.see(&view),
            None => Ok(()),
        }
    }

    pub(super) async fn has_ended(&self, world: &World, id: JobId) -> Check<bool> {
        let view = audit::read("a job", world.truth.store.job(Some(self.id), id).await)?;
        Ok(view.is_some_and(|view| view.latest_run().run.status.is_terminal()))
    }
}
