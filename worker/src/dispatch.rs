//! The loop: discover, be granted, receive what can start (SPEC 8). It decides; whatever has to wait for the store, the
//! queue or the coordinator goes on beside it and comes back as news.

use crate::Worker;
use crate::batch::{Batch, Room, STORE_PAUSE, Shared};
use crate::breaker;
use crate::budgets::Budgets;
use crate::flight::Flights;
use crate::outage;
use crate::parked::Parking;
use crate::prediction::Sites;
use crate::room::{Plan, lingers, may_have_room, parked_room, room_of, take_room};
use crate::runs::{Look, Runs};
use crate::settle;
use crate::sites;
use crate::slot::Slots;
use conveyor_domain::{CallerId, QueueName, RunId, limits};
use conveyor_store::Result;
use conveyor_store::port::ChangedRuns;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What the loop hears from the work that goes on beside it.
#[derive(Debug)]
pub enum News {
    /// What a look around found.
    Found(Result<(Look, ChangedRuns)>),
    /// What a receive brought; `None` if it failed.
    Received {
        run: RunId,
        messages: Option<usize>,
    },
    /// The sites that all of so many tasks of a batch go to.
    Sites(RunId, Sites, u32),
    Paused(RunId),
    /// No longer running.
    Gone(RunId),
    /// Whether it is at its end could not be found out.
    EndUnknown(RunId),
}

/// Works until `shutdown`, then lets what is in flight settle, releases the rest, and returns.
pub async fn run(worker: Worker, shutdown: CancellationToken) {
    let worker = Arc::new(worker);
    let flights = Arc::new(Flights::default());
    let (finished, to_settle) = mpsc::channel(worker.config.slots.max(1) as usize);
    let give_up = CancellationToken::new();
    let freed = Arc::new(Notify::new());
    let budgets = Arc::new(Budgets::new(freed.clone()));
    let parking = Arc::new(Parking::new(budgets.clone()));
    let held = settle::Held { flights: flights.clone(), parking: parking.clone() };
    let settling =
        tokio::spawn(settle::settle_loop(worker.clone(), held.clone(), to_settle, give_up.clone()));
    let upkeep = tokio::spawn(keep_hidden(worker.clone(), held, shutdown.clone()));
    let (news, heard) = mpsc::unbounded_channel();
    let shared = Shared {
        worker: worker.clone(),
        flights: flights.clone(),
        budgets: budgets.clone(),
        parking: parking.clone(),
        backoff: Arc::default(),
        finished,
        news,
        tasks: TaskTracker::new(),
        stop: shutdown.clone(),
        abort: CancellationToken::new(),
    };
    let (tasks, abort) = (shared.tasks.clone(), shared.abort.clone());
    // Ends with the loop, and with it the flow of finished tasks, so that the settler can come to an end.
    Dispatcher::new(shared, freed, heard).work(&shutdown).await;

    tracing::info!(held = flights.count(), "worker stops receiving");
    tasks.close();
    let grace = worker.config.shutdown_grace;
    let in_time = tokio::time::timeout(grace, all_done(&worker, &tasks, &budgets));
    // Others can have what is parked here while the calls in flight end.
    let (in_time, ()) = tokio::join!(in_time, parking.release_all(&worker));
    if in_time.is_err() {
        tracing::warn!(held = flights.count(), "the grace period is over; releasing what is still in flight");
        abort.cancel();
        if tokio::time::timeout(grace.max(STORE_PAUSE), tasks.wait()).await.is_err() {
            tracing::warn!("something does not end; what it holds comes back by itself");
        }
    }
    let abandon = tokio::time::sleep(grace.max(STORE_PAUSE));
    let mut settling = settling;
    tokio::select! {
        _ = &mut settling => {}
        () = abandon => {
            give_up.cancel();
            let _ = settling.await;
        }
    }
    upkeep.abort();
    let _ = upkeep.await;
    parking.forget_extensions();
    // What was parked, or being hidden anew, when the rest was released.
    parking.release_all(&worker).await;
    budgets.give_all_back(&worker).await;
}

/// What is still in flight keeps its permits meanwhile.
async fn all_done(worker: &Arc<Worker>, tasks: &TaskTracker, budgets: &Budgets) {
    loop {
        tokio::select! {
            () = tasks.wait() => return,
            () = tokio::time::sleep(STORE_PAUSE) => budgets.upkeep(worker, tasks),
        }
    }
}

async fn keep_hidden(
    worker: Arc<Worker>,
    settle::Held { flights, parking }: settle::Held,
    stop: CancellationToken,
) {
    loop {
        tokio::time::sleep(limits::extend_every(worker.config.visibility)).await;
        if !flights.is_empty() {
            flights.extend_all(&worker).await;
        }
        parking.keep_hidden(&worker).await;
        if stop.is_cancelled() {
            parking.release_all(&worker).await;
        }
    }
}

const NOT_LOOKED: &str = "the queues could not be looked at";
const NOT_FOUND: &str = "runs could not be discovered; going on with those that are known";

struct Dispatcher {
    shared: Shared,
    slots: Slots,
    freed: Arc<Notify>,
    heard: mpsc::UnboundedReceiver<News>,
    runs: Runs,
    changes: watch::Receiver<u64>,
    /// Something may be new since the last look around.
    hint: bool,
    /// Receives under way, and when the last of them began.
    receives: u32,
    handed_out: Option<Instant>,
    kept_up: Option<Instant>,
    parked_seen: Option<Instant>,
    /// Looks at the queues that failed in a row.
    looks_failed: u32,
}

impl Dispatcher {
    fn new(shared: Shared, freed: Arc<Notify>, heard: mpsc::UnboundedReceiver<News>) -> Dispatcher {
        Dispatcher {
            slots: Slots::new(shared.worker.config.slots, freed.clone()),
            changes: shared.worker.backend.changes(),
            runs: Runs::default(),
            hint: true,
            receives: 0,
            handed_out: None,
            kept_up: None,
            parked_seen: None,
            looks_failed: 0,
            shared,
            freed,
            heard,
        }
    }

    async fn work(mut self, shutdown: &CancellationToken) {
        while !shutdown.is_cancelled() {
            while let Ok(news) = self.heard.try_recv() {
                self.hear(news);
            }
            self.look_around();
            if self.kept_up.is_none_or(|at| at.elapsed() >= limits::REDISCOVER_AFTER) {
                self.kept_up = Some(Instant::now());
                self.shared.budgets.upkeep(&self.shared.worker, &self.shared.tasks);
                self.look_at_breakers();
            }
            if self.parked_seen.is_none_or(|at| at.elapsed() >= limits::PARKED_SEEN_EVERY) {
                self.parked_seen = Some(Instant::now());
                self.look_after_parked();
            }
            let wait = match self.hand_out().await {
                Ok(wait) => wait,
                Err(error) => {
                    let worker = &self.shared.worker;
                    worker.outages.failed(NOT_LOOKED, &error);
                    self.looks_failed += 1;
                    outage::PAUSE.jittered(self.looks_failed, &worker.entropy)
                }
            };
            self.rest(wait, shutdown).await;
        }
    }

    /// Of runs that were just asked about when something failed, or that were found to fail.
    fn look_at_breakers(&self) {
        for (_, known) in self.runs.iter().filter(|(_, known)| known.context.breaker().is_due()) {
            let (worker, run) = (self.shared.worker.clone(), known.context.clone());
            self.shared.tasks.spawn(async move { breaker::look(&worker, &run).await });
        }
    }

    /// Parked messages that nobody can start here return to their queues, and those who look hear what the others wait for.
    fn look_after_parked(&mut self) {
        let Shared { worker, tasks, parking, .. } = &self.shared;
        parking.release(worker, tasks, |caller, run| self.slots.is_stuck(caller) || !self.runs.wants(run));
        let now = worker.clock.now();
        for (run, known) in self.runs.iter_mut() {
            let wait = |domain: Option<&str>| parking.wait_of(run, domain, now);
            let Some(wait) = sites::to_tell(known.told.as_ref(), wait, now) else { continue };
            known.told = (wait.until > now).then(|| (Instant::now(), wait.clone()));
            let (worker, run) = (worker.clone(), known.context.clone());
            tasks.spawn(async move { sites::tell(&worker, &run, wait).await });
        }
    }

    /// Until something may have become startable.
    async fn rest(&mut self, wait: Duration, shutdown: &CancellationToken) {
        let wait = if self.hint { wait.min(limits::REDISCOVER_AFTER) } else { wait };
        let wait = self.shared.budgets.wake_in(&self.shared.worker).map_or(wait, |wake| wait.min(wake));
        tokio::select! {
            // Marks the change as seen, so it has to be remembered.
            _ = self.changes.changed() => self.hint = true,
            () = self.freed.notified() => {}
            Some(news) = self.heard.recv() => self.hear(news),
            () = tokio::time::sleep(wait) => {}
            () = shutdown.cancelled() => {}
        }
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Found(Ok((look, found))) => {
                let shared = &self.shared;
                shared.worker.outages.succeeded(NOT_FOUND);
                self.runs.absorb(&shared.worker, look, found);
            }
            News::Found(Err(error)) => {
                self.shared.worker.outages.failed(NOT_FOUND, &error);
                self.runs.not_found(&self.shared.worker);
            }
            News::Received { run, messages } => {
                self.receives -= 1;
                let Some(known) = self.runs.get_mut(run) else { return };
                known.receives.end(messages);
                known.worked |= messages.is_some_and(|messages| messages > 0);
                if messages == Some(0) {
                    self.look_for_the_end(run);
                }
            }
            News::Sites(run, sites, messages) => {
                if let Some(known) = self.runs.get_mut(run) {
                    known.prediction.note(sites, messages);
                }
            }
            // The next look around says for certain; it may have been resumed since.
            News::Paused(run) => {
                if let Some(known) = self.runs.get_mut(run) {
                    known.receives.rest(limits::DISCOVER_EVERY);
                }
            }
            News::Gone(run) => self.runs.evict(run),
            News::EndUnknown(run) => {
                if let Some(known) = self.runs.get_mut(run) {
                    known.worked = true;
                    known.end_not_before = Some(Instant::now() + STORE_PAUSE);
                }
            }
        }
    }

    fn look_around(&mut self) {
        if self.changes.has_changed().unwrap_or(false) {
            self.changes.mark_unchanged();
            self.hint = true;
        }
        let Some(look) = self.runs.due(self.hint, self.shared.worker.clock.now()) else { return };
        if std::mem::take(&mut self.hint) {
            self.runs.something_was_sent();
        }
        let (worker, news) = (self.shared.worker.clone(), self.shared.news.clone());
        self.shared.tasks.spawn(async move {
            let _ = news.send(News::Found(look.take(&worker).await));
        });
    }

    /// Shares the free slots out among the runs that can use them, and receives for them. Returns how long to wait if
    /// nothing happens.
    async fn hand_out(&mut self) -> Result<Duration> {
        // What comes free while a receive is under way is shared out with the next ones: then there is something to share.
        let since = self.handed_out.map_or(Duration::MAX, |at| at.elapsed());
        if self.receives > 0 && since < limits::RECEIVE_LINGER {
            return Ok(limits::RECEIVE_LINGER - since);
        }
        // After too many failures of store and queue in a row, one message probes.
        let free = self.shared.backoff.lock().most(self.slots.free(), limits::STORE_FAILURES_MAX);
        if free == 0 {
            return Ok(limits::IDLE_WAIT);
        }
        let (worker, now) = (self.shared.worker.clone(), self.shared.worker.clock.now());
        let (mut candidates, mut resting, mut plans) = (Vec::new(), Vec::new(), HashMap::new());
        let mut of_callers: HashMap<CallerId, u32> = HashMap::new();
        for (run, known) in self.runs.iter().filter(|(_, known)| !known.paused && !known.context.unusable) {
            let caller = known.context.job.caller;
            let free = *of_callers.entry(caller).or_insert_with(|| self.slots.room_for(caller).min(free));
            if free == 0 {
                resting.push(run);
                continue;
            }
            let most = known.context.backoff().lock().most(free, 1);
            if most == 0 {
                self.shared.parking.stall(run, true);
                continue;
            }
            plans.insert(run, parked_room(&self.shared, known, most, now));
            match known.receives.are_due() && may_have_room(&self.shared, known) {
                true => candidates.push(run),
                false => resting.push(run),
            }
        }
        // They cost no call of the queue. That they have nothing left to do can be told without.
        resting.into_iter().for_each(|run| self.look_for_the_end(run));
        let queues = candidates.iter().map(|run| QueueName::Run(*run)).collect();
        // Looked at first: a run that only waits, for its retries or its end, costs no grant and no receive.
        let ready = worker.backend.queue.may_have(queues, now).await?;
        worker.outages.succeeded(NOT_LOOKED);
        self.looks_failed = 0;
        let mut wait = limits::IDLE_WAIT;
        for (run, may_have) in candidates.into_iter().zip(ready) {
            if !may_have {
                self.look_for_the_end(run);
                continue;
            }
            let Some(known) = self.runs.get_mut(run) else { continue };
            let plan: &mut Plan = plans.entry(run).or_default();
            let free = of_callers.get(&known.context.job.caller).copied().unwrap_or(0);
            let most = known.context.backoff().lock().most(free, 1);
            let has = room_of(&self.shared, known, most, now).saturating_sub(plan.parked + plan.asked);
            if lingers(&self.shared, known, has) {
                wait = wait.min(limits::RECEIVE_LINGER);
            } else {
                plan.fresh = has;
            }
        }
        let room = plans.iter().map(|(run, plan)| (*run, plan.parked.saturating_add(plan.fresh))).collect();
        let of_caller = |caller| of_callers.get(&caller).copied().unwrap_or(0);
        for (run, messages) in self.runs.turns.share_out(free, limits::TURN_MESSAGES, &room, of_caller) {
            let fresh = plans.get(&run).map_or(0, |plan| plan.fresh);
            let started = self.start_parked(run, messages as usize);
            let received = self.receive(run, (messages as usize).saturating_sub(started).min(fresh as usize));
            if started + received > 0 {
                self.probe(run);
            }
        }
        Ok(wait)
    }

    /// If store or queue failed before, what was just begun finds out whether that is over.
    fn probe(&mut self, run: RunId) {
        self.shared.backoff.lock().probe(limits::STORE_FAILURES_MAX);
        if let Some(known) = self.runs.get_mut(run) {
            known.context.backoff().lock().probe(1);
        }
    }

    /// Starts messages of a run that wait here. Returns how many.
    fn start_parked(&mut self, run: RunId, most: usize) -> usize {
        let Some(known) = self.runs.get_mut(run) else { return 0 };
        let (shared, now) = (&self.shared, self.shared.worker.clock.now());
        let (slots, caller) = (&self.slots, known.context.job.caller);
        let Some(share) = shared.budgets.find(&known.context.scope()) else { return 0 };
        let parked = shared.parking.take(&known.context, most, now, || {
            let slot = slots.take(caller)?;
            Some((slot, share.take(now)?))
        });
        let started = parked.len();
        if started > 0 {
            known.worked = true;
            let batch = Batch { shared: shared.clone(), run: known.context.clone() };
            shared.tasks.spawn(batch.resume(parked));
        }
        started
    }

    /// Receives up to so many messages of a run. Returns how many it has room for.
    fn receive(&mut self, run: RunId, messages: usize) -> usize {
        let Some(known) = self.runs.get_mut(run) else { return 0 };
        let shared = &self.shared;
        let (most, now) = (shared.worker.backend.capabilities.receive_max, shared.worker.clock.now());
        let mut rooms: Vec<Room> = Vec::with_capacity(messages);
        for _ in 0..messages {
            let Some(room) = take_room(shared, &self.slots, known, now) else { break };
            rooms.push(room);
        }
        let count = rooms.len();
        while !rooms.is_empty() {
            let rest = rooms.split_off(rooms.len().min(most));
            known.receives.begin();
            self.receives += 1;
            self.handed_out = Some(Instant::now());
            let batch = Batch { shared: shared.clone(), run: known.context.clone() };
            shared.tasks.spawn(batch.receive(std::mem::replace(&mut rooms, rest)));
        }
        count
    }

    fn look_for_the_end(&mut self, run: RunId) {
        let Some(known) = self.runs.get_mut(run) else { return };
        // Worth a look once after it was worked on, and when a look around found it drained.
        let done = known.receives.under_way() == 0 && !known.context.holds_any();
        let early = known.end_not_before.is_some_and(|at| at > Instant::now());
        if !done || early || !(known.worked || known.drained) {
            return;
        }
        (known.worked, known.drained) = (false, false);
        let batch = Batch { shared: self.shared.clone(), run: known.context.clone() };
        self.shared.tasks.spawn(batch.look_for_the_end());
    }
}
