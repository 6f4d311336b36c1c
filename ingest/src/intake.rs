//! Which lists are read next (SPEC 6.11). Callers share the places of a process by a dynamic threshold, and short lists have
//! places of their own. Messages that find no place are passed over: sent again behind the others, so that waiting is not
//! counted as a failed receive.

use crate::Ingester;
use conveyor_domain::{CallerId, IngestRef, IngestState, Origin, QueueName, RunId, limits};
use conveyor_store::Error;
use conveyor_store::port::{Delivery, Ingest, Reader, RunKey};
use conveyor_turns::{Lanes, Line, Places, Size};
use futures::{StreamExt, stream};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

const READS_INFLIGHT: usize = 16;
/// For each list that one caller may have open: places for lists that were tried before, as many as the two lanes have.
const TRIED: usize = 4;
/// Callers whose last turn is remembered.
const SERVED_MAX: usize = 10_000;

/// A place that is taken. Messages that need none have none.
#[derive(Debug)]
pub struct Ticket(Option<(RunId, CallerId, Place)>);

#[derive(Clone, Copy, Debug)]
enum Place {
    Lane(Size),
    Tried,
}

#[derive(Debug)]
pub struct Intake {
    lanes: Lanes,
    /// Lists that were received before do not wait in line, and take nothing from those that do.
    tried: Places,
    /// Lists that are open, each with the latest other message for it: next once the list is no longer open here.
    open: HashMap<RunId, Option<Delivery>>,
    /// Messages that were received while their list was open, and it no longer is.
    next: Vec<Delivery>,
    /// When each caller was served last, as a count of lists that were opened.
    served: HashMap<CallerId, u64>,
    opened: u64,
    pass: Pass,
}

/// The pass over the queue that is under way.
#[derive(Debug, Default)]
struct Pass {
    looks: u32,
    /// Lists that it has passed over.
    over: HashSet<RunId>,
}

/// What is to be done with a message.
#[derive(Debug)]
enum Sorted {
    /// A list that wants a place.
    List(CallerId, Size, Delivery),
    /// Takes no place: the list is read or gone, or its message cannot be understood.
    Direct(Delivery),
    /// It cannot be told whose it is at the moment.
    Unknown(Delivery),
}

/// What a look came to.
#[derive(Debug, Default)]
pub struct Looked {
    pub begin: Vec<(Ticket, Delivery)>,
    /// Some messages found no place.
    pub passed_over: bool,
    /// Others behind them may find one: worth another look at once.
    pub again: bool,
}

impl Intake {
    pub fn new(ingests_max: u32) -> Intake {
        Intake {
            lanes: Lanes::new(ingests_max),
            tried: Places::new(TRIED * ingests_max.max(1) as usize),
            open: HashMap::new(),
            next: Vec::new(),
            served: HashMap::new(),
            opened: 0,
            pass: Pass::default(),
        }
    }

    pub fn is_full(&self) -> bool {
        self.lanes.is_full()
    }

    /// Takes messages from the queue, chooses those to begin with, and sends the others back.
    pub async fn look(&mut self, ingester: &Ingester) -> Looked {
        let mut deliveries = receive(ingester).await;
        let is_new = |delivery| run_of(delivery).is_some_and(|run| !self.pass.over.contains(&run));
        let more = deliveries.len() >= limits::INGEST_LOOK_MAX && deliveries.iter().any(is_new);
        deliveries.splice(..0, self.next.drain(..));
        let sorting = stream::iter(deliveries).map(|delivery| sort(ingester, delivery));
        let sorted: Vec<Sorted> = sorting.buffered(READS_INFLIGHT).collect().await;
        let (mut looked, mut passed_over, mut lists) = (Looked::default(), Vec::new(), Vec::new());
        let mut known = true;
        for sorted in sorted {
            match sorted {
                Sorted::Direct(delivery) => looked.begin.push((Ticket(None), delivery)),
                Sorted::Unknown(delivery) => {
                    known = false;
                    passed_over.push(delivery);
                }
                Sorted::List(caller, lane, delivery) => lists.push((caller, lane, delivery)),
            }
        }
        // Who was served longest ago is first in line; the order of messages decides among equals.
        lists.sort_by_key(|(caller, ..)| self.served.get(caller).copied());
        let mut line = Line::default();
        for (caller, lane, delivery) in lists {
            let Some(run) = run_of(&delivery) else { continue };
            let Some(delivery) = self.unless_open(run, delivery) else { continue };
            // It was received before, and nobody knows how that ended. Sent again it would have all its tries.
            if delivery.receives > 1 && self.tried.has_room_for(caller) {
                looked.begin.push((self.take(run, caller, Place::Tried), delivery));
            } else {
                line.push(caller, lane, (run, delivery));
            }
        }
        while let Some((caller, lane, (run, delivery))) =
            line.take(|caller, lane| self.lanes.place(caller, *lane).is_some())
        {
            let Some(lane) = self.lanes.place(caller, lane) else { continue };
            // It may be the second message of a list that was opened a moment ago.
            let Some(delivery) = self.unless_open(run, delivery) else { continue };
            looked.begin.push((self.take(run, caller, Place::Lane(lane)), delivery));
        }
        passed_over.extend(std::iter::from_fn(|| line.take(|_, _| true)).map(|(.., (_, delivery))| delivery));
        looked.passed_over = !passed_over.is_empty();
        self.pass.looks += 1;
        self.pass.over.extend(passed_over.iter().filter_map(run_of));
        let opened = looked.begin.iter().any(|(ticket, _)| ticket.0.is_some());
        let passed = pass_over(ingester, passed_over).await;
        looked.again = more && known && passed && !opened && self.pass.looks < limits::INGEST_PASS_LOOKS_MAX;
        if !looked.again {
            self.pass = Pass::default();
        }
        looked
    }

    /// Gives a place back. What came meanwhile for the same list is next: it may be the message that the list was open
    /// under, given back and received again before the place was, and each of its receives has to be a try.
    pub fn leave(&mut self, ticket: Ticket) {
        let Some((run, caller, place)) = ticket.0 else { return };
        match place {
            Place::Lane(lane) => self.lanes.leave(caller, lane),
            Place::Tried => self.tried.leave(caller),
        }
        self.next.extend(self.open.remove(&run).flatten());
    }

    /// Gives back what would be next, if there is no look soon: hidden until its visibility ends, a message that replaces
    /// one would cost the list a minute.
    pub async fn give_back(&mut self, ingester: &Ingester) {
        if self.next.is_empty() {
            return;
        }
        let (queue, now) = (&ingester.backend.queue, ingester.clock.now());
        let receipts = self.next.drain(..).map(|delivery| (delivery.receipt, Duration::ZERO)).collect();
        if let Err(error) = queue.release(QueueName::Control, receipts, now).await {
            tracing::warn!(%error, "control messages were not given back; they come back");
        }
    }

    fn unless_open(&mut self, run: RunId, delivery: Delivery) -> Option<Delivery> {
        match self.open.get_mut(&run) {
            None => Some(delivery),
            Some(behind) => {
                *behind = Some(delivery);
                None
            }
        }
    }

    fn take(&mut self, run: RunId, caller: CallerId, place: Place) -> Ticket {
        self.open.insert(run, None);
        match place {
            Place::Lane(lane) => self.lanes.take(caller, lane),
            Place::Tried => self.tried.take(caller),
        }
        self.opened += 1;
        if self.served.len() >= SERVED_MAX {
            self.served.clear();
        }
        self.served.insert(caller, self.opened);
        Ticket(Some((run, caller, place)))
    }
}

fn run_of(delivery: &Delivery) -> Option<RunId> {
    delivery.body.parse::<IngestRef>().ok().map(|message| message.run)
}

async fn receive(ingester: &Ingester) -> Vec<Delivery> {
    let (queue, most) = (&ingester.backend.queue, ingester.backend.capabilities.receive_max);
    let mut received = Vec::new();
    while received.len() < limits::INGEST_LOOK_MAX {
        let (max, visibility) =
            (most.min(limits::INGEST_LOOK_MAX - received.len()), ingester.config.visibility);
        match queue.receive(QueueName::Control, max, visibility, ingester.clock.now()).await {
            Ok(some) if some.is_empty() => break,
            Ok(some) => received.extend(some),
            Err(error) => {
                tracing::warn!(%error, "the control queue does not answer");
                break;
            }
        }
    }
    received
}

async fn sort(ingester: &Ingester, delivery: Delivery) -> Sorted {
    let Ok(message) = delivery.body.parse::<IngestRef>() else { return Sorted::Direct(delivery) };
    let key = RunKey { job: message.job, run: message.run };
    let Ingest { job, log, .. } = match ingester.backend.store.ingest(key, Reader::Role).await {
        Ok(Some(ingest)) => ingest,
        Ok(None) | Err(Error::Corrupt(_)) => return Sorted::Direct(delivery),
        Err(_) => return Sorted::Unknown(delivery),
    };
    let Ok(state) = IngestState::fold(&log) else { return Sorted::Direct(delivery) };
    if state.phase.is_over() || delivery.receives > 1 && state.progress > message.progress {
        return Sorted::Direct(delivery);
    }
    let is_small = match &state.origin {
        Origin::List(source) => source.staged.size <= ingester.config.small_max_bytes,
        Origin::Run(earlier) => match ingester.backend.store.run(message.job, earlier.run).await {
            Ok(earlier) => earlier.is_none_or(|view| view.run.total <= limits::INGEST_SMALL_MAX_TASKS),
            Err(_) => return Sorted::Unknown(delivery),
        },
    };
    Sorted::List(job.caller, if is_small { Size::Small } else { Size::Large }, delivery)
}

/// First the new ones: a crash between the two leaves one too many, never none. False if the queue failed.
async fn pass_over(ingester: &Ingester, deliveries: Vec<Delivery>) -> bool {
    if deliveries.is_empty() {
        return true;
    }
    let (queue, now) = (&ingester.backend.queue, ingester.clock.now());
    let (bodies, receipts) = deliveries.into_iter().map(|delivery| (delivery.body, delivery.receipt)).unzip();
    let sent = match queue.send(QueueName::Control, bodies, now).await {
        Ok(()) => queue.ack(QueueName::Control, receipts).await,
        Err(error) => Err(error),
    };
    if let Err(error) = &sent {
        tracing::warn!(%error, "control messages were not passed over; they come back");
    }
    sent.is_ok()
}

#[cfg(test)]
#[path = "intake_tests.rs"]
mod tests;
