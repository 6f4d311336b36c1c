//! What every handler is given.

use crate::Api;
use conveyor_domain::{Timestamp, limits};
use conveyor_store::Store;
use std::ops::Deref;
use std::sync::Arc;
use tokio::sync::Semaphore;

#[derive(Debug)]
pub(crate) struct ApiState {
    api: Api,
    /// Room for request bodies, in KiB: what callers send at once must not decide how much memory we use.
    pub bodies: Arc<Semaphore>,
}

pub(crate) type Shared = Arc<ApiState>;

impl ApiState {
    pub fn new(api: Api) -> ApiState {
        ApiState { api, bodies: Arc::new(Semaphore::new(limits::BODIES_MAX_BYTES / limits::KIB)) }
    }

    pub fn store(&self) -> &dyn Store {
        &*self.backend.store
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn is_shutting_down(&self) -> bool {
        *self.shutting_down.borrow()
    }
}

impl Deref for ApiState {
    type Target = Api;
    fn deref(&self) -> &Api {
        &self.api
    }
}
