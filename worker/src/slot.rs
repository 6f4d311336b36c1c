//! Room for one task in this process.

use std::sync::Arc;
use tokio::sync::{Notify, OwnedSemaphorePermit};

/// One of the worker's slots; given back when dropped.
#[derive(Debug)]
pub struct Slot {
    permit: Option<OwnedSemaphorePermit>,
    freed: Arc<Notify>,
}

impl Slot {
    pub fn new(permit: OwnedSemaphorePermit, freed: Arc<Notify>) -> Slot {
        Slot { permit: Some(permit), freed }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // Free first, then tell: whoever is woken must find it free.
        drop(self.permit.take());
        self.freed.notify_one();
    }
}
