//! Whether a write would work: found out by one, at most once a second however often it is asked.

use crate::port::Result;
use rusqlite::Connection;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

const KEPT: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub struct Probe(Mutex<Option<(Instant, Result<()>)>>);

impl Probe {
    /// The last answer if it is fresh, otherwise a new one. Those who ask meanwhile wait for it.
    pub async fn ask<F: Future<Output = Result<()>>>(&self, write: impl FnOnce() -> F) -> Result<()> {
        let mut last = self.0.lock().await;
        if let Some((at, answer)) = &*last
            && at.elapsed() < KEPT
        {
            return answer.clone();
        }
        let answer = write().await;
        *last = Some((Instant::now(), answer.clone()));
        answer
    }
}

/// A real change, so that a disk without room shows: a commit of nothing would succeed on it.
pub fn write(connection: &Connection) -> Result<()> {
    connection.prepare_cached("UPDATE probe SET writes = writes + 1 WHERE id = 1")?.execute([])?;
    Ok(())
}
