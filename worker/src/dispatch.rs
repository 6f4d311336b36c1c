//! The loop: discover, be granted, receive what can start (SPEC 8). It decides; whatever has to wait for the store, the
//! queue or the coordinator goes on beside it and comes back as news.

use crate::Worker;
use crate::batch::{Batch, Room, STORE_PAUSE, Shared};
use crate::breaker;
use crate::budgets::{Budgets, Use};
use crate::flight::Flights;
use crate::news::News;
use crate::runs::{KnownRun, Runs};
use crate::settle;
use crate::slot::Slot;
use conveyor_domain::message::QueueName;
use conveyor_domain::{RunId, Timestamp, limits};
use conveyor_store::Result;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Works until `shutdown`, then lets what is in flight settle, releases the rest, and returns.
pub async fn run(worker: Worker, shutdown: CancellationToken) {
    let worker = Arc::new(worker);
    let flights = Arc::new(Flights::default());
    let (finished, to_settle) = mpsc::channel(worker.config.slots.max(1) as usize);
    let give_up = CancellationToken::new();
    let settling =
        tokio::spawn(settle::settle_loop(worker.clone(), flights.clone(), to_settle, give_up.clone()));
    let upkeep = tokio::spawn(keep_hidden(worker.clone(), flights.clone()));
    let freed = Arc::new(Notify::new());
    let (news, heard) = mpsc::unbounded_channel();
    let shared = Shared {
        worker: worker.clone(),
        flights: flights.clone(),
        budgets: Arc::new(Budgets::new(freed.clone())),
        finished,
        news,
        tasks: TaskTracker::new(),
        stop: shutdown.clone(),
        abort: CancellationToken::new(),
    };
    let (tasks, abort, budgets) = (shared.tasks.clone(), shared.abort.clone(), shared.budgets.clone());
    // Ends with the loop, and with it the flow of finished tasks, so that the settler can come to an end.
    Dispatcher::new(shared, freed, heard).work(&shutdown).await;

    tracing::info!(held = flights.count(), "worker stops receiving");
    tasks.close();
    let grace = worker.config.shutdown_grace;
    if tokio::time::timeout(grace, all_done(&worker, &tasks, &budgets)).await.is_err() {
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

async fn keep_hidden(worker: Arc<Worker>, flights: Arc<Flights>) {
    loop {
        tokio::time::sleep(limits::extend_every(worker.config.visibility)).await;
        if !flights.is_empty() {
            flights.extend_all(&worker).await;
        }
    }
}

struct Dispatcher {
    shared: Shared,
    slots: Arc<Semaphore>,
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
}

impl Dispatcher {
    fn new(shared: Shared, freed: Arc<Notify>, heard: mpsc::UnboundedReceiver<News>) -> Dispatcher {
        Dispatcher {
            slots: Arc::new(Semaphore::new(shared.worker.config.slots as usize)),
            changes: shared.worker.backend.queue.changes(),
            runs: Runs::default(),
            hint: true,
            receives: 0,
            handed_out: None,
            kept_up: None,
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
            let wait = match self.hand_out().await {
                Ok(wait) => wait,
                Err(error) => {
                    tracing::warn!(%error, "the queue does not answer; the worker waits");
                    STORE_PAUSE
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
            News::Found(Ok((look, found))) => self.runs.absorb(&self.shared.worker, look, found),
            News::Found(Err(error)) => {
                tracing::warn!(%error, "the store does not answer; the worker goes on with what it knows");
                self.runs.not_found();
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
        let free = u32::try_from(self.slots.available_permits()).unwrap_or(u32::MAX);
        if free == 0 {
            return Ok(limits::IDLE_WAIT);
        }
        let worker = self.shared.worker.clone();
        let (mut candidates, mut resting) = (Vec::new(), Vec::new());
        for (run, known) in self.runs.iter().filter(|(_, known)| !known.paused && !known.context.unusable) {
            match known.receives.are_due() && may_have_room(&self.shared, known) {
                true => candidates.push(run),
                false => resting.push(run),
            }
        }
        // They cost no call of the queue. That they have nothing left to do can be told without.
        resting.into_iter().for_each(|run| self.look_for_the_end(run));
        let queues = candidates.iter().map(|run| QueueName::Run(*run)).collect();
        // Looked at first: a run that only waits, for its retries or its end, costs no grant and no receive.
        let ready = worker.backend.queue.may_have(queues, worker.clock.now()).await?;
        let (mut room, mut wait) = (HashMap::new(), limits::IDLE_WAIT);
        for (run, may_have) in candidates.into_iter().zip(ready) {
            if !may_have {
                self.look_for_the_end(run);
                continue;
            }
            let Some(known) = self.runs.get_mut(run) else { continue };
            let has = room_of(&self.shared, known, free, worker.clock.now());
            if lingers(&self.shared, known, has) {
                wait = wait.min(limits::RECEIVE_LINGER);
            } else if has > 0 {
                room.insert(run, has);
            }
        }
        for (run, messages) in self.runs.turns.share_out(free, limits::TURN_MESSAGES, &room) {
            self.receive(run, messages as usize);
        }
        Ok(wait)
    }

    fn receive(&mut self, run: RunId, messages: usize) {
        let Some(known) = self.runs.get_mut(run) else { return };
        let shared = &self.shared;
        let (most, now) = (shared.worker.backend.queue.receive_max(), shared.worker.clock.now());
        let mut rooms: Vec<Room> = Vec::with_capacity(messages);
        for _ in 0..messages {
            let Some(room) = take_room(shared, &self.slots, &self.freed, known, now) else { break };
            rooms.push(room);
        }
        while !rooms.is_empty() {
            let rest = rooms.split_off(rooms.len().min(most));
            known.receives.begin();
            self.receives += 1;
            self.handed_out = Some(Instant::now());
            let batch = Batch { shared: shared.clone(), run: known.context.clone() };
            shared.tasks.spawn(batch.receive(std::mem::replace(&mut rooms, rest)));
        }
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

/// Whether a run has room, or could be granted some if it asked.
fn may_have_room(shared: &Shared, known: &KnownRun) -> bool {
    let Some(share) = shared.budgets.find(&known.context.scope()) else { return true };
    share.learn(known.context.job.spec.limits());
    share.may_have_room(shared.worker.config.slots, shared.worker.clock.now()) || !shared.worker.config.gate
}

/// How many messages of a run could start now; asks for more where there could be.
fn room_of(shared: &Shared, known: &mut KnownRun, free: u32, now: Timestamp) -> u32 {
    let run = &known.context;
    let share = shared.budgets.share(&run.scope(), run.job.spec.limits());
    // Not only for the slots that are free now: more will be by the time of the answer.
    share.want_more(&shared.worker, &shared.tasks, shared.worker.config.slots);
    if !shared.worker.config.gate {
        return free;
    }
    let room = share.room(now).min(free);
    if room == 0 || known.prediction.sites().is_empty() {
        return room;
    }
    let mut elsewhere = u32::MAX;
    for (scope, limits) in known.prediction.sites() {
        let site = shared.budgets.share(scope, *limits);
        site.want_more(&shared.worker, &shared.tasks, site.used().saturating_add(room));
        elsewhere = elsewhere.min(site.room(now));
    }
    if known.prediction.doubts(elsewhere > 0) { 1 } else { room.min(elsewhere) }
}

/// Whether a receive should wait for more room to bring more at once.
fn lingers(shared: &Shared, known: &KnownRun, room: u32) -> bool {
    let queue = &shared.worker.backend.queue;
    // Where a receive has its price however little it brings, calls that are over at once are worth waiting for.
    (1..queue.receive_batch()).contains(&(room as usize))
        && known.context.holds_any()
        && known.context.usual_call() < limits::RECEIVE_LINGER
        && !known.receives.waited_for_more()
}

fn take_room(
    shared: &Shared,
    slots: &Arc<Semaphore>,
    freed: &Arc<Notify>,
    known: &mut KnownRun,
    now: Timestamp,
) -> Option<Room> {
    let slot = Slot::new(slots.clone().try_acquire_owned().ok()?, freed.clone());
    if !shared.worker.config.gate {
        return Some(Room { slot, permit: None, sites: Vec::new() });
    }
    let permit = shared.budgets.find(&known.context.scope())?.take(now)?;
    let sites = known.prediction.sites().iter().map(|(scope, _)| shared.budgets.find(scope)?.take(now));
    // Another run may have taken what there was; a message that is only to try needs nothing.
    let sites = sites.collect::<Option<Vec<Use>>>();
    let sites = sites.or_else(|| known.prediction.is_tried().then(Vec::new))?;
    Some(Room { slot, permit: Some(permit), sites })
}
