//! Refs of neighbouring tasks as one message: a list of a million rows costs a row a chunk in its queue, not a million.
//! Whoever receives from a span gets ordinary messages; what is left of it stays where it was.

use super::codec::corrupt;
use super::queue::{self, Place};
use crate::port::{Delivery, Result};
use conveyor_domain::{QueueName, RunId, TaskId, TaskRef, Timestamp};
use rusqlite::{Connection, params};

/// One database is one partition.
const TASK_SHARD_COUNT: u32 = 1;

/// Sends the refs of these tasks, given by their indexes in order. The caller is inside a transaction.
pub fn enqueue(
    connection: &Connection,
    run: RunId,
    id_seed: RunId,
    indexes: impl Iterator<Item = u32>,
    now: Timestamp,
) -> Result<()> {
    let mut open: Option<(u32, u32)> = None;
    let mut spans = Vec::new();
    for index in indexes {
        match &mut open {
            Some((first, length)) if *first + *length == index => *length += 1,
            _ => spans.extend(open.replace((index, 1))),
        }
    }
    spans.extend(open);
    let Some(mut numbers) = queue::Numbers::of(connection, QueueName::Run(run), spans.is_empty())? else {
        // Nothing to send must not bring back the queue of a run that has ended.
        return Ok(());
    };
    let mut insert = connection.prepare_cached(
        "INSERT INTO messages (queue_key, visible_ms, seq, receives, body, span) VALUES (?1, ?2, ?3, 0, ?4, ?5)",
    )?;
    for (first, length) in spans {
        let number = numbers.next();
        insert.execute(params![numbers.queue_key, now.0, number, body(id_seed, first), length])?;
    }
    numbers.keep(connection)
}

fn body(id_seed: RunId, first: u32) -> String {
    format!("{id_seed}:{first}")
}

/// Takes up to `max` refs off a span. Each becomes an ordinary message that is in flight.
pub fn take(
    connection: &Connection,
    numbers: &mut queue::Numbers,
    (place, text, span): (Place, &str, u32),
    max: usize,
    hidden_until: Timestamp,
) -> Result<Vec<Delivery>> {
    let (seed, first) = text.split_once(':').ok_or_else(|| corrupt("span"))?;
    let seed: RunId = seed.parse().map_err(|_| corrupt("span"))?;
    let first: u32 = first.parse().map_err(|_| corrupt("span"))?;
    let taken = span.min(u32::try_from(max).unwrap_or(u32::MAX));
    let left = span - taken;
    if left == 0 {
        connection
            .prepare_cached("DELETE FROM messages WHERE queue_key = ?1 AND visible_ms = ?2 AND seq = ?3")?
            .execute(params![numbers.queue_key, place.visible_ms, place.seq])?;
    } else {
        let rest = body(seed, first + taken);
        connection
            .prepare_cached(
                "UPDATE messages SET body = ?4, span = ?5 WHERE queue_key = ?1 AND visible_ms = ?2 AND seq = ?3",
            )?
            .execute(params![numbers.queue_key, place.visible_ms, place.seq, rest, left])?;
    }
    let mut insert = connection.prepare_cached(
        "INSERT INTO messages (queue_key, visible_ms, seq, receives, body) VALUES (?1, ?2, ?3, 1, ?4)",
    )?;
    let mut deliveries = Vec::with_capacity(taken as usize);
    for index in first..first + taken {
        let task = TaskRef { task: TaskId::of(seed, index), task_shard_count: TASK_SHARD_COUNT };
        let (body, seq) = (task.to_string(), numbers.next());
        insert.execute(params![numbers.queue_key, hidden_until.0, seq, body])?;
        let place = Place { visible_ms: hidden_until.0, seq, receives: 1 };
        deliveries.push(Delivery { body, receipt: place.receipt(), receives: 1 });
    }
    Ok(deliveries)
}
