//! Getting work: discover, ask, receive, claim; and noticing that there is none left.

use super::flight::{Flight, Phase, Return, duration};
use super::{CLAIMS_MAX, Share, Worker};
use crate::audit::{grants, listing, rates, settles, steering};
use crate::faults::{Answer, answer};
use crate::violation::{Check, Rule, Violation, require};
use crate::world::World;
use conveyor_domain::dispatch::grant::{Ask, Change, Holding, Limits, Scope};
use conveyor_domain::{ClaimToken, Command, JobId, QueueName, Rate, Refusal, TaskRef, Timestamp, limits};
use conveyor_store::port::{ActiveRun, ChangeCursor, ChangedRuns, Claim, Delivery, RunKey};
use std::time::Duration;

/// How long a message rests when its claim was not answered.
const STORE_PAUSE: Duration = Duration::from_secs(1);

impl Worker {
    /// Everything now and then, and in between only what changed.
    pub(super) async fn discover(&mut self, world: &mut World) -> Check {
        let now = world.now();
        // There is one clock, and rows and their index are one write: looks need not overlap.
        let since = self.refreshed.filter(|_| world.dice.chance(0.7)).map(ChangeCursor);
        let changed = answer("changed_runs", world.backend.store.changed_runs(since, now).await)?;
        let Answer::Got(ChangedRuns { active, gone, .. }) = changed else { return Ok(()) };
        let told = |known: &ActiveRun| {
            let key = RunKey { job: known.job.id, run: known.run.id };
            since.is_none() || gone.contains(&key) || active.iter().any(|active| active.run.id == key.run)
        };
        self.runs.retain(|known| !told(known));
        self.runs.extend(active);
        self.refreshed = Some(now);
        let names: Vec<String> = self.runs.iter().map(|active| world.name(active.job.id)).collect();
        world.note(format!("{}: knows of {}", self.name, names.join(", ")));
        self.dry.retain(|run| self.runs.iter().any(|active| active.run.id == *run));
        listing::discovered(world, &self.runs).await
    }

    /// The same request until it is answered: what is wanted is absolute, so repeating it costs starts at most.
    pub(super) async fn ask(&mut self, world: &mut World, job: JobId, limits: Limits) -> Check {
        let (now, scope, in_use) = (world.now(), Scope::Job(job), self.used(job));
        let starts = self.starts_wanted(job, limits, now);
        let startable = self.unstarted(job);
        let ask = Ask { worker: self.id, in_use, want: self.wanted(limits), starts, startable, limits };
        if let Some(share) = self.shares.get_mut(&job).filter(|_| !self.habits.keeps_permits) {
            // Once the request is out, others may have whatever it did not say to be in use, answered or not.
            share.holding.permits = share.holding.permits.min(in_use);
        }
        let before = grants::stored(world, job).await?;
        let asked = answer("ask", world.backend.coordinator.ask(&scope, ask, now).await)?;
        let after = grants::stored(world, job).await?;
        grants::asked(world.model.job(job), &ask, &before, &after)?;
        let Answer::Got(grant) = asked else { return Ok(()) };
        let (name, permits) = (world.name(job), grant.permits);
        world.note(format!("{}: is granted {permits} of {name}, {} starts", self.name, grant.starts.len()));
        rates::taken(world.model.job(job), &ask, &grant, now)?;
        world.tally.starts += grant.starts.len() as u64;
        let budget = &mut world.model.job(job).budget;
        budget.revision = budget.revision.max(grant.limits.revision);
        let late_max = grant.limits.rate.map_or(Duration::ZERO, Rate::late_max);
        let mut starts = self.shares.remove(&job).map(|share| share.starts).unwrap_or_default();
        starts.retain(|start| start.after(late_max) >= now);
        starts.extend(grant.starts);
        starts.sort();
        let share = Share {
            limits: grant.limits,
            holding: Holding { permits, expires: grant.expires },
            starts,
            more_starts_at: grant.more_starts_at,
            held_until: grant.held_until,
            asked: now,
        };
        self.shares.insert(job, share);
        Ok(())
    }

    pub(super) async fn give_back(&mut self, world: &mut World, job: JobId) -> Check {
        // Forgotten before it is asked for: once the request is out, others may have the permits, answered or not.
        let share = self.shares.remove(&job);
        let (scope, now) = (Scope::Job(job), world.now());
        let outcome = answer(
            "give_back",
            world.backend.coordinator.change(&scope, Change::GiveBack(self.id), now).await,
        )?;
        if let (Answer::Unknown, true, Some(share)) = (outcome, self.habits.keeps_permits, share) {
            self.shares.insert(job, share);
        }
        world.note(format!("{}: gives the permits of {} back", self.name, world.name(job)));
        Ok(())
    }

    /// The gateway wants to be left alone for a while.
    pub(super) async fn hold(&mut self, world: &mut World, job: JobId) -> Check {
        let (now, until) = (world.now(), world.now().after(world.dice.ms(500, 8_000)));
        let held = world.backend.coordinator.change(&Scope::Job(job), Change::HoldUntil(until), now).await;
        if let Some(share) = self.shares.get_mut(&job) {
            share.held_until = share.held_until.max(Some(until));
        }
        if let Answer::Got(()) = answer("hold", held)? {
            world.note(format!("{}: holds {} until {until:?}", self.name, world.name(job)));
            let budget = &mut world.model.job(job).budget;
            budget.held_until = budget.held_until.max(Some(until));
        }
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
        let may_start = usize::try_from(self.may_start(key.job, now)).unwrap_or(usize::MAX);
        let received = |f: &&mut Flight| f.key == key && matches!(f.phase, Phase::Received);
        let mut flights: Vec<&mut Flight> =
            self.flights.iter_mut().filter(received).take(may_start).collect();
        // Each takes one of the starts, whatever becomes of its claim.
        if let Some(share) = self.shares.get_mut(&key.job) {
            let late_max = share.limits.rate.map_or(Duration::ZERO, Rate::late_max);
            share.starts.retain(|start| start.after(late_max) >= now);
            share.starts.drain(..flights.len().min(share.starts.len()));
        }
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
            steering::claimed(world.model.job(key.job), index, &claim)?;
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
                Claim::Paused => Phase::Over(Return::Release(limits::BOUNCE_MIN)),
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
                let status = view.latest_run().run.status.as_str();
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
        Claim::Paused => "paused",
        Claim::Gone => "gone",
    }
}
