//! What every handler is given.

use crate::{ApiConfig, MetricsText};
use conveyor_domain::seal::Secret;
use conveyor_domain::{Clock, Entropy, Timestamp};
use conveyor_store::{Backend, Store};
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;

pub(crate) struct ApiState {
    pub backend: Backend,
    pub secret: Secret,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<Entropy>,
    pub config: ApiConfig,
    pub metrics: MetricsText,
    pub shutting_down: watch::Receiver<bool>,
}

pub(crate) type Shared = Arc<ApiState>;

impl ApiState {
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

impl fmt::Debug for ApiState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiState").field("config", &self.config).finish_non_exhaustive()
    }
}
