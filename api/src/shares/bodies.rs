//! Room in memory for request bodies (SPEC 6.27). A body waits for its caller's own part first, by what it announces, and
//! takes room of all as its bytes arrive. When that is used up, the caller that holds most in arriving bodies loses its
//! youngest one, so bodies never wait for each other.

use super::{BodyDeadlines, Shares};
use crate::incoming::Incoming;
use crate::problem::{ApiError, Code, Result};
use crate::request_rates::Who;
use bytes::Bytes;
use conveyor_domain::{CallerId, limits};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
pub(crate) struct Bodies {
    part_max: usize,
    deadlines: BodyDeadlines,
    inner: Mutex<Inner>,
    freed: Notify,
}

#[derive(Debug)]
struct Inner {
    free: usize,
    next: u64,
    /// By age, the oldest first.
    held: BTreeMap<u64, Held>,
    /// The part of each caller that has a body, in KiB.
    parts: HashMap<Option<Who>, Arc<Semaphore>>,
}

#[derive(Debug)]
struct Held {
    who: Option<Who>,
    bytes: usize,
    /// It may ask for more, so that waiting for it could take for ever.
    arriving: bool,
    refused: CancellationToken,
}

impl Held {
    fn may_be_refused(&self) -> bool {
        self.arriving && !self.refused.is_cancelled()
    }
}

enum Step {
    Taken,
    /// Enough comes back by itself.
    Wait,
    Refused,
}

impl Default for Bodies {
    fn default() -> Bodies {
        let shares = Shares::default();
        Bodies::new(shares.bodies_max_bytes, shares.bodies_of_caller_max_bytes, shares.body)
    }
}

impl Bodies {
    pub fn new(max: usize, part_max: usize, deadlines: BodyDeadlines) -> Bodies {
        let inner = Inner { free: max, next: 0, held: BTreeMap::new(), parts: HashMap::new() };
        Bodies { part_max, deadlines, inner: Mutex::new(inner), freed: Notify::new() }
    }

    pub fn deadlines(&self) -> BodyDeadlines {
        self.deadlines
    }

    /// Until when a body that begins now has to be in memory.
    pub fn until(&self) -> Instant {
        Instant::now() + self.deadlines.timeout
    }

    /// Waits until so many bytes fit into the caller's own part. None is taken of the others' room yet.
    pub async fn enter(self: &Arc<Self>, who: Option<Who>, most: usize, until: Instant) -> Result<Room> {
        let part = self.part_of(who);
        let permit = part.clone().acquire_many_owned(kib(most.min(self.part_max)));
        let permit = tokio::time::timeout_at(until, permit).await;
        let permit = permit.map_err(|_| no_room())?.map_err(|e| ApiError::internal(e.to_string()))?;
        let refused = CancellationToken::new();
        let mut inner = self.lock();
        let number = inner.next;
        inner.next += 1;
        let held = Held { who, bytes: 0, arriving: true, refused: refused.clone() };
        inner.held.insert(number, held);
        drop(inner);
        Ok(Room { bodies: self.clone(), who, number, permit: Some(permit), refused })
    }

    fn part_of(&self, who: Option<Who>) -> Arc<Semaphore> {
        let part = || Arc::new(Semaphore::new(kib(self.part_max) as usize));
        self.lock().parts.entry(who).or_insert_with(part).clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// What the body holds becomes `bytes`, if there is room.
    fn grow(&mut self, number: u64, bytes: usize) -> Step {
        let Some(own) = self.held.get_mut(&number) else { return Step::Refused };
        let needed = bytes.saturating_sub(own.bytes);
        if needed <= self.free {
            self.free -= needed;
            own.bytes += needed;
            return Step::Taken;
        }
        let others = self.held.iter().filter(|(other, _)| **other != number);
        let mut coming: usize =
            others.filter(|(_, held)| !held.may_be_refused()).map(|(_, held)| held.bytes).sum();
        while needed > self.free + coming {
            match self.least_deserving() {
                Some((least, held)) if least != number => {
                    held.refused.cancel();
                    coming += held.bytes;
                }
                Some(_) | None => return Step::Refused,
            }
        }
        Step::Wait
    }

    /// The youngest arriving body of the caller that holds most in arriving bodies.
    fn least_deserving(&self) -> Option<(u64, &Held)> {
        let mut of_callers: HashMap<Option<Who>, usize> = HashMap::new();
        let arriving = || self.held.iter().filter(|(_, held)| held.may_be_refused());
        arriving().for_each(|(_, held)| *of_callers.entry(held.who).or_default() += held.bytes);
        let youngest_of = |who| arriving().rfind(|(_, held)| held.who == who);
        let (who, _) = of_callers
            .into_iter()
            .max_by_key(|(who, bytes)| (*bytes, youngest_of(*who).map(|(number, _)| *number)))?;
        youngest_of(who).map(|(number, held)| (*number, held))
    }
}

/// The room of one body, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    bodies: Arc<Bodies>,
    who: Option<Who>,
    number: u64,
    permit: Option<OwnedSemaphorePermit>,
    refused: CancellationToken,
}

impl Room {
    /// The next piece of a body, unless the body has to go. Room for it is taken by [`Room::grow_to`].
    pub async fn next(&self, body: &mut Incoming) -> Result<Option<Bytes>> {
        tokio::select! {
            biased;
            () = self.refused.cancelled() => Err(ApiError::overloaded()),
            piece = body.next() => piece,
        }
    }

    /// Takes room for so many bytes in all. A body that is larger than its caller's part takes all of that.
    pub async fn grow_to(&mut self, bytes: usize) -> Result<()> {
        let bytes = bytes.next_multiple_of(limits::BODY_STEP_BYTES).min(self.bodies.part_max);
        loop {
            let freed = self.bodies.freed.notified();
            tokio::pin!(freed);
            // From here on nothing that is given back is missed.
            freed.as_mut().enable();
            match self.bodies.lock().grow(self.number, bytes) {
                Step::Taken => return Ok(()),
                Step::Refused => return Err(ApiError::overloaded()),
                Step::Wait => {}
            }
            tokio::select! {
                () = freed => {}
                () = self.refused.cancelled() => return Err(ApiError::overloaded()),
            }
        }
    }

    /// Gives back what is more than so many bytes; the body still arrives.
    pub fn shrink_to(&mut self, bytes: usize) {
        self.become_smaller(bytes, usize::MAX, true);
    }

    /// The same of a body that has no more than `most` bytes in memory from now on.
    pub fn expect(&mut self, bytes: usize, most: usize) {
        self.become_smaller(bytes, most, true);
    }

    /// The body is read: it needs so many bytes, and no more.
    pub fn settle(&mut self, bytes: usize) {
        self.become_smaller(bytes, bytes, false);
    }

    fn become_smaller(&mut self, bytes: usize, most: usize, arriving: bool) {
        let mut inner = self.bodies.lock();
        let Some(held) = inner.held.get_mut(&self.number) else { return };
        held.arriving = arriving;
        let less = held.bytes.saturating_sub(bytes.next_multiple_of(limits::BODY_STEP_BYTES));
        held.bytes -= less;
        inner.free += less;
        drop(inner);
        if let Some(permit) = &mut self.permit {
            let more = permit.num_permits().saturating_sub(kib(most) as usize);
            drop(permit.split(more));
        }
        self.bodies.freed.notify_waiters();
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        drop(self.permit.take());
        let mut inner = self.bodies.lock();
        if let Some(held) = inner.held.remove(&self.number) {
            inner.free += held.bytes;
        }
        if inner.parts.get(&self.who).is_some_and(|part| Arc::strong_count(part) == 1) {
            inner.parts.remove(&self.who);
        }
        drop(inner);
        self.bodies.freed.notify_waiters();
    }
}

/// Room for what is not a body and takes as much memory, in one step. It waits no longer than a body does.
pub(crate) async fn room_within(bytes: u64, caller: CallerId, bodies: &Arc<Bodies>) -> Result<Room> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let until = bodies.until();
    let mut room = bodies.enter(Some(Who::Caller(caller)), bytes, until).await?;
    let grown = tokio::time::timeout_at(until, room.grow_to(bytes)).await;
    grown.map_err(|_| ApiError::overloaded())??;
    room.settle(bytes);
    Ok(room)
}

fn no_room() -> ApiError {
    let detail =
        "The caller's other bodies take all the memory that it may have; wait for one of them to end.";
    ApiError::new(Code::TooManyBytes, detail)
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(limits::KIB).max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    const STEP: usize = limits::BODY_STEP_BYTES;

    fn caller(n: u8) -> Option<Who> {
        Some(Who::Caller(CallerId::from_bytes([n; 16])))
    }

    /// Room for eight steps, four of a caller.
    fn bodies() -> Arc<Bodies> {
        Arc::new(Bodies::new(8 * STEP, 4 * STEP, BodyDeadlines::default()))
    }

    async fn arriving(bodies: &Arc<Bodies>, n: u8, steps: usize) -> Room {
        let mut room = bodies.enter(caller(n), steps * STEP, bodies.until()).await.unwrap();
        room.grow_to(steps * STEP).now_or_never().expect("room at once").unwrap();
        room
    }

    fn free(bodies: &Bodies) -> usize {
        bodies.lock().free / STEP
    }

    #[tokio::test]
    async fn what_is_announced_costs_others_nothing() {
        let bodies = bodies();
        let announced = bodies.enter(caller(1), 4 * STEP, bodies.until()).await.unwrap();
        assert!(
            bodies.enter(caller(1), 1, bodies.until()).now_or_never().is_none(),
            "the caller's own part is full"
        );
        assert_eq!(free(&bodies), 8);
        arriving(&bodies, 2, 4).await;
        drop(announced);
        assert!(bodies.lock().parts.is_empty());
        assert!(bodies.enter(caller(1), 1, bodies.until()).now_or_never().is_some());
    }

    #[tokio::test]
    async fn the_largest_caller_loses_its_youngest_body_and_a_small_one_none() {
        let bodies = bodies();
        let old = arriving(&bodies, 1, 2).await;
        let young = arriving(&bodies, 1, 2).await;
        let other = arriving(&bodies, 2, 3).await;
        let mut small = arriving(&bodies, 3, 1).await;
        let mut more = Box::pin(small.grow_to(2 * STEP));
        assert!(more.as_mut().now_or_never().is_none(), "it waits for what was refused to end");
        assert!(young.refused.is_cancelled() && !old.refused.is_cancelled() && !other.refused.is_cancelled());
        drop(young);
        more.await.unwrap();
        assert_eq!(free(&bodies), 1);
    }

    #[tokio::test]
    async fn the_largest_that_asks_for_more_is_refused_itself_and_nobody_waits_for_ever() {
        let bodies = bodies();
        let mut first = bodies.enter(caller(1), 4 * STEP, bodies.until()).await.unwrap();
        first.grow_to(3 * STEP).await.unwrap();
        let mut second = bodies.enter(caller(2), 4 * STEP, bodies.until()).await.unwrap();
        second.grow_to(3 * STEP).await.unwrap();
        let mut third = bodies.enter(caller(3), 4 * STEP, bodies.until()).await.unwrap();
        third.grow_to(2 * STEP).await.unwrap();
        // Each needs more than there is: of two that are as large, the younger goes.
        assert!(first.grow_to(4 * STEP).now_or_never().is_none());
        assert!(second.refused.is_cancelled());
        drop(second);
        first.grow_to(4 * STEP).now_or_never().unwrap().unwrap();
        third.grow_to(4 * STEP).now_or_never().unwrap().unwrap();
        let mut late = bodies.enter(caller(1), 1, bodies.until()).now_or_never();
        assert!(late.is_none());
        drop(first);
        late = bodies.enter(caller(1), 1, bodies.until()).now_or_never();
        assert!(late.is_some());
    }

    #[tokio::test]
    async fn what_is_read_already_is_waited_for() {
        let bodies = bodies();
        let mut done = [arriving(&bodies, 1, 4).await, arriving(&bodies, 2, 4).await];
        done.iter_mut().for_each(|room| room.settle(4 * STEP));
        let mut asking = bodies.enter(caller(3), STEP, bodies.until()).await.unwrap();
        let mut grown = Box::pin(asking.grow_to(STEP));
        assert!(grown.as_mut().now_or_never().is_none());
        done[0].settle(3 * STEP);
        grown.await.unwrap();
        assert!(done.iter().all(|room| !room.refused.is_cancelled()));
    }
}
