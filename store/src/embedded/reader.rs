//! Reads, on connections of their own: a long page does not hold up a commit, nor a commit a page.

use super::open;
use crate::port::{Error, Result};
use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

const READERS_MAX: usize = 4;

#[derive(Clone)]
pub struct Readers {
    database: PathBuf,
    idle: Arc<Mutex<Vec<Connection>>>,
    turns: Arc<Semaphore>,
}

impl std::fmt::Debug for Readers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Readers")
    }
}

impl Readers {
    pub fn new(database: PathBuf) -> Readers {
        Readers { database, idle: Arc::default(), turns: Arc::new(Semaphore::new(READERS_MAX)) }
    }

    /// Runs `operation` in one snapshot of the database.
    pub async fn read<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let lost = |_| Error::Unavailable("the read was given up".to_owned());
        let turn = self.turns.clone().acquire_owned().await.map_err(|_| lost(()))?;
        let this = self.clone();
        let work = move || {
            let connection = this.take()?;
            let outcome = in_snapshot(&connection, operation);
            if connection.is_autocommit() {
                this.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            }
            drop(turn);
            outcome
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| lost(()))?
    }

    fn take(&self) -> Result<Connection> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match idle {
            Some(connection) => Ok(connection),
            None => Ok(open::connect_reader(&self.database)?),
        }
    }
}

fn in_snapshot<T>(connection: &Connection, operation: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
    let snapshot = connection.unchecked_transaction()?;
    let outcome = operation(connection);
    snapshot.finish()?;
    outcome
}
