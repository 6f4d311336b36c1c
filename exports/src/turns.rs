//! The loop of a builder: exports that are due take turns by caller, and short ones have places of their own (SPEC 6.22).

use crate::Builder;
use conveyor_domain::{CallerId, Export, Record, RecordKey, RecordKind};
use conveyor_store::Due;
use conveyor_turns::{Lanes, Size, Working};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How often a builder looks for what is due. Whoever asks for an export polls it every two seconds.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Ticket {
    key: RecordKey,
    caller: CallerId,
    lane: Size,
}

/// Builds and removes exports until `stop`. Those that are under way then are given back.
pub async fn run(builder: Arc<Builder>, stop: CancellationToken) {
    let mut due = Due::new(RecordKind::Export);
    let (mut lanes, mut working) = (Lanes::new(builder.config.exports_max), Working::default());
    let mut next_look = Instant::now();
    while !stop.is_cancelled() {
        if Instant::now() >= next_look {
            let small_max_tasks = builder.config.small_max_tasks;
            let sort = move |record: &Record| sort(record, small_max_tasks);
            if let Err(error) = due.look(&builder.backend.store, builder.clock.now(), sort).await {
                tracing::warn!(%error, "exports that are due cannot be found");
            }
            next_look = Instant::now() + LOOK_EVERY;
        }
        while let Some((caller, size, key)) = due.take(|caller, size| lanes.place(caller, *size).is_some()) {
            let lane = lanes.place(caller, size).unwrap_or(size);
            lanes.take(caller, lane);
            let (builder, stop, at) = (builder.clone(), stop.clone(), key.clone());
            working.spawn(Ticket { key, caller, lane }, async move { builder.attend(&at, &stop).await });
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep_until(next_look) => {}
            (ticket, _) = working.ended() => {
                lanes.leave(ticket.caller, ticket.lane);
                due.forget(&ticket.key);
            }
        }
    }
    while !working.is_empty() {
        working.ended().await;
    }
}

impl Builder {
    /// Does what is due about an export, building included.
    async fn attend(&self, key: &RecordKey, stop: &CancellationToken) {
        let now = self.clock.now();
        let taken = match self.backend.store.record(key).await {
            Ok(Some(record)) if record.due.is_some_and(|due| due <= now) => self.take(record).await,
            Ok(_) => Ok(None),
            Err(error) => Err(error),
        };
        match taken {
            Ok(Some(taken)) => {
                self.attempt(taken, stop).await;
            }
            Ok(None) => {}
            // It is due again at the next look.
            Err(error) => tracing::warn!(export = key.id, %error, "an export could not be looked at"),
        }
    }
}

/// Records that an earlier version wrote do not say whose they are: each of their runs is a caller of its own.
fn sort(record: &Record, small_max_tasks: u32) -> (CallerId, Size) {
    match record.parse::<Export>() {
        Ok(export) => {
            let caller = export.caller.unwrap_or(CallerId::from_bytes(export.run.to_bytes()));
            let is_small = export.is_over() || export.tasks_expected <= small_max_tasks;
            (caller, if is_small { Size::Small } else { Size::Large })
        }
        Err(_) => (CallerId::from_bytes([0; 16]), Size::Small),
    }
}
