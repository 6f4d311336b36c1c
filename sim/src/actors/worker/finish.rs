//! Ending work, in the order that SPEC 6.4 demands: the body, then the row and its count, then the message.

use super::flight::{Flight, Phase, Return};
use super::outcome::{self, End};
use super::{Object, Worker, unused};
use crate::actors::echo::Operation;
use crate::audit::rows::expected_body;
use crate::audit::settles;
use crate::faults::{Answer, answer};
use crate::violation::Check;
use crate::world::World;
use bytes::BytesMut;
use conveyor_domain::{
    AccountFault, Command, Format, Outcome, QueueName, ResultRef, TaskId, checksum, limits,
};
use conveyor_store::port::{BlobKey, Receipt, RunKey, Settle, SettleGroup, Settled};
use std::collections::BTreeSet;
use std::time::Duration;

/// How often the answer of a gateway says that nothing more should come for a while.
const HOLDS: f64 = 0.02;

impl Worker {
    /// Decides the outcome of every task of the run whose time is over. Bodies of one go share an object.
    pub(super) async fn finish(&mut self, world: &mut World, key: RunKey) -> Check {
        let now = world.now();
        let (mut pack, number) = (BytesMut::new(), self.objects);
        let object_key = BlobKey::results(key.job, key.run, self.id, number);
        let mut account = false;
        let mut told = Vec::new();
        for flight in self.flights.iter_mut().filter(|f| f.key == key && f.is_worked_off(now)) {
            let Phase::Working { claimed, exhausted, .. } = &flight.phase else { continue };
            let end = outcome::draw(world, *exhausted);
            account |= matches!(end, End::Account);
            let body = matches!(end, End::Success { with_body: true }).then(|| expected_body(claimed.task));
            let offset = pack.len() as u64;
            pack.extend_from_slice(body.as_deref().unwrap_or_default().as_bytes());
            let result = ResultRef {
                object: body.as_ref().map(|_| object_key.to_string()),
                whole: false,
                offset: if body.is_some() { offset } else { 0 },
                length: body.as_ref().map_or(0, String::len) as u64,
                format: Format::Html,
                http_status: 200,
                crc32: body.as_ref().map(|body| checksum::hash(body.as_bytes())),
            };
            let outcome = outcome::of(world, claimed, end, result);
            told.push(format!("{} {}", claimed.task.index(), outcome.status().as_str()));
            let settle = Settle::new(claimed, outcome);
            flight.phase = Phase::Done { settle, object: body.map(|_| number) };
        }
        if !pack.is_empty() {
            self.objects += 1;
            self.unsaved.insert(number, Object { key: object_key, bytes: pack.freeze() });
        }
        world.note(format!("{}: finishes of {}: {}", self.name, world.name(key.job), told.join(", ")));
        if self.habits.acks_first {
            let done = |f: &&Flight| f.key == key && matches!(f.phase, Phase::Done { .. });
            let receipts = self.flights.iter().filter(done).map(|f| f.receipt.clone()).collect();
            answer("ack", world.backend.queue.ack(QueueName::Run(key.run), receipts).await)?;
        }
        if account {
            self.fail_run(world, key).await?;
        }
        if world.dice.chance(HOLDS) { self.hold(world, key.job).await } else { Ok(()) }
    }

    /// The account cannot pay for more: the run ends here.
    async fn fail_run(&self, world: &mut World, key: RunKey) -> Check {
        let id = key.job;
        let asked = &mut world.model.job(id).asked;
        (asked.failed, asked.latched) = (true, true);
        let reason = AccountFault::InsufficientCredits;
        let command = Command::FailRun { run: key.run, reason, detail: "simulated".to_owned() };
        // Not answered: the next attempt meets the same answer and tries again.
        if let Answer::Got(view) = answer("apply", world.backend.store.apply(id, command, world.now()).await)?
        {
            let status = view.latest_run().run.status.as_str();
            world.note(format!("{}: fails the run of {}: {status}", self.name, world.name(id)));
            world.see(&view)?;
        }
        Ok(())
    }

    pub(super) async fn put(&mut self, world: &mut World, number: u64) -> Check {
        let Some(object) = self.unsaved.get(&number) else { return Ok(()) };
        let stored = world.backend.blobs.put(&object.key, object.bytes.clone()).await;
        if let Answer::Got(()) = answer("put", stored)? {
            world.note(format!("{}: stores object {number}", self.name));
            self.unsaved.remove(&number);
        }
        Ok(())
    }

    pub(super) async fn settle(&mut self, world: &mut World, key: RunKey) -> Check {
        let mut ready: Vec<usize> = Vec::new();
        for (position, flight) in self.flights.iter().enumerate() {
            if flight.key == key && self.can_settle(flight) && ready.len() < limits::SETTLE_GROUP_MAX {
                ready.push(position);
            }
        }
        let settles: Vec<Settle> = ready.iter().filter_map(|at| settle_of(&self.flights[*at])).collect();
        let group = SettleGroup { key, worker: self.id, settles: settles.clone() };
        let outcome = answer("settle", world.backend.store.settle(group.clone(), world.now()).await)?;
        let name = world.name(key.job);
        let Answer::Got(answers) = outcome else {
            world.note(format!("{}: settle of {} tasks of {name} not answered", self.name, settles.len()));
            return Ok(());
        };
        let mut told = Vec::new();
        for (settle, answer) in settles.iter().zip(&answers) {
            told.push(format!("{} {answer:?}", settle.task.index()));
            settles::answered(world.model.job(key.job), settle, *answer)?;
            let first = *answer == Settled::Applied && settle.outcome.status().is_terminal();
            world.tally.tasks_settled += u64::from(first);
        }
        world.note(format!("{}: settles of {name}: {}", self.name, told.join(", ")));
        world.past.remember(Operation::Settle(group));
        self.drop_unused_objects(world, key, &ready, &settles, &answers).await?;
        self.conclude(world, &ready, &settles, &answers);
        Ok(())
    }

    /// An object of which no entry won is dropped if it is surely nobody's (SPEC 6.6).
    async fn drop_unused_objects(
        &self,
        world: &mut World,
        key: RunKey,
        ready: &[usize],
        settles: &[Settle],
        answers: &[Settled],
    ) -> Check {
        let entries =
            || ready.iter().map(|at| object_of(&self.flights[*at])).zip(settles.iter().zip(answers));
        let numbers: BTreeSet<u64> = entries().filter_map(|(object, _)| object).collect();
        for number in numbers {
            let of_it = || entries().filter(|(object, _)| *object == Some(number)).map(|(_, entry)| entry);
            if of_it().any(|(_, answer)| *answer != Settled::Lost) {
                continue;
            }
            let object = BlobKey::results(key.job, key.run, self.id, number);
            let tasks: Vec<TaskId> = of_it().map(|(settle, _)| settle.task).collect();
            if unused::is_nobodys(world, key, &object, &tasks).await? {
                answer("delete", world.backend.blobs.delete(&object).await)?;
                world.note(format!("{}: drops object {number}", self.name));
            } else {
                world.note(format!("{}: leaves object {number}", self.name));
            }
        }
        Ok(())
    }

    /// What becomes of the messages, now that the rows are settled.
    fn conclude(&mut self, world: &World, ready: &[usize], settles: &[Settle], answers: &[Settled]) {
        let now = world.now();
        let mut left = Vec::new();
        for ((at, settle), answer) in ready.iter().zip(settles).zip(answers) {
            let after = match &settle.outcome {
                Outcome::Successful(_) | Outcome::Failed { .. } => Return::Ack,
                Outcome::Retry { not_before, .. } => Return::Release(now.until(*not_before)),
                Outcome::Release => Return::Release(Duration::ZERO),
            };
            self.flights[*at].phase = Phase::Over(after);
            // Another claim has the row. Whether that one also has a message is not known here, so this message stays
            // hidden until its time is over, and its next claim then finds out what to do with it.
            if *answer == Settled::Lost {
                left.push(*at);
            }
        }
        for at in left.into_iter().rev() {
            self.flights.remove(at);
        }
    }

    pub(super) async fn give_messages_back(&mut self, world: &mut World, key: RunKey) -> Check {
        let (mut done, mut later): (Vec<Receipt>, Vec<(Receipt, Duration)>) = (Vec::new(), Vec::new());
        for flight in self.flights.iter().filter(|f| f.key == key) {
            match flight.phase {
                Phase::Over(Return::Ack) => done.push(flight.receipt.clone()),
                Phase::Over(Return::Release(delay)) => later.push((flight.receipt.clone(), delay)),
                Phase::Received | Phase::Working { .. } | Phase::Done { .. } => {}
            }
        }
        let (queue, name) = (QueueName::Run(key.run), world.name(key.job));
        if !done.is_empty() {
            let acked = answer("ack", world.backend.queue.ack(queue, done.clone()).await)?;
            let Answer::Got(()) = acked else { return Ok(()) };
            world.note(format!("{}: acknowledges {} messages of {name}", self.name, done.len()));
            world.past.remember(Operation::Ack(key, done));
        }
        self.flights.retain(|f| f.key != key || !matches!(f.phase, Phase::Over(Return::Ack)));
        if !later.is_empty() {
            let count = later.len();
            let released = answer("release", world.backend.queue.release(queue, later, world.now()).await)?;
            let Answer::Got(()) = released else { return Ok(()) };
            world.note(format!("{}: releases {count} messages of {name}", self.name));
        }
        self.flights.retain(|f| f.key != key || !matches!(f.phase, Phase::Over(_)));
        Ok(())
    }

    pub(super) async fn extend(&mut self, world: &mut World, key: RunKey) -> Check {
        let now = world.now();
        let receipts: Vec<Receipt> =
            self.flights.iter().filter(|f| f.key == key).map(|f| f.receipt.clone()).collect();
        let queue = QueueName::Run(key.run);
        let extended = world.backend.queue.extend(queue, receipts, limits::VISIBILITY, now).await;
        let Answer::Got(renewed) = answer("extend", extended)? else { return Ok(()) };
        let stale = renewed.iter().filter(|receipt| receipt.is_none()).count();
        world.note(format!("{}: extends {} messages, {stale} stale", self.name, renewed.len()));
        for (flight, receipt) in self.flights.iter_mut().filter(|f| f.key == key).zip(renewed) {
            // A stale receipt is kept: the claim on the row decides, not the message.
            flight.hidden = now;
            flight.receipt = receipt.unwrap_or_else(|| flight.receipt.clone());
        }
        Ok(())
    }
}

fn settle_of(flight: &Flight) -> Option<Settle> {
    match &flight.phase {
        Phase::Done { settle, .. } => Some(settle.clone()),
        Phase::Received | Phase::Working { .. } | Phase::Over(_) => None,
    }
}

fn object_of(flight: &Flight) -> Option<u64> {
    match &flight.phase {
        Phase::Done { object, .. } => *object,
        Phase::Received | Phase::Working { .. } | Phase::Over(_) => None,
    }
}
