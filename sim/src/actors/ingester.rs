//! An incarnation of the real ingester, a few store operations a step. It can be dropped at each of them.
//!
//! What it does with a message is its own code; only the loop around it is ours, because that one waits by the clock of the
//! machine. Nor does it keep its messages hidden, for the same reason: those that it holds for long come to others too.

use crate::audit::read;
use crate::faults::{Answer, answer};
use crate::flaky::gated;
use crate::gate::Gate;
use crate::lists::RECORDS_MAX;
use crate::violation::{Check, Rule, Violation, require};
use crate::world::World;
use conveyor_domain::{IngestEvent, IngestRef, IngestState, LoggedEvent, QueueName, Timestamp, limits};
use conveyor_ingest::{IngestConfig, handle};
use conveyor_store::port::{Delivery, Reader, RunKey};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

/// Small, so that most lists take several chunks; drawn for each, so that two rarely cut a list alike.
const CHUNK_ROWS: (u32, u32) = (3, 10);
const INGESTS_MAX: usize = 2;
const OPERATIONS_A_STEP: (u32, u32) = (1, 3);

/// A message that it works on.
struct Work {
    message: IngestRef,
    receives: u32,
    handling: Pin<Box<dyn Future<Output = ()> + Send>>,
}

pub struct Ingester {
    name: String,
    real: Arc<conveyor_ingest::Ingester>,
    gate: Arc<Gate>,
    stop: CancellationToken,
    works: Vec<Work>,
    stalled: Option<Timestamp>,
}

impl fmt::Debug for Ingester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with {} lists", self.name, self.works.len())
    }
}

#[derive(Clone, Copy)]
enum Action {
    Receive,
    Work(usize),
}

impl Ingester {
    pub fn new(name: String, world: &World) -> Ingester {
        let gate = Arc::new(Gate::default());
        let backend = gated(world.truth.clone(), world.weather.clone(), gate.clone());
        let chunk_rows = world.dice.between(CHUNK_ROWS.0, CHUNK_ROWS.1);
        let config = IngestConfig { chunk_rows, run_tasks_max: RECORDS_MAX, ..IngestConfig::default() };
        let real = conveyor_ingest::Ingester::new(backend, world.clock.clone(), world.dice.entropy(), config);
        let stop = CancellationToken::new();
        Ingester { name, real: Arc::new(real), gate, stop, works: Vec::new(), stalled: None }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn stall(&mut self, until: Timestamp) {
        self.stalled = Some(until);
    }

    /// Asks it to end: it takes no more messages, and gives back those that it has.
    pub fn retire(&self) {
        self.stop.cancel();
    }

    pub fn has_retired(&self) -> bool {
        self.stop.is_cancelled() && self.works.is_empty()
    }

    pub async fn step(&mut self, world: &mut World) -> Check {
        if self.stalled.is_some_and(|until| until > world.now()) {
            return Ok(());
        }
        self.stalled = None;
        let free = self.works.len() < INGESTS_MAX && !self.stop.is_cancelled();
        let mut actions = vec![(if free { 3 } else { 0 }, Action::Receive)];
        actions.extend((0..self.works.len()).map(|at| (9, Action::Work(at))));
        match world.dice.weighted(&actions) {
            Some(Action::Receive) => self.receive(world).await,
            Some(Action::Work(at)) => self.work(world, at).await,
            None => Ok(()),
        }
    }

    async fn receive(&mut self, world: &mut World) -> Check {
        let (now, free) = (world.now(), INGESTS_MAX - self.works.len());
        let received = world.backend.queue.receive(QueueName::Control, free, limits::VISIBILITY, now).await;
        let Answer::Got(deliveries) = answer("receive", received)? else { return Ok(()) };
        for delivery in deliveries {
            let message: IngestRef = delivery.body.parse().map_err(|_| Violation {
                rule: Rule::Reads,
                text: format!("a control message that nobody sent was received: {:?}", delivery.body),
            })?;
            let (name, receives) = (world.name(message.job), delivery.receives);
            world.tally.duplicates += u64::from(receives > 1);
            world.note(format!("{}: is called to {name}, {receives}", self.name));
            self.works.push(Work { message, receives, handling: self.begin(delivery) });
        }
        Ok(())
    }

    /// Up to its first operation, which it waits for at the gate. That is where it makes its timer.
    fn begin(&self, delivery: Delivery) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (ingester, stop) = (self.real.clone(), self.stop.clone());
        let mut handling = Box::pin(async move { handle(&ingester, delivery, &stop).await });
        let begun = with_frozen_timers(|| handling.as_mut().poll(&mut Context::from_waker(Waker::noop())));
        match begun {
            Poll::Pending => handling,
            Poll::Ready(()) => Box::pin(std::future::ready(())),
        }
    }

    async fn work(&mut self, world: &mut World, at: usize) -> Check {
        let operations = world.dice.between(OPERATIONS_A_STEP.0, OPERATIONS_A_STEP.1);
        let Work { message, receives, handling } = &mut self.works[at];
        let (message, name) = (*message, world.name(message.job));
        let last = *receives >= limits::CONTROL_MAX_RECEIVES;
        let before = if last { log(world, message).await? } else { Vec::new() };
        let over = self.gate.let_through(handling, operations).await.is_some();
        let does = if over { "leaves" } else { "works on" };
        world.note(format!("{}: {does} the list of {name}", self.name));
        if over {
            self.works.remove(at);
        }
        if last { given_up_rightly(world, message, &before).await } else { Ok(()) }
    }
}

async fn log(world: &World, IngestRef { job, run, .. }: IngestRef) -> Check<Vec<LoggedEvent>> {
    let ingest = read("an ingest", world.truth.store.ingest(RunKey { job, run }, Reader::Role).await)?;
    Ok(ingest.map(|ingest| ingest.log).unwrap_or_default())
}

/// SPEC 6.11: a message becomes a dead letter when there was no progress since it was sent. Only its holder has acted since
/// the log was as it was before.
async fn given_up_rightly(world: &World, message: IngestRef, before: &[LoggedEvent]) -> Check {
    let now = log(world, message).await?;
    let given_up = now.iter().skip(before.len()).any(|logged| {
        let IngestEvent::AttemptFailed { dead_lettered, .. } = &logged.event else { return false };
        *dead_lettered
    });
    let came = IngestState::fold(&now).map_or(0, |state| state.progress);
    require(!given_up || came <= message.progress, Rule::Ingest, || {
        let (name, sent) = (world.name(message.job), message.progress);
        format!("the message of {name} is a dead letter, and its list came from {sent} to {came}")
    })
}

/// Nobody ever drives it, so time stands still in it. Never dropped: that would have to wait, which nobody here may.
static FROZEN: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_current_thread().enable_time().build().expect("a runtime that is never driven needs nothing")
});

/// Calls `make`; timers that are made meanwhile never ring: what rings when must depend on nothing but the seed.
fn with_frozen_timers<T>(make: impl FnOnce() -> T) -> T {
    let _entered = FROZEN.enter();
    make()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::time::Duration;

    #[tokio::test]
    async fn a_frozen_timer_never_rings() {
        let mut timer = with_frozen_timers(|| Box::pin(tokio::time::sleep(Duration::from_millis(1))));
        tokio::time::sleep(Duration::from_millis(20)).await;
        let rang = poll_fn(|context| Poll::Ready(Pin::new(&mut timer).poll(context).is_ready()));
        assert!(!rang.await);
    }
}
