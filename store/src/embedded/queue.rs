//! Queues in the same database (SPEC 7): a message's place in the tree is its receipt.

use super::latest::Latest;
use super::reader::Lane;
use super::{Embedded, jobs, records, spans};
use crate::port::{Delivery, Depth, Emptiness, Queue, Reader, Receipt, Result};
use async_trait::async_trait;
use conveyor_domain::{QueueName, Timestamp, limits};
use rusqlite::{Connection, OptionalExtension, params};
use std::time::Duration;

pub const RECEIVE_MAX: usize = 256;

fn find(connection: &Connection, queue: QueueName) -> Result<Option<i64>> {
    let mut statement = connection.prepare_cached("SELECT queue_key FROM queues WHERE name = ?1")?;
    Ok(statement.query_row([queue.to_string()], |row| row.get(0)).optional()?)
}

fn ensure(connection: &Connection, queue: QueueName) -> Result<i64> {
    if let Some(key) = find(connection, queue)? {
        return Ok(key);
    }
    connection
        .prepare_cached("INSERT INTO queues (name, next_seq) VALUES (?1, 1)")?
        .execute([queue.to_string()])?;
    Ok(connection.last_insert_rowid())
}

/// The numbers that new messages of a queue get.
pub struct Numbers {
    pub queue_key: i64,
    next: i64,
}

impl Numbers {
    /// Of a queue, which is made if need be; `None` if there is nothing to number.
    pub fn of(connection: &Connection, queue: QueueName, nothing: bool) -> Result<Option<Numbers>> {
        if nothing {
            return Ok(None);
        }
        let queue_key = ensure(connection, queue)?;
        Ok(Some(Numbers { queue_key, next: Numbers::read(connection, queue_key)? }))
    }

    fn read(connection: &Connection, queue_key: i64) -> Result<i64> {
        let mut statement = connection.prepare_cached("SELECT next_seq FROM queues WHERE queue_key = ?1")?;
        Ok(statement.query_row([queue_key], |row| row.get(0))?)
    }

    pub fn next(&mut self) -> i64 {
        self.next += 1;
        self.next - 1
    }

    /// Writes down which were given out.
    pub fn keep(&self, connection: &Connection) -> Result<()> {
        connection
            .prepare_cached("UPDATE queues SET next_seq = ?2 WHERE queue_key = ?1")?
            .execute([self.queue_key, self.next])?;
        Ok(())
    }
}

/// Adds messages. The caller is inside a transaction, perhaps one that also writes the rows they are about.
pub fn enqueue(
    connection: &Connection,
    queue: QueueName,
    bodies: impl Iterator<Item = String>,
    now: Timestamp,
) -> Result<()> {
    let mut bodies = bodies.peekable();
    // Nothing to send must not bring back the queue of a run that has ended.
    let Some(mut numbers) = Numbers::of(connection, queue, bodies.peek().is_none())? else { return Ok(()) };
    let mut insert = connection.prepare_cached(
        "INSERT INTO messages (queue_key, visible_ms, seq, receives, body) VALUES (?1, ?2, ?3, 0, ?4)",
    )?;
    for body in bodies {
        let number = numbers.next();
        insert.execute(params![numbers.queue_key, now.0, number, body])?;
    }
    numbers.keep(connection)
}

/// Where a message stands, and how often it was received: a message can come back to a place that it had before.
#[derive(Clone, Copy)]
pub struct Place {
    pub visible_ms: i64,
    pub seq: i64,
    pub receives: u32,
}

impl Place {
    pub fn receipt(self) -> Receipt {
        Receipt(format!("{}-{}-{}", self.visible_ms, self.seq, self.receives))
    }

    fn of(receipt: &Receipt) -> Option<Place> {
        let mut parts = receipt.0.split('-');
        Some(Place {
            visible_ms: parts.next()?.parse().ok()?,
            seq: parts.next()?.parse().ok()?,
            receives: parts.next()?.parse().ok()?,
        })
    }
}

/// Moves the message that the receipt names to `visible`. Returns where it is then; `None` if the receipt is stale.
fn shift(connection: &Connection, key: i64, receipt: &Receipt, visible: Timestamp) -> Result<Option<Place>> {
    let Some(from) = Place::of(receipt) else { return Ok(None) };
    let changed = connection
        .prepare_cached(
            "UPDATE messages SET visible_ms = ?5
             WHERE queue_key = ?1 AND visible_ms = ?2 AND seq = ?3 AND receives = ?4",
        )?
        .execute(params![key, from.visible_ms, from.seq, from.receives, visible.0])?;
    Ok((changed == 1).then_some(Place { visible_ms: visible.0, ..from }))
}

fn any_visible(connection: &Connection, queue: QueueName, now: Timestamp) -> Result<bool> {
    let Some(key) = find(connection, queue)? else { return Ok(false) };
    let mut first = connection
        .prepare_cached("SELECT 1 FROM messages WHERE queue_key = ?1 AND visible_ms <= ?2 LIMIT 1")?;
    Ok(first.exists([key, now.0])?)
}

fn receive(
    connection: &Connection,
    queue: QueueName,
    max: usize,
    hidden_until: Timestamp,
    now: Timestamp,
) -> Result<Vec<Delivery>> {
    let Some(key) = find(connection, queue)? else { return Ok(Vec::new()) };
    let limit = i64::try_from(max.min(RECEIVE_MAX)).unwrap_or(0);
    let mut select = connection.prepare_cached(
        "SELECT visible_ms, seq, receives, body, span FROM messages WHERE queue_key = ?1 AND visible_ms <= ?2
         ORDER BY visible_ms, seq LIMIT ?3",
    )?;
    let rows = select.query_map(params![key, now.0, limit], |r| {
        let place = Place { visible_ms: r.get(0)?, seq: r.get(1)?, receives: r.get(2)? };
        Ok((place, r.get::<_, String>(3)?, r.get::<_, Option<u32>>(4)?))
    })?;
    let found: Vec<_> = rows.collect::<rusqlite::Result<_>>()?;
    let mut mark = connection.prepare_cached(
        "UPDATE messages SET visible_ms = ?4, receives = receives + 1
         WHERE queue_key = ?1 AND visible_ms = ?2 AND seq = ?3",
    )?;
    let mut numbers = Numbers { queue_key: key, next: Numbers::read(connection, key)? };
    let before = numbers.next;
    let mut deliveries = Vec::with_capacity(max.min(RECEIVE_MAX));
    for (place, body, span) in found {
        let room = max.min(RECEIVE_MAX) - deliveries.len();
        if room == 0 {
            break;
        }
        match (queue.dead_letters(), span) {
            (_, Some(span)) => {
                let taken = spans::take(connection, &mut numbers, (place, &body, span), room, hidden_until)?;
                deliveries.extend(taken);
            }
            (Some((dead, max_receives)), None) if place.receives >= max_receives => {
                remove(connection, key, &place.receipt())?;
                enqueue(connection, dead, std::iter::once(body), now)?;
            }
            (Some(_) | None, None) => {
                mark.execute(params![key, place.visible_ms, place.seq, hidden_until.0])?;
                let receives = place.receives + 1;
                let receipt = Place { visible_ms: hidden_until.0, receives, ..place }.receipt();
                deliveries.push(Delivery { body, receipt, receives });
            }
        }
    }
    if numbers.next > before {
        numbers.keep(connection)?;
    }
    Ok(deliveries)
}

/// Tasks of the messages that become visible after one moment and by the other, and whether there may be more.
fn count(connection: &Connection, (key, after, by): (i64, i64, i64), most: u32) -> Result<(u64, bool)> {
    let mut first = connection.prepare_cached(
        "SELECT coalesce(sum(tasks), 0), count(*) FROM
            (SELECT coalesce(span, 1) AS tasks FROM messages
             WHERE queue_key = ?1 AND visible_ms > ?2 AND visible_ms <= ?3 ORDER BY visible_ms LIMIT ?4)",
    )?;
    Ok(first.query_row(params![key, after, by, most], |row| {
        Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, u32>(1)? >= most))
    })?)
}

/// Makes due again what a clock that was wrong has put off for longer than anybody may.
fn bring_back(connection: &Connection, told: &Latest, now: Timestamp) -> Result<()> {
    let latest = now.after(limits::NOT_BEFORE_MAX);
    connection.execute("UPDATE messages SET visible_ms = ?1 WHERE visible_ms > ?2", [now.0, latest.0])?;
    records::bring_back(connection, now)?;
    jobs::realign(connection, told, now)
}

fn remove(connection: &Connection, key: i64, receipt: &Receipt) -> Result<()> {
    if let Some(place) = Place::of(receipt) {
        connection
            .prepare_cached(
                "DELETE FROM messages WHERE queue_key = ?1 AND visible_ms = ?2 AND seq = ?3 AND receives = ?4",
            )?
            .execute(params![key, place.visible_ms, place.seq, place.receives])?;
    }
    Ok(())
}

#[async_trait]
impl Queue for Embedded {
    async fn send(&self, queue: QueueName, bodies: Vec<String>, now: Timestamp) -> Result<()> {
        self.write(move |connection| enqueue(connection, queue, bodies.into_iter(), now)).await?;
        self.announce();
        Ok(())
    }

    async fn receive(
        &self,
        queue: QueueName,
        max: usize,
        visibility: Duration,
        now: Timestamp,
    ) -> Result<Vec<Delivery>> {
        // Looking costs nothing, a commit does.
        if self.may_have(vec![queue], now).await? == [false] {
            return Ok(Vec::new());
        }
        self.write(move |connection| receive(connection, queue, max, now.after(visibility), now)).await
    }

    async fn ack(&self, queue: QueueName, receipts: Vec<Receipt>) -> Result<()> {
        self.write(move |connection| {
            let Some(key) = find(connection, queue)? else { return Ok(()) };
            receipts.iter().try_for_each(|receipt| remove(connection, key, receipt))
        })
        .await
    }

    async fn release(
        &self,
        queue: QueueName,
        receipts: Vec<(Receipt, Duration)>,
        now: Timestamp,
    ) -> Result<()> {
        self.write(move |connection| {
            let Some(key) = find(connection, queue)? else { return Ok(()) };
            for (receipt, delay) in &receipts {
                shift(connection, key, receipt, now.after(*delay))?;
            }
            Ok(())
        })
        .await?;
        self.announce();
        Ok(())
    }

    async fn extend(
        &self,
        queue: QueueName,
        receipts: Vec<Receipt>,
        visibility: Duration,
        now: Timestamp,
    ) -> Result<Vec<Option<Receipt>>> {
        self.write(move |connection| {
            let Some(key) = find(connection, queue)? else { return Ok(vec![None; receipts.len()]) };
            let until = now.after(visibility);
            let moved = |receipt| Ok(shift(connection, key, receipt, until)?.map(Place::receipt));
            receipts.iter().map(moved).collect()
        })
        .await
    }

    async fn may_have(&self, queues: Vec<QueueName>, now: Timestamp) -> Result<Vec<bool>> {
        if let Some(told) = self.latest.set_back_from(now) {
            let latest = self.latest.clone();
            self.write(move |connection| bring_back(connection, &latest, now)).await?;
            // Only then: a write that fails is tried again.
            if self.latest.set_back(told, now) {
                tracing::warn!(%now, "the clock was set back by days; what it put off meanwhile is due now");
            }
        }
        self.read(Lane::Work, move |connection| {
            queues.into_iter().map(|queue| any_visible(connection, queue, now)).collect()
        })
        .await
    }

    async fn emptiness(&self, queue: QueueName, _now: Timestamp) -> Result<Emptiness> {
        // Not by counting: there may be a million.
        self.read(Lane::Work, move |connection| {
            let Some(key) = find(connection, queue)? else { return Ok(Emptiness::Empty) };
            let mut first =
                connection.prepare_cached("SELECT 1 FROM messages WHERE queue_key = ?1 LIMIT 1")?;
            Ok(if first.exists([key])? { Emptiness::Messages } else { Emptiness::Empty })
        })
        .await
    }

    async fn depth(&self, queue: QueueName, reader: Reader, now: Timestamp) -> Result<Depth> {
        self.read(reader.into(), move |connection| {
            let Some(key) = find(connection, queue)? else { return Ok(Depth::default()) };
            let most = match reader {
                Reader::Caller => limits::SHOWN_DEPTH_MAX,
                Reader::Role => u32::MAX,
            };
            let (visible, more_visible) = count(connection, (key, i64::MIN, now.0), most)?;
            let (hidden, more_hidden) = count(connection, (key, now.0, i64::MAX), most)?;
            Ok(Depth { visible, hidden, at_least: more_visible || more_hidden })
        })
        .await
    }

    async fn remove(&self, queue: QueueName, limit: u32) -> Result<bool> {
        self.write(move |connection| {
            let Some(key) = find(connection, queue)? else { return Ok(true) };
            let removed = connection
                .prepare_cached(
                    "DELETE FROM messages WHERE (queue_key, visible_ms, seq) IN
                        (SELECT queue_key, visible_ms, seq FROM messages WHERE queue_key = ?1 LIMIT ?2)",
                )?
                .execute([key, i64::from(limit)])?;
            let done = removed < limit as usize;
            if done {
                connection.prepare_cached("DELETE FROM queues WHERE queue_key = ?1")?.execute([key])?;
            }
            Ok(done)
        })
        .await
    }
}
