//! Settles in groups: bodies durable, then rows and counts in one step, then the messages (SPEC 6.4, 8.7).

use crate::Worker;
use crate::breaker;
use crate::context::RunContext;
use crate::execute::End;
use crate::flight::{FlightId, Flights};
use crate::outage;
use crate::pack::{self, Author, Body, ObjectNumbers, Plan};
use crate::parked::{Parking, Ticket};
use crate::slot::Slot;
use crate::unused;
use crate::waiting::{TurnNews, Waiting};
use conveyor_domain::export::result_index::Label;
use conveyor_domain::{Outcome, ResultRef, Spend, TaskId, Timestamp, checksum};
use conveyor_store::port::{ClaimedTask, RunKey, Settle, SettleGroup, Settled};
use conveyor_store::{Error, Result};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const NOT_RETURNED: &str = "messages could not be returned to their queue";

/// A task whose gateway call is over. Dropping it frees its slot.
#[derive(Debug)]
pub struct Finished {
    pub run: Arc<RunContext>,
    pub flight: FlightId,
    pub task: ClaimedTask,
    pub end: End,
    /// What the call cost.
    pub spend: Spend,
    #[expect(dead_code, reason = "held until the task is settled, so that slots bound what is in memory")]
    pub slot: Slot,
}

/// Messages that this worker holds: of tasks in flight, and of those that wait for their domain.
#[derive(Clone, Debug)]
pub struct Held {
    pub flights: Arc<Flights>,
    pub parking: Arc<Parking>,
}

/// Gathers what is finished while earlier groups are being written, and writes it run by run.
pub async fn settle_loop(
    worker: Arc<Worker>,
    held: Held,
    mut finished: mpsc::Receiver<Finished>,
    give_up: CancellationToken,
) {
    let numbers = Arc::new(ObjectNumbers::default());
    let groups = TaskTracker::new();
    let (news, mut turns) = mpsc::unbounded_channel();
    let mut waiting = Waiting::new(worker.backend.capabilities.settles_at_once);
    let (mut batch, mut more) = (Vec::new(), true);
    while more || !waiting.is_empty() {
        tokio::select! {
            received = finished.recv_many(&mut batch, worker.config.slots as usize), if more => {
                more = received > 0;
                waiting.add(std::mem::take(&mut batch));
            }
            Some(turn) = turns.recv() => waiting.turn(turn),
        }
        while let Some(group) = waiting.next() {
            let turn = Turn { run: group.run.key, news: news.clone() };
            let (worker, held, numbers, give_up) =
                (worker.clone(), held.clone(), numbers.clone(), give_up.clone());
            groups.spawn(async move {
                tokio::select! {
                    () = write_group(&worker, held, &numbers, group.tasks, turn) => {}
                    // What was not written comes back: the rows are claimed again after the restart.
                    () = give_up.cancelled() => {}
                }
            });
        }
    }
    groups.close();
    groups.wait().await;
}

/// A group's turn at the store, over when it is dropped.
struct Turn {
    run: RunKey,
    news: mpsc::UnboundedSender<TurnNews>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let _ = self.news.send(TurnNews::Over(self.run));
    }
}

/// A turn whose writing failed. Until it tries again, groups of other runs have its place: a run that is throttled must not
/// keep them from settling.
struct BackingOff<'a>(&'a Turn);

impl<'a> BackingOff<'a> {
    fn of(turn: &'a Turn) -> BackingOff<'a> {
        let _ = turn.news.send(TurnNews::BacksOff);
        BackingOff(turn)
    }
}

impl Drop for BackingOff<'_> {
    fn drop(&mut self) {
        let _ = self.0.news.send(TurnNews::TriesAgain);
    }
}

async fn write_group(worker: &Worker, held: Held, numbers: &ObjectNumbers, group: Vec<Finished>, turn: Turn) {
    let Some(run) = group.first().map(|f| f.run.clone()) else { return };
    let landed =
        Landed { all: &held.flights, run: run.clone(), flights: group.iter().map(|f| f.flight).collect() };
    let bodies: Vec<Option<Body>> = group.iter().map(body_of).collect();
    let plan = pack::plan(Author { worker: worker.id, run: run.key, numbers }, &bodies);
    for object in &plan.objects {
        // Whatever is wrong: a task must not be called successful before its body is safe.
        let put = || worker.backend.blobs.put(&object.key, object.bytes.clone());
        repeat(worker, "a result could not be stored", &turn, put, |_| true).await;
    }
    let stored = bodies.iter().zip(&plan.places);
    let settles: Vec<Settle> = group
        .iter()
        .zip(stored)
        .map(|(f, (body, place))| settle_of(f, body.as_ref().map(|body| result_of(body, &plan, *place))))
        .collect();
    let settle = || {
        let group = SettleGroup { key: run.key, worker: worker.id, settles: settles.clone() };
        worker.backend.store.settle(group, worker.clock.now())
    };
    let may_pass =
        |error: &Error| matches!(error, Error::Full(_) | Error::Unavailable(_) | Error::Missing(_));
    // Otherwise they are not acknowledged: the messages come back, and with them another chance.
    let answers = repeat(worker, "tasks could not be settled", &turn, settle, may_pass).await;
    // The next group of the run need not wait for the messages of this one.
    drop(turn);
    if let Some(answers) = answers {
        report(&settles, &answers);
        if settles.iter().zip(&answers).any(|(settle, answer)| is_failure(settle, *answer)) {
            run.breaker().suspect();
        }
        drop_unused_objects(worker, run.key, &plan, &settles, &answers).await;
        let back = settles.iter().zip(group).map(|(settle, f)| back(settle, f.end)).collect();
        give_messages_back(worker, &held, &run, back, &answers, &landed.flights).await;
        breaker::look(worker, &run).await;
    }
}

fn is_failure(settle: &Settle, answer: Settled) -> bool {
    answer == Settled::Applied && matches!(settle.outcome, Outcome::Failed { .. })
}

/// However the writing of a group ends, even in a panic: its messages are no longer kept hidden, and the run no longer
/// waits for them.
struct Landed<'a> {
    all: &'a Flights,
    run: Arc<RunContext>,
    flights: Vec<FlightId>,
}

impl Drop for Landed<'_> {
    fn drop(&mut self) {
        self.flights.iter().for_each(|flight| drop(self.all.take(*flight)));
        self.run.let_go(u32::try_from(self.flights.len()).unwrap_or(u32::MAX));
    }
}

fn body_of(finished: &Finished) -> Option<Body> {
    let (task, attempt) = (finished.task.task, finished.task.attempt);
    match &finished.end {
        End::Success { body, format, http_status } => {
            let crc32 = Some(checksum::hash(body));
            let label = Label { task, attempt, http_status: *http_status, format: *format, crc32 };
            Some(Body { label, bytes: body.clone() })
        }
        End::Settled(_) | End::Bounced(_) | End::Parked(_) => None,
    }
}

fn result_of(body: &Body, plan: &Plan, place: pack::Place) -> ResultRef {
    let Label { format, http_status, crc32, .. } = body.label;
    let Some((object, offset)) = place else { return ResultRef::empty(format, http_status) };
    let object = &plan.objects[object];
    ResultRef {
        object: Some(object.key.to_string()),
        whole: object.whole,
        offset,
        length: body.bytes.len() as u64,
        format,
        http_status,
        crc32,
    }
}

fn settle_of(finished: &Finished, result: Option<ResultRef>) -> Settle {
    let outcome = match (&finished.end, result) {
        (End::Settled(outcome), _) => outcome.clone(),
        (End::Success { .. }, Some(result)) => Outcome::Successful(result),
        (End::Bounced(_) | End::Parked(_) | End::Success { .. }, _) => Outcome::Release,
    };
    Settle { spend: finished.spend, ..Settle::new(&finished.task, outcome) }
}

fn report(settles: &[Settle], answers: &[Settled]) {
    for (settle, answer) in settles.iter().zip(answers) {
        let (outcome, class) = match (&settle.outcome, answer) {
            (_, Settled::Lost) => ("lost", ""),
            (_, Settled::Already) => ("repeated", ""),
            (Outcome::Successful(_), Settled::Applied) => ("successful", ""),
            (Outcome::Failed { class, .. }, Settled::Applied) => ("failed", class.as_str()),
            (Outcome::Retry { .. }, Settled::Applied) => ("retried", ""),
            (Outcome::Release, Settled::Applied) => ("released", ""),
        };
        metrics::counter!("conveyor_tasks_settled_total", "outcome" => outcome, "class" => class)
            .increment(1);
    }
}

/// Objects of which no entry won: the task was taken over, its job deleted, or its row made anew.
async fn drop_unused_objects(
    worker: &Worker,
    key: RunKey,
    plan: &Plan,
    settles: &[Settle],
    answers: &[Settled],
) {
    for (number, object) in plan.objects.iter().enumerate() {
        let places = plan.places.iter().zip(settles.iter().zip(answers));
        let (tasks, answers): (Vec<TaskId>, Vec<Settled>) = places
            .filter(|(place, _)| place.is_some_and(|(of, _)| of == number))
            .map(|(_, (settle, answer))| (settle.task, *answer))
            .unzip();
        if answers.iter().all(|answer| *answer == Settled::Lost) {
            unused::drop_if_nobodys(&worker.backend, key, &object.key, &tasks).await;
        }
    }
}

/// When a settled task's message is to be there again.
enum Back {
    Never,
    At(Timestamp),
    After(Duration),
    /// It stays hidden, and waits here.
    Park(Ticket),
}

fn back(settle: &Settle, end: End) -> Back {
    match (&settle.outcome, end) {
        (Outcome::Successful(_) | Outcome::Failed { .. }, _) => Back::Never,
        (Outcome::Retry { not_before, .. }, _) => Back::At(*not_before),
        (Outcome::Release, End::Bounced(delay)) => Back::After(delay),
        (Outcome::Release, End::Parked(ticket)) => Back::Park(ticket),
        (Outcome::Release, _) => Back::After(Duration::ZERO),
    }
}

/// After the commit: a crash in between redelivers, and the claim then finds the row as it is.
async fn give_messages_back(
    worker: &Worker,
    held: &Held,
    run: &Arc<RunContext>,
    backs: Vec<Back>,
    answers: &[Settled],
    ids: &[FlightId],
) {
    let flights = &held.flights;
    let _fixed = flights.receipts_fixed.read().await;
    let now = worker.clock.now();
    let (mut done, mut later) = (Vec::new(), Vec::new());
    for ((back, answer), id) in backs.into_iter().zip(answers).zip(ids) {
        let Some(receipt) = flights.take(*id) else { continue };
        match (back, answer) {
            // Not ours any more, and perhaps nobody's: whoever superseded us may hold only an older receipt. It comes back by itself.
            (_, Settled::Lost) => {}
            (Back::Never, _) => done.push(receipt),
            (Back::At(due), _) => later.push((receipt, now.until(due))),
            (Back::After(delay), _) => later.push((receipt, delay)),
            (Back::Park(ticket), _) => held.parking.park(worker, run, ticket, receipt),
        }
    }
    let queue = &worker.backend.queue;
    let acked = if done.is_empty() { Ok(()) } else { queue.ack(run.queue, done).await };
    let released = if later.is_empty() { Ok(()) } else { queue.release(run.queue, later, now).await };
    match acked.and(released) {
        Ok(()) => worker.outages.succeeded(NOT_RETURNED),
        // They become visible by themselves, and their claims then answer what to do with them.
        Err(error) => worker.outages.failed(NOT_RETURNED, &error),
    }
}

/// Repeats a step, which must be safe to repeat, for as long as its error may pass. `None` if it will not.
async fn repeat<T, F: Future<Output = Result<T>>>(
    worker: &Worker,
    what: &'static str,
    turn: &Turn,
    step: impl Fn() -> F,
    may_pass: impl Fn(&Error) -> bool,
) -> Option<T> {
    let mut failures = 0;
    loop {
        match step().await {
            Ok(value) => {
                worker.outages.succeeded(what);
                return Some(value);
            }
            Err(error) if may_pass(&error) => {
                failures += 1;
                worker.outages.failed(what, &error);
                let _place = BackingOff::of(turn);
                tokio::time::sleep(outage::PAUSE.jittered(failures, &worker.entropy)).await;
            }
            Err(error) => {
                tracing::error!(%error, "{what}");
                return None;
            }
        }
    }
}
