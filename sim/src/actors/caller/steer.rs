//! Requests that change how a job is worked on: pause, resume, other limits.

use super::{CAP_MAX, Caller, Request};
use crate::dice::Dice;
use crate::faults::{Answer, answer};
use crate::violation::{Check, Rule, require};
use crate::world::World;
use conveyor_domain::dispatch::grant::{Change, Scope};
use conveyor_domain::{Command, JobId, JobSpec, LimitsChange, Rate, Refusal};
use conveyor_store::port::JobView;

/// Some jobs have a rate. It is slow and its burst large, so that a start is good for as long as a worker needs here to have
/// its turn.
pub fn draw_rate(dice: &Dice) -> Option<Rate> {
    let (thousandths, burst) = (dice.between(500, 3_000), dice.between(6, 20));
    let rate = Rate::new(f64::from(thousandths) / 1000.0, Some(burst));
    dice.chance(0.35).then(|| rate.expect("a valid rate"))
}

pub fn draw_spec(dice: &Dice) -> JobSpec {
    JobSpec { max_inflight: dice.between(1, CAP_MAX), rate: draw_rate(dice), ..JobSpec::default() }
}

pub fn draw_change(dice: &Dice) -> LimitsChange {
    LimitsChange {
        max_inflight: dice.chance(0.7).then(|| dice.between(1, CAP_MAX)),
        rate: dice.chance(0.5).then(|| draw_rate(dice)),
        ..LimitsChange::default()
    }
}

impl Caller {
    pub(super) async fn steer(
        &self,
        world: &mut World,
        id: JobId,
        command: Command,
    ) -> Check<Option<Request>> {
        let job = world.model.job(id);
        if let Command::Limits(change) = &command {
            let limits = job.spec.with(change).limits();
            job.budget.limits.insert(limits.revision, limits);
        }
        job.steering = Some(command.clone());
        let applied = world.backend.store.apply(id, command.clone(), world.now()).await;
        let outcome = answer("apply", applied)?;
        let (name, caller) = (world.name(id), self.number);
        match outcome {
            Answer::Got(view) => {
                world.note(format!("caller {caller}: {command:?} of {name}"));
                world.see(&view)?;
                world.model.job(id).steering = None;
                self.steered(world, command, &view).await
            }
            Answer::Refused(refusal) => {
                world.note(format!("caller {caller}: {command:?} of {name} refused: {refusal}"));
                world.model.job(id).steering = None;
                let fair = match refusal {
                    Refusal::RunNotPausable => self.has_ended(world, id).await?,
                    Refusal::JobDeleted => world.model.job(id).asked.deleted,
                    _ => false,
                };
                let limits = matches!(command, Command::Limits(_));
                let fair = fair && (!limits || refusal == Refusal::JobDeleted);
                require(fair, Rule::Lifecycle, || {
                    format!("{name}: {command:?} was refused without a reason: {refusal}")
                })?;
                Ok(None)
            }
            Answer::NotFound => {
                world.model.job(id).steering = None;
                self.missing(world, id)
            }
            Answer::Unknown => {
                world.note(format!("caller {caller}: {command:?} of {name} not answered"));
                Ok(Some(Request::Steer { job: id, command }))
            }
        }
    }

    async fn steered(&self, world: &mut World, command: Command, view: &JobView) -> Check<Option<Request>> {
        let (id, paused) = (view.job.id, view.latest_run().run.paused);
        let done = match &command {
            Command::Pause => paused,
            Command::Resume => !paused,
            Command::Limits(change) => view.job.spec.with(change) == *view.job.spec,
            _ => false,
        };
        let name = world.name(id);
        require(done, Rule::Durable, || format!("{name}: {command:?} was answered {view:?}"))?;
        world.tally.pauses += u64::from(command == Command::Pause);
        if matches!(command, Command::Limits(_)) {
            world.tally.limits_changed += 1;
            self.tell(world, view).await?;
        }
        Ok(None)
    }

    /// Says so to those who go by the budget. Not answered: whoever finds the job changed brings the limits along.
    async fn tell(&self, world: &mut World, view: &JobView) -> Check {
        let (id, limits) = (view.job.id, view.job.spec.limits());
        let told =
            world.backend.coordinator.change(&Scope::Job(id), Change::Limits(limits), world.now()).await;
        if let Answer::Got(()) = answer("change", told)? {
            let budget = &mut world.model.job(id).budget;
            budget.revision = budget.revision.max(limits.revision);
        }
        Ok(())
    }
}
