//! What every handler is given.

use crate::Api;
use crate::audit_turns::AuditTurns;
use crate::request_rates::RequestRates;
use conveyor_domain::headers::HeaderSeal;
use conveyor_domain::{Timestamp, UploadId, WorkerId, limits};
use conveyor_store::Store;
use conveyor_store::port::{BlobKey, DirectAccess};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Semaphore;

#[derive(Debug)]
pub(crate) struct ApiState {
    api: Api,
    /// Room for request bodies, in KiB: what callers send at once must not decide how much memory we use.
    pub bodies: Arc<Semaphore>,
    /// Turns to take in a list: each holds a file, and perhaps much of the disk.
    pub uploads: Semaphore,
    pub audits: AuditTurns,
    pub rates: RequestRates,
    /// This start of this process, and how many objects it has written: no key is used twice (SPEC 4).
    pub incarnation: WorkerId,
    objects: AtomicU64,
}

pub(crate) type Shared = Arc<ApiState>;

impl ApiState {
    pub fn new(api: Api) -> ApiState {
        let bodies = Arc::new(Semaphore::new(limits::BODIES_MAX_BYTES / limits::KIB));
        let incarnation = WorkerId::new(api.clock.now(), &api.entropy);
        let uploads = Semaphore::new(limits::UPLOADS_INFLIGHT_MAX);
        let audits = AuditTurns::default();
        let rates = RequestRates::new(api.config.requests);
        ApiState { api, bodies, uploads, audits, rates, incarnation, objects: AtomicU64::new(0) }
    }

    /// The key of a new object of an upload.
    pub fn upload_object(&self, upload: UploadId) -> BlobKey {
        BlobKey::upload(upload, self.incarnation, self.objects.fetch_add(1, Ordering::Relaxed))
    }

    pub fn store(&self) -> &dyn Store {
        &*self.backend.store
    }

    /// How callers reach the storage without us in between, where they can.
    pub fn direct(&self) -> Option<&dyn DirectAccess> {
        self.backend.blobs.direct()
    }

    pub fn headers(&self) -> HeaderSeal {
        HeaderSeal::new(self.secret.clone(), self.entropy.clone())
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
