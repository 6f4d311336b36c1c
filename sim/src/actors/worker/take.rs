//! Getting work: discover, be granted, receive, claim; and noticing that there is none left.

use super::flight::{Flight, Phase, Return, duration};
use super::{CLAIMS_MAX, Share, Worker};
use crate::audit::settles;
use crate::faults::{Answer, answer};
use crate::violation::{Check, Rule, Violation, require};
use crate::world::World;
use conveyor_domain::lifecycle::{Command, Refusal};
use conveyor_domain::message::{QueueName, TaskRef};
use conveyor_domain::{ClaimToken, JobId, Timestamp, limits};
use conveyor_store::port::{Claim, Delivery, RunKey};
use std::time::Duration;

/// How long a message rests when its claim was not answered.
const STORE_PAUSE: Duration = Duration::from_secs(1);

impl Worker {
    pub(super) async fn discover(&mut self, world: &mut World) -> Check {
        if let Answer::Got(runs) = answer("active_runs", world.backend.store.active_runs().await)? {
            let names: Vec<String> = runs.iter().map(|active| world.name(active.job.id)).collect();
            world.note(format!("{}: discovers {}", self.name, names.join(", ")));
            self.dry.retain(|run| runs.iter().any(|active| active.run.id == *run));
            (self.runs, self.refreshed) = (runs, Some(world.now()));
        }
        Ok(())
    }

    /// The same request until it is answered: what is wanted is absolute, so repeating it is harmless.
    pub(super) async fn ask(&mut self, world: &mut World, job: JobId, cap: u32) -> Check {
        let (want, now) = (cap.min(self.slots), world.now());
        let grant = world.backend.coordinator.grant(job, self.id, want, cap, limits::GRANT_TTL, now).await;
        if let Answer::Got(holding) = answer("grant", grant)? {
            let (name, permits) = (world.name(job), holding.permits);
            world.note(format!("{}: is granted {permits} of {name}", self.name));
            require(permits <= want, Rule::Limits, || format!("{name}: {permits} granted, {want} wanted"))?;
            self.shares.insert(job, Share { cap, holding, asked: now });
        }
        Ok(())
    }

    pub(super) async fn give_back(&mut self, world: &mut World, job: JobId) -> Check {
        // Forgotten before it is asked for: once the request is out, others may have the permits, answered or not.
        let share = self.shares.remove(&job);
        let outcome = answer("release_grant", world.backend.coordinator.release(job, self.id).await)?;
        if let (Answer::Unknown, true, Some(share)) = (outcome, self.habits.keeps_permits, share) {
            self.shares.insert(job, share);
        }
        world.note(format!("{}: gives the permits of {} back", self.name, world.name(job)));
        Ok(())
    }

    pub(super) async fn receive(&mut self, world: &mut World, key: RunKey, room: u32) -> Check {
        let (queue, now) = (QueueName::Run(key.run), world.now());
        let hint = answer("may_have", world.backend.queue.may_have(vec![queue], now).await)?;
        let received = world.backend.queue.receive(queue, room as usize, limits::VISIBILITY, now).await;
        // Not answered: what was received is hidden, and comes back when its time is over.
        let Answer::Got(deliveries) = answer("receive", received)? else { return Ok(()) };
        let name = world.name(key.job);
        require(deliveries.len() <= room as usize, Rule::Limits, || {
            format!("{name}: {room} messages were wanted and {} came", deliveries.len())
        })?;
        let denied = hint == Answer::Got(vec![false]);
        require(!denied || deliveries.is_empty(), Rule::Queues, || {
            format!("{name}: its queue surely has nothing, and {} messages came", deliveries.len())
        })?;
        world.note(format!("{}: receives {} messages of {name}", self.name, deliveries.len()));
        if deliveries.is_empty() {
            self.dry.insert(key.run);
        } else {
            self.dry.remove(&key.run);
        }
        for delivery in deliveries {
            world.tally.duplicates += u64::from(delivery.receives > 1);
            self.flights.push(flight(key, delivery, now)?);
        }
        Ok(())
    }

    pub(super) async fn claim(&mut self, world: &mut World, key: RunKey) -> Check {
        let now = world.now();
        let mut flights: Vec<&mut Flight> =
            self.flights.iter_mut().filter(|f| f.key == key && matches!(f.phase, Phase::Received)).collect();
        let claims: Vec<_> =
            flights.iter().map(|f| (f.task, ClaimToken::new(world.dice.entropy()))).collect();
        let outcome = answer("claim", world.backend.store.claim(key, claims, CLAIMS_MAX, now).await)?;
        let name = world.name(key.job);
        let Answer::Got(answers) = outcome else {
            world.note(format!("{}: claim of {} tasks of {name} not answered", self.name, flights.len()));
            flights.iter_mut().for_each(|f| f.phase = Phase::Over(Return::Release(STORE_PAUSE)));
            return Ok(());
        };
        let mut told = Vec::new();
        for (flight, claim) in flights.iter_mut().zip(answers) {
            let index = flight.task.task.index();
            settles::claimed(world.model.job(key.job), index, &claim)?;
            told.push(format!("{index} {}", label(&claim)));
            let works = |claimed, exhausted| Phase::Working {
                claimed,
                exhausted,
                until: if exhausted { now } else { now.after(duration(&world.dice)) },
            };
            flight.phase = match claim {
                Claim::Claimed(claimed) => works(claimed, false),
                Claim::Exhausted(claimed) => works(claimed, true),
                Claim::Terminal | Claim::Gone => Phase::Over(Return::Ack),
                Claim::Early(due) => Phase::Over(Return::Release(now.until(due))),
            };
        }
        world.note(format!("{}: claims of {name}: {}", self.name, told.join(", ")));
        Ok(())
    }

    /// The queue is dry and nothing of the run is held: perhaps that was all (SPEC 6.5).
    pub(super) async fn check_end(&mut self, world: &mut World, key: RunKey) -> Check {
        self.dry.remove(&key.run);
        let view = answer("run", world.backend.store.run(key.job, key.run).await)?;
        if !matches!(&view, Answer::Got(Some(view)) if view.run.is_drained(&view.stats.counts)) {
            return Ok(());
        }
        let name = world.name(key.job);
        let drained = world.backend.store.apply(key.job, Command::Drained, world.now()).await;
        match answer("apply", drained)? {
            Answer::Got(view) => {
                let status = view.latest.run.status.as_str();
                world.note(format!("{}: {name} is drained: {status}", self.name));
                world.see(&view)
            }
            // Nobody acts between the look and the command.
            Answer::Refused(refusal @ Refusal::NotDrained) => Err(Violation {
                rule: Rule::Completion,
                text: format!("{name} looked drained and the command was refused: {refusal}"),
            }),
            Answer::Refused(_) | Answer::NotFound | Answer::Unknown => Ok(()),
        }
    }
}

fn flight(key: RunKey, delivery: Delivery, now: Timestamp) -> Check<Flight> {
    let task: TaskRef = delivery.body.parse().map_err(|_| Violation {
        rule: Rule::Reads,
        text: format!("a message that nobody sent was received: {:?}", delivery.body),
    })?;
    Ok(Flight { key, task, receipt: delivery.receipt, hidden: now, phase: Phase::Received })
}

fn label(claim: &Claim) -> &'static str {
    match claim {
        Claim::Claimed(_) => "claimed",
        Claim::Exhausted(_) => "exhausted",
        Claim::Terminal => "terminal",
        Claim::Early(_) => "early",
        Claim::Gone => "gone",
    }
}
