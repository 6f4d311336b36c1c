//! Messages that this worker holds, so that they can be kept hidden while their tasks are worked (SPEC 8.6).

use crate::Worker;
use crate::context::RunContext;
use conveyor_store::port::Receipt;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::RwLock;

const NOT_HIDDEN: &str = "messages could not be kept hidden";

#[derive(Debug)]
struct Held {
    run: Arc<RunContext>,
    receipt: Receipt,
}

/// The number of a held message within this worker.
pub type FlightId = u64;

#[derive(Debug, Default)]
struct State {
    next: FlightId,
    held: HashMap<FlightId, Held>,
}

#[derive(Debug, Default)]
pub struct Flights {
    state: Mutex<State>,
    /// Extending gives a message a new receipt. Whoever acknowledges or releases holds this shared, so that the receipt it
    /// took is still the latest when the queue sees it.
    pub receipts_fixed: RwLock<()>,
}

impl Flights {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, run: Arc<RunContext>, receipt: Receipt) -> FlightId {
        let mut state = self.lock();
        state.next += 1;
        let id = state.next;
        state.held.insert(id, Held { run, receipt });
        id
    }

    /// The receipt to acknowledge or release with; it is no longer extended from here on.
    pub fn take(&self, id: FlightId) -> Option<Receipt> {
        self.lock().held.remove(&id).map(|held| held.receipt)
    }

    pub fn is_empty(&self) -> bool {
        self.lock().held.is_empty()
    }

    pub fn count(&self) -> usize {
        self.lock().held.len()
    }

    /// Extends every held message. A receipt that turns out stale is left: the claim on the row decides, not the message.
    pub async fn extend_all(&self, worker: &Worker) {
        let mut by_queue: HashMap<_, Vec<(FlightId, Receipt)>> = HashMap::new();
        for (id, held) in &self.lock().held {
            by_queue.entry(held.run.queue).or_default().push((*id, held.receipt.clone()));
        }
        for (queue, held) in by_queue {
            let _changing = self.receipts_fixed.write().await;
            let still_held = |(id, _): &(FlightId, Receipt)| self.lock().held.contains_key(id);
            let (ids, receipts): (Vec<_>, Vec<_>) = held.into_iter().filter(still_held).unzip();
            let now = worker.clock.now();
            match worker.backend.queue.extend(queue, receipts, worker.config.visibility, now).await {
                Ok(renewed) => {
                    worker.outages.succeeded(NOT_HIDDEN);
                    self.renew(ids.into_iter().zip(renewed));
                }
                Err(error) => worker.outages.failed(NOT_HIDDEN, &error),
            }
        }
    }

    fn renew(&self, renewed: impl Iterator<Item = (FlightId, Option<Receipt>)>) {
        let mut state = self.lock();
        for (id, receipt) in renewed {
            if let (Some(held), Some(receipt)) = (state.held.get_mut(&id), receipt) {
                held.receipt = receipt;
            }
        }
    }
}
