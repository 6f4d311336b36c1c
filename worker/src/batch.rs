//! Messages of one run on their way: received for the room that was taken for them, claimed, worked on, or given back.

use crate::Worker;
use crate::budgets::{Budgets, Use, Verdict};
use crate::context::RunContext;
use crate::dispatch::News;
use crate::execute::{self, End};
use crate::flight::Flights;
use crate::outage::SharedBackoff;
use crate::parked::{Parking, Ticket};
use crate::settle::Finished;
use crate::sites::{self, Ahead, Full, Needs};
use crate::slot::Slot;
use conveyor_domain::{ClaimToken, Clock, Command, Exponential, Rate, RunStatus, Spend, TaskRef, limits};
use conveyor_store::port::{Claim, ClaimedTask, Delivery, Receipt};
use conveyor_store::{Error, Result};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const NOT_RECEIVED: &str = "no message could be received";
const NOT_CLAIMED: &str = "tasks could not be claimed";
const NOT_RETURNED: &str = "messages could not be returned to their queue";
const END_UNKNOWN: &str = "it could not be found out whether a run is drained";
/// How long messages rest whose tasks could not be claimed.
pub const STORE_PAUSE: Duration = Duration::from_secs(1);

/// The room that one task needs.
#[derive(Debug)]
pub struct Room {
    pub slot: Slot,
    /// None only where the gate is off: then it is taken when the message is there.
    pub permit: Option<Use>,
    /// Of the sites that it will probably go to.
    pub sites: Vec<Use>,
}

/// A message with its room.
struct Start {
    delivery: Delivery,
    slot: Slot,
    permit: Use,
    sites: Vec<Use>,
}

/// What every batch of a worker shares.
#[derive(Clone, Debug)]
pub struct Shared {
    pub worker: Arc<Worker>,
    pub flights: Arc<Flights>,
    pub budgets: Arc<Budgets>,
    pub parking: Arc<Parking>,
    /// Of the worker as a whole: nothing that it claimed or received of late succeeded.
    pub backoff: Arc<SharedBackoff>,
    pub finished: mpsc::Sender<Finished>,
    pub news: mpsc::UnboundedSender<News>,
    pub tasks: TaskTracker,
    /// Nothing new is begun.
    pub stop: CancellationToken,
    /// What is under way is released.
    pub abort: CancellationToken,
}

#[derive(Clone, Debug)]
pub struct Batch {
    pub shared: Shared,
    pub run: Arc<RunContext>,
}

/// How long a message of a paused run is left alone: longer each time it comes.
const BOUNCE: Exponential = Exponential::new(limits::BOUNCE_MIN, limits::BOUNCE_MAX);

impl Batch {
    pub async fn receive(self, rooms: Vec<Room>) {
        let worker = &self.shared.worker;
        let (queue, now, began) = (&worker.backend.queue, worker.clock.now(), Instant::now());
        let received = queue.receive(self.run.queue, rooms.len(), worker.config.visibility, now).await;
        metrics::counter!("conveyor_receives_total").increment(1);
        let deliveries = match received {
            Ok(deliveries) => deliveries,
            Err(error) => {
                self.failed(NOT_RECEIVED, &error, began);
                return self.tell(News::Received { run: self.run.key.run, messages: None });
            }
        };
        worker.outages.succeeded(NOT_RECEIVED);
        metrics::counter!("conveyor_messages_received_total").increment(deliveries.len() as u64);
        // Held before anybody is told: a run that holds something is not at its end.
        self.run.hold(u32::try_from(deliveries.len()).unwrap_or(u32::MAX));
        self.tell(News::Received { run: self.run.key.run, messages: Some(deliveries.len()) });
        if deliveries.is_empty() {
            self.run.backoff().lock().passed(NOT_RECEIVED);
            self.shared.backoff.lock().passed(NOT_RECEIVED);
            return;
        }
        if self.shared.stop.is_cancelled() {
            let back = deliveries.into_iter().map(|delivery| (delivery.receipt, Duration::ZERO)).collect();
            return self.return_unstarted(Vec::new(), back).await;
        }
        let (starts, bounced) = self.with_permits(deliveries, rooms);
        self.return_unstarted(Vec::new(), bounced).await;
        self.claim_and_work(starts, true).await;
    }

    /// Starts messages that were parked.
    pub async fn resume(self, parked: Vec<(Delivery, Room)>) {
        let start =
            |(delivery, Room { slot, permit, sites })| Some(Start { delivery, slot, permit: permit?, sites });
        let starts = parked.into_iter().filter_map(start).collect();
        self.claim_and_work(starts, false).await;
    }

    /// A call of the store or the queue failed that began at this moment: the run backs off, and the worker if it is not
    /// the only one.
    fn failed(&self, what: &'static str, error: &Error, began: Instant) {
        let worker = &self.shared.worker;
        worker.outages.failed(what, error);
        self.run.backoff().lock().failed(what, began, &worker.entropy);
        self.shared.backoff.lock().failed_in(self.run.key.run, what, began, &worker.entropy);
    }

    /// Every message has its permit already, unless the gate is off.
    fn with_permits(
        &self,
        deliveries: Vec<Delivery>,
        rooms: Vec<Room>,
    ) -> (Vec<Start>, Vec<(Receipt, Duration)>) {
        let (mut starts, mut bounced) = (Vec::with_capacity(deliveries.len()), Vec::new());
        let now = self.shared.worker.clock.now();
        let share = self.shared.budgets.share(&self.run.scope(), self.run.job.spec.limits());
        for (delivery, Room { slot, permit, sites }) in deliveries.into_iter().zip(rooms) {
            match permit.or_else(|| share.take(now)) {
                Some(permit) => starts.push(Start { delivery, slot, permit, sites }),
                // Only without the gate, which is there to be compared with: soon, and not all at once.
                None => {
                    let soon = Duration::from_millis(200 + self.shared.worker.entropy.below(300));
                    bounced.push((delivery.receipt, soon));
                }
            }
        }
        metrics::counter!("conveyor_messages_bounced_total", "reason" => "capped")
            .increment(bounced.len() as u64);
        (starts, bounced)
    }

    /// `fresh` if they were just received; otherwise they were parked.
    async fn claim_and_work(&self, starts: Vec<Start>, fresh: bool) {
        let worker = &self.shared.worker;
        let began = Instant::now();
        let (mut refs, mut valid, mut done, mut later) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for start in starts {
            match start.delivery.body.parse::<TaskRef>() {
                Ok(task_ref) => {
                    refs.push((task_ref, ClaimToken::new(&worker.entropy)));
                    valid.push(start);
                }
                // Nobody will ever understand it better; the row, if there is one, is found by the sweeper.
                Err(_) => done.push(start.delivery.receipt),
            }
        }
        if refs.is_empty() {
            return self.return_unstarted(done, later).await;
        }
        let now = worker.clock.now();
        let claims = match worker.backend.store.claim(self.run.key, refs, worker.config.claims_max, now).await
        {
            Ok(claims) => {
                worker.outages.succeeded(NOT_CLAIMED);
                self.run.backoff().lock().succeeded();
                self.shared.backoff.lock().succeeded();
                claims
            }
            Err(error) => {
                self.failed(NOT_CLAIMED, &error, began);
                later.extend(valid.drain(..).map(|s| (s.delivery.receipt, STORE_PAUSE)));
                Vec::new()
            }
        };
        let (mut claimed, mut gone, mut paused) = (Vec::new(), false, false);
        for (start, claim) in valid.into_iter().zip(claims) {
            match claim {
                Claim::Claimed(task) if task.input.is_damaged() => self.begin(start, task, true),
                Claim::Claimed(task) => claimed.push((start, task)),
                Claim::Exhausted(task) => self.begin(start, task, true),
                Claim::Terminal => done.push(start.delivery.receipt),
                Claim::Gone => {
                    gone = true;
                    done.push(start.delivery.receipt);
                }
                Claim::Paused => {
                    paused = true;
                    later.push((start.delivery.receipt, BOUNCE.delay(start.delivery.receives)));
                }
                Claim::Early(due) => later.push((start.delivery.receipt, now.until(due))),
            }
        }
        if paused {
            self.tell(News::Paused(self.run.key.run));
        }
        self.return_unstarted(done, later).await;
        self.begin_admitted(claimed, fresh).await;
        if gone {
            self.look_whether_it_ended().await;
        }
    }

    /// Starts those whose domains have room; the others are released, burn no attempt, and are parked.
    async fn begin_admitted(&self, claimed: Vec<(Start, ClaimedTask)>, fresh: bool) {
        let worker = &self.shared.worker;
        if worker.config.domain_limits.is_empty() && self.run.job.spec.domain_limits.is_empty() {
            return claimed.into_iter().for_each(|(start, task)| self.begin(start, task, false));
        }
        let (mut tasks, mut needs) = (Vec::with_capacity(claimed.len()), Vec::with_capacity(claimed.len()));
        for (mut start, task) in claimed {
            needs.push(Needs::new(sites::of(worker, &self.run, &task), std::mem::take(&mut start.sites)));
            tasks.push((start, task));
        }
        let strict = self.run.job.spec.limits().rate.is_some_and(Rate::is_strict);
        let ahead = Ahead { parking: &self.shared.parking, fresh, call: self.run.usual_call(), strict };
        let admitted = sites::admit(worker, &self.shared.budgets, &ahead, &mut needs).await;
        if fresh {
            let count = u32::try_from(needs.len()).unwrap_or(u32::MAX);
            self.tell(News::Sites(self.run.key.run, sites::common(&needs), count));
        }
        for (((mut start, task), need), admitted) in tasks.into_iter().zip(needs).zip(admitted) {
            match admitted {
                Ok(()) => {
                    start.sites = need.uses;
                    self.begin(start, task, false);
                }
                Err(full) => self.put_off(start, task, need, &full).await,
            }
        }
    }

    /// A task whose domain has no room: its message waits here, or in its queue if too many wait here already.
    async fn put_off(&self, start: Start, task: ClaimedTask, need: Needs, full: &Full) {
        let Start { delivery, slot, permit, .. } = start;
        // Others may use what it had.
        drop((permit, need.uses));
        let flight = self.shared.flights.add(self.run.clone(), delivery.receipt);
        let end = if self.shared.stop.is_cancelled() {
            execute::released()
        } else if self.shared.parking.has_room(self.run.job.caller) {
            End::Parked(Ticket { sites: need.scopes, body: delivery.body, receives: delivery.receives })
        } else {
            metrics::counter!("conveyor_messages_bounced_total", "reason" => "domain").increment(1);
            let wait = self.shared.worker.clock.now().until(full.until);
            End::Bounced(wait.clamp(limits::BOUNCE_MIN, limits::BOUNCE_MAX))
        };
        let (run, spend) = (self.run.clone(), Spend::default());
        self.settle(Finished { run, flight, task, end, spend, slot }).await;
    }

    fn begin(&self, start: Start, task: ClaimedTask, exhausted: bool) {
        let Start { delivery, slot, mut permit, mut sites } = start;
        let Delivery { body, receipt, receives } = delivery;
        let flight = self.shared.flights.add(self.run.clone(), receipt);
        let batch = self.clone();
        self.shared.tasks.spawn(async move {
            let worker = &batch.shared.worker;
            let (end, spend) = if exhausted {
                (execute::abandoned(&task.input, worker.config.claims_max), Spend::default())
            } else {
                tokio::select! {
                    worked = batch.work(&task, &mut permit, &mut sites, (body, receives)) => worked,
                    () = batch.shared.abort.cancelled() => (execute::released(), Spend::default()),
                }
            };
            // The call is over: the job may start another while this one is being written.
            drop((permit, sites));
            batch.settle(Finished { run: batch.run.clone(), flight, task, end, spend, slot }).await;
        });
    }

    /// Waits for its moment, asks the gateway, and takes note of how that was. Returns what came of it, and what it cost.
    async fn work(
        &self,
        task: &ClaimedTask,
        permit: &mut Use,
        sites: &mut [Use],
        (body, receives): (String, u32),
    ) -> (End, Spend) {
        let worker = &self.shared.worker;
        let none = Spend::default();
        tokio::select! {
            biased;
            started = start(&*worker.clock, permit, sites) => if !started {
                return (self.wait_again(task, body, receives), none);
            },
            // Nobody asks for starts any more.
            () = self.shared.stop.cancelled() => return (execute::released(), none),
            // There was to be one soon, and there is none: another task can use the slot.
            () = tokio::time::sleep(limits::START_WAIT_MAX) => {
                return (self.wait_again(task, body, receives), none);
            }
        }
        let executed = execute::execute(worker, &self.run, task).await;
        self.run.note_call(executed.took);
        if let Some(pause) = executed.retry_after.filter(|_| executed.overloaded.is_some()) {
            for site in sites.iter() {
                site.share().hold(worker, pause).await;
            }
        }
        let overloaded = executed.overloaded.filter(|_| worker.gateway.is_shared());
        let (job, gateway, now) = (self.run.key.job, &worker.gateway, worker.clock.now());
        match permit.answered(overloaded.as_ref().map(|_| executed.retry_after), now) {
            Verdict::Nothing => {}
            Verdict::Recovered => tracing::info!(%job, ?gateway, "gateway answers again; backoff is over"),
            Verdict::BackOff(pause) => {
                metrics::counter!("conveyor_gateway_backoffs_total").increment(1);
                let error = overloaded.unwrap_or_default();
                tracing::warn!(%job, ?gateway, "gateway overloaded or unreachable ({error}); backing off for {pause:?}");
                permit.share().tell_hold(worker, now.after(pause)).await;
            }
        }
        (executed.end, executed.spend)
    }

    /// A task that did not find its moment.
    fn wait_again(&self, task: &ClaimedTask, body: String, receives: u32) -> End {
        if !self.shared.parking.has_room(self.run.job.caller) {
            return End::Bounced(limits::BOUNCE_MIN);
        }
        End::Parked(Ticket { sites: sites::of(&self.shared.worker, &self.run, task), body, receives })
    }

    async fn settle(&self, finished: Finished) {
        if self.shared.finished.send(finished).await.is_err() {
            tracing::error!("the settler ended before the work did");
        }
    }

    fn tell(&self, news: News) {
        // Nobody listens once the worker stops: then it does not matter.
        let _ = self.shared.news.send(news);
    }

    /// Not in flight yet, so nobody else touches their receipts.
    async fn return_unstarted(&self, done: Vec<Receipt>, later: Vec<(Receipt, Duration)>) {
        let unstarted = u32::try_from(done.len() + later.len()).unwrap_or(u32::MAX);
        let worker = &self.shared.worker;
        let (queue, now) = (&worker.backend.queue, worker.clock.now());
        let acked = if done.is_empty() { Ok(()) } else { queue.ack(self.run.queue, done).await };
        let released =
            if later.is_empty() { Ok(()) } else { queue.release(self.run.queue, later, now).await };
        match acked.and(released) {
            Ok(()) => worker.outages.succeeded(NOT_RETURNED),
            Err(error) => worker.outages.failed(NOT_RETURNED, &error),
        }
        self.run.let_go(unstarted);
    }

    /// A task that is not there may be the fault of its message; if its run is over, no other is worth receiving.
    async fn look_whether_it_ended(&self) {
        let found = self.shared.worker.backend.store.run(self.run.key.job, self.run.key.run).await;
        if found.is_ok_and(|view| view.is_none_or(|view| view.run.status != RunStatus::Running)) {
            self.tell(News::Gone(self.run.key.run));
        }
    }

    /// Nothing queued and nothing held: perhaps that was all (SPEC 6.5).
    pub async fn look_for_the_end(self) {
        match self.try_to_end().await {
            Ok(()) => self.shared.worker.outages.succeeded(END_UNKNOWN),
            Err(error) => {
                self.shared.worker.outages.failed(END_UNKNOWN, &error);
                self.tell(News::EndUnknown(self.run.key.run));
            }
        }
    }

    async fn try_to_end(&self) -> Result<()> {
        let (store, key) = (&self.shared.worker.backend.store, self.run.key);
        let view = store.run(key.job, key.run).await?;
        if !view.is_some_and(|view| view.run.is_drained(&view.stats.counts)) {
            return Ok(());
        }
        match store.apply(key.job, Command::Drained, self.shared.worker.clock.now()).await {
            Ok(view) => {
                let status = view.latest.map(|latest| latest.run.status);
                tracing::info!(job = %key.job, run = %key.run, status = status.map(RunStatus::as_str), "run drained");
                if status != Some(RunStatus::Running) {
                    self.tell(News::Gone(key.run));
                }
                Ok(())
            }
            // Tasks were added, or the job deleted, since the look above.
            Err(Error::Refused(_) | Error::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Waits until the task may start, by every budget that it draws on. False if their moments do not meet: those of two
/// strict rates stay as far apart as they are for as long as both are taken as early as possible.
async fn start(clock: &dyn Clock, permit: &mut Use, sites: &mut [Use]) -> bool {
    let strict = permit.share().is_strict() && sites.iter().any(|site| site.share().is_strict());
    loop {
        for site in sites.iter_mut() {
            site.start(clock).await;
        }
        permit.start(clock).await;
        // One moment may have passed while another was waited for.
        let late = sites.iter_mut().filter_map(|site| site.give_up_if_late().then_some(())).count();
        if !permit.give_up_if_late() && late == 0 {
            return true;
        }
        if strict {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_a_paused_run_is_left_alone_for_longer_each_time() {
        let seconds: Vec<u64> = (1..=9).map(|receives| BOUNCE.delay(receives).as_secs()).collect();
        assert_eq!(seconds, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
        assert_eq!(BOUNCE.delay(u32::MAX).as_secs(), 300);
    }
}
