//! The loop: discover, be granted, receive what can start, claim, work (SPEC 8).

use crate::Worker;
use crate::execute;
use crate::flight::Flights;
use crate::permits::{Permit, Permits, Slot};
use crate::runs::{Receives, RunContext, Runs};
use crate::settle::{self, Finished};
use conveyor_domain::lifecycle::Command;
use conveyor_domain::message::{QueueName, TaskRef};
use conveyor_domain::{ClaimToken, RunId, limits};
use conveyor_store::port::{Claim, ClaimedTask, Delivery, Receipt};
use conveyor_store::{Error, Result};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long to wait after the store did not answer.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// Works until `shutdown`, then lets what is in flight settle, releases the rest, and returns.
pub async fn run(worker: Worker, shutdown: CancellationToken) {
    let worker = Arc::new(worker);
    let flights = Arc::new(Flights::default());
    let (finished, to_settle) = mpsc::channel(worker.config.slots.max(1) as usize);
    let (abort, give_up) = (CancellationToken::new(), CancellationToken::new());
    let settling =
        tokio::spawn(settle::settle_loop(worker.clone(), flights.clone(), to_settle, give_up.clone()));
    let mut dispatcher = Dispatcher::new(worker.clone(), flights.clone(), finished, abort.clone());
    let upkeep = tokio::spawn(keep_hidden(worker.clone(), flights.clone()));
    dispatcher.work(&shutdown).await;

    tracing::info!(held = flights.count(), "worker stops receiving");
    let tasks = dispatcher.tasks.clone();
    tasks.close();
    if tokio::time::timeout(worker.config.shutdown_grace, tasks.wait()).await.is_err() {
        tracing::warn!(held = flights.count(), "the grace period is over; releasing what is still in flight");
        abort.cancel();
        tasks.wait().await;
    }
    let mut permits = dispatcher.close();
    let abandon = tokio::time::sleep(worker.config.shutdown_grace.max(STORE_PAUSE));
    let mut settling = settling;
    tokio::select! {
        _ = &mut settling => {}
        () = abandon => {
            give_up.cancel();
            let _ = settling.await;
        }
    }
    upkeep.abort();
    permits.give_all_back(&worker).await;
}

async fn keep_hidden(worker: Arc<Worker>, flights: Arc<Flights>) {
    loop {
        tokio::time::sleep(limits::extend_every(worker.config.visibility)).await;
        if !flights.is_empty() {
            flights.extend_all(&worker).await;
        }
    }
}

struct Dispatcher {
    worker: Arc<Worker>,
    flights: Arc<Flights>,
    finished: mpsc::Sender<Finished>,
    abort: CancellationToken,
    tasks: TaskTracker,
    slots: Arc<Semaphore>,
    freed: Arc<Notify>,
    permits: Permits,
    runs: Runs,
    changes: watch::Receiver<u64>,
    rediscover: bool,
}

impl Dispatcher {
    fn new(
        worker: Arc<Worker>,
        flights: Arc<Flights>,
        finished: mpsc::Sender<Finished>,
        abort: CancellationToken,
    ) -> Dispatcher {
        let freed = Arc::new(Notify::new());
        Dispatcher {
            slots: Arc::new(Semaphore::new(worker.config.slots as usize)),
            permits: Permits::new(freed.clone()),
            changes: worker.backend.queue.changes(),
            tasks: TaskTracker::new(),
            runs: Runs::default(),
            rediscover: true,
            worker,
            flights,
            finished,
            abort,
            freed,
        }
    }

    /// Ends the flow of finished tasks, so that the settler can come to an end.
    fn close(self) -> Permits {
        self.permits
    }

    async fn work(&mut self, shutdown: &CancellationToken) {
        while !shutdown.is_cancelled() {
            // Not cut short by a shutdown: a receive that was given up half way would hide its messages for nothing.
            match self.pass(shutdown).await {
                Ok(true) => {}
                Ok(false) => self.rest(shutdown).await,
                Err(error) => {
                    // Not to be woken by its own attempts: a store that cannot take them is not helped by more.
                    tracing::warn!(%error, "the store does not answer; the worker waits");
                    let pause = tokio::time::sleep(STORE_PAUSE);
                    tokio::select! { () = pause => {}, () = shutdown.cancelled() => {} }
                }
            }
        }
    }

    /// Until something may have become startable.
    async fn rest(&mut self, shutdown: &CancellationToken) {
        let wait = if self.rediscover { limits::REDISCOVER_AFTER } else { limits::IDLE_WAIT };
        tokio::select! {
            // Marks the change as seen, so it has to be remembered.
            _ = self.changes.changed() => self.rediscover = true,
            () = self.freed.notified() => {}
            () = tokio::time::sleep(wait) => {}
            () = shutdown.cancelled() => {}
        }
    }

    /// Gives every run one turn. True if anything was received.
    async fn pass(&mut self, shutdown: &CancellationToken) -> Result<bool> {
        let hint = self.rediscover || self.changes.has_changed().unwrap_or(false);
        if self.runs.is_stale(hint) {
            self.changes.mark_unchanged();
            self.rediscover = false;
            self.runs.refresh(&self.worker).await?;
            if hint {
                self.runs.something_was_sent();
            }
        }
        self.permits.upkeep(&self.worker).await;
        let turns = self.runs.turns().to_vec();
        let queues = turns.iter().map(|run| QueueName::Run(*run)).collect();
        let ready = self.worker.backend.queue.may_have(queues, self.worker.clock.now()).await?;
        let mut received = false;
        for (run, may_have) in turns.into_iter().zip(ready) {
            if shutdown.is_cancelled() {
                break;
            }
            // However long a pass takes, shares that are in use do not lapse.
            self.permits.upkeep(&self.worker).await;
            match self.turn(run, may_have).await {
                Ok(some) => received |= some,
                Err(error @ (Error::Full(_) | Error::Unavailable(_))) => {
                    // The next pass begins with another: one that always fails must not keep the rest from their turns.
                    self.runs.rotate();
                    return Err(error);
                }
                // Something about this run; the others are not to wait for it.
                Err(error) => tracing::error!(%run, %error, "a run could not have its turn"),
            }
        }
        self.runs.rotate();
        Ok(received)
    }

    async fn turn(&mut self, run: RunId, may_have: bool) -> Result<bool> {
        let Some(known) = self.runs.get_mut(run) else { return Ok(false) };
        let (context, receives) = (known.context.clone(), known.receives);
        if context.unusable {
            return Ok(false);
        }
        // Looked at first: a run that only waits, for its retries or its end, costs no grant, and an empty queue no receive.
        let worth_it = may_have && receives.are_due();
        let deliveries = if worth_it { self.receive(&context, receives).await? } else { Some(Vec::new()) };
        let Some(deliveries) = deliveries else { return Ok(false) };
        if deliveries.is_empty() {
            self.check_end(run, &context).await?;
            return Ok(false);
        }
        if let Some(known) = self.runs.get_mut(run) {
            known.worked = true;
        }
        self.start(context, deliveries);
        Ok(true)
    }

    /// What can start now; `None` if nothing can.
    async fn receive(&mut self, run: &RunContext, before: Receives) -> Result<Option<Vec<Delivery>>> {
        let slots = self.slots.available_permits();
        if slots == 0 {
            return Ok(None);
        }
        let free = self.permits.free(&self.worker, &run.job).await? as usize;
        let room = free.min(slots).min(self.worker.backend.queue.receive_max());
        if room == 0 {
            return Ok(None);
        }
        // Where a receive has its price however little it brings, a few permits wait for more of them, but not for long.
        if room < self.worker.backend.queue.receive_batch() && run.holds_any() && !before.waited_for_more() {
            return Ok(None);
        }
        let now = self.worker.clock.now();
        let visibility = self.worker.config.visibility;
        let deliveries = self.worker.backend.queue.receive(run.queue, room, visibility, now).await?;
        if let Some(known) = self.runs.get_mut(run.key.run) {
            known.receives.note(deliveries.len());
        }
        metrics::counter!("conveyor_receives_total").increment(1);
        metrics::counter!("conveyor_messages_received_total").increment(deliveries.len() as u64);
        Ok(Some(deliveries))
    }

    /// Nothing queued and nothing held: perhaps that was all (SPEC 6.5).
    async fn check_end(&mut self, run: RunId, context: &RunContext) -> Result<()> {
        let Some(known) = self.runs.get_mut(run) else { return Ok(()) };
        // Worth a look once after it was worked on, and whenever the last discovery found it drained.
        if context.holds_any() || !(known.worked || known.drained) {
            return Ok(());
        }
        (known.worked, known.drained) = (false, false);
        let store = &self.worker.backend.store;
        let drained = store
            .run(context.key.job, run)
            .await?
            .is_some_and(|view| view.run.is_drained(&view.stats.counts));
        if !drained {
            return Ok(());
        }
        match store.apply(context.key.job, Command::Drained, self.worker.clock.now()).await {
            Ok(view) => {
                tracing::info!(job = %context.key.job, %run, status = view.latest.run.status.as_str(), "run drained");
                Ok(())
            }
            // Tasks were added, or the job deleted, since the look above.
            Err(Error::Refused(_) | Error::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Claims the messages and works on what it got, beside the loop.
    fn start(&self, run: Arc<RunContext>, deliveries: Vec<Delivery>) {
        let mut starts = Vec::with_capacity(deliveries.len());
        for delivery in deliveries {
            let (Ok(slot), Some(permit)) =
                (self.slots.clone().try_acquire_owned(), self.permits.take(run.key.job))
            else {
                // Cannot be: room was counted by this loop alone. The message comes back by itself.
                tracing::error!(run = %run.key.run, "received more than there was room for");
                continue;
            };
            starts.push(Start { delivery, slot: Slot::new(slot, self.freed.clone()), permit });
        }
        run.hold(u32::try_from(starts.len()).unwrap_or(u32::MAX));
        let batch = Batch {
            worker: self.worker.clone(),
            flights: self.flights.clone(),
            finished: self.finished.clone(),
            abort: self.abort.clone(),
            tasks: self.tasks.clone(),
            run,
        };
        self.tasks.spawn(batch.claim_and_work(starts));
    }
}

/// A message with the room that its task needs.
struct Start {
    delivery: Delivery,
    slot: Slot,
    permit: Permit,
}

#[derive(Clone)]
struct Batch {
    worker: Arc<Worker>,
    flights: Arc<Flights>,
    finished: mpsc::Sender<Finished>,
    abort: CancellationToken,
    tasks: TaskTracker,
    run: Arc<RunContext>,
}

impl Batch {
    async fn claim_and_work(self, starts: Vec<Start>) {
        let (mut refs, mut valid, mut done, mut later) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for start in starts {
            match start.delivery.body.parse::<TaskRef>() {
                Ok(task_ref) => {
                    refs.push((task_ref, ClaimToken::new(&self.worker.entropy)));
                    valid.push(start);
                }
                // Nobody will ever understand it better; the row, if there is one, is found by the sweeper.
                Err(_) => done.push(start.delivery.receipt),
            }
        }
        let (store, now) = (&self.worker.backend.store, self.worker.clock.now());
        let claims = match store.claim(self.run.key, refs, self.worker.config.claims_max, now).await {
            Ok(claims) => claims,
            Err(error) => {
                tracing::warn!(run = %self.run.key.run, %error, "tasks could not be claimed");
                later.extend(valid.drain(..).map(|s| (s.delivery.receipt, STORE_PAUSE)));
                Vec::new()
            }
        };
        for (start, claim) in valid.into_iter().zip(claims) {
            match claim {
                Claim::Claimed(task) => self.begin(start, task, false),
                Claim::Exhausted(task) => self.begin(start, task, true),
                Claim::Terminal | Claim::Gone => done.push(start.delivery.receipt),
                Claim::Early(due) => later.push((start.delivery.receipt, now.until(due))),
            }
        }
        self.return_unstarted(done, later).await;
    }

    fn begin(&self, start: Start, task: ClaimedTask, exhausted: bool) {
        let flight = self.flights.add(self.run.clone(), start.delivery.receipt);
        let batch = self.clone();
        self.tasks.spawn(async move {
            let gauge = metrics::gauge!("conveyor_tasks_inflight");
            gauge.increment(1.0);
            let end = if exhausted {
                execute::abandoned(batch.worker.config.claims_max)
            } else {
                execute::execute(&batch.worker, &batch.run, &task, &batch.abort).await
            };
            gauge.decrement(1.0);
            // The call is over: the job may start another while this one is being written.
            drop(start.permit);
            let finished = Finished { run: batch.run.clone(), flight, task, end, slot: start.slot };
            if batch.finished.send(finished).await.is_err() {
                tracing::error!("the settler ended before the work did");
            }
        });
    }

    /// Not in flight yet, so nobody else touches their receipts.
    async fn return_unstarted(&self, done: Vec<Receipt>, later: Vec<(Receipt, Duration)>) {
        let unstarted = u32::try_from(done.len() + later.len()).unwrap_or(u32::MAX);
        let (queue, now) = (&self.worker.backend.queue, self.worker.clock.now());
        let acked = if done.is_empty() { Ok(()) } else { queue.ack(self.run.queue, done).await };
        let released =
            if later.is_empty() { Ok(()) } else { queue.release(self.run.queue, later, now).await };
        if let Err(error) = acked.and(released) {
            tracing::warn!(run = %self.run.key.run, %error, "messages could not be given back");
        }
        self.run.let_go(unstarted);
    }
}
