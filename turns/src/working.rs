//! Tasks under way.

use std::collections::HashMap;
use std::fmt::Debug;
use tokio::task::{Id, JoinSet};

/// Tasks, each with a ticket: what has to be given back when it ends, however it ends. Dropping it ends them all.
#[derive(Debug)]
pub struct Working<K, O> {
    tasks: JoinSet<O>,
    tickets: HashMap<Id, K>,
}

impl<K, O> Default for Working<K, O> {
    fn default() -> Self {
        Working { tasks: JoinSet::new(), tickets: HashMap::new() }
    }
}

impl<K, O: Send + 'static> Working<K, O> {
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    pub fn spawn(&mut self, ticket: K, work: impl Future<Output = O> + Send + 'static) {
        let id = self.tasks.spawn(work).id();
        self.tickets.insert(id, ticket);
    }

    /// The tickets of what is under way.
    pub fn tickets_mut(&mut self) -> impl Iterator<Item = &mut K> {
        self.tickets.values_mut()
    }

    /// The next that ends, with what came of it: `None` if it panicked. Pending while nothing is under way.
    pub async fn ended(&mut self) -> (K, Option<O>) {
        loop {
            let (id, outcome) = match self.tasks.join_next_with_id().await {
                Some(Ok((id, outcome))) => (id, Some(outcome)),
                Some(Err(error)) => (error.id(), None),
                None => std::future::pending().await,
            };
            if let Some(ticket) = self.tickets.remove(&id) {
                return (ticket, outcome);
            }
        }
    }
}
