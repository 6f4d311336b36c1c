//! What every handler is given.

use crate::Api;
use crate::known_keys::KnownKeys;
use crate::metrics_page::MetricsPage;
use crate::problem::Result;
use crate::readiness::Readiness;
use crate::request_rates::{RequestRates, Who};
use crate::shares::{Answers, Bodies, Places, Turns, UnknownKeys};
use conveyor_domain::{CallerId, HeaderSeal, KeyHash, Timestamp, UploadId, WorkerId, limits};
use conveyor_store::port::{BlobKey, DirectAccess};
use conveyor_store::{Store, clock_watch};
use conveyor_turns::Gate;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(crate) struct ApiState {
    api: Api,
    /// Room for request bodies: what callers send at once must not decide how much memory we use.
    pub bodies: Arc<Bodies>,
    /// The same for answers.
    pub answers: Arc<Answers>,
    /// Places for requests, for event streams, and for lists being uploaded: each of those holds a file, and perhaps much
    /// of the disk.
    pub requests: Arc<Places<Who>>,
    pub own_requests: Arc<Turns>,
    /// Places for reads by URLs of results and exports.
    pub signed_requests: Arc<Places<Who>>,
    pub reads: Arc<Turns>,
    pub streams: Arc<Places<CallerId>>,
    pub uploads: Arc<Places<CallerId>>,
    pub unknown_keys: UnknownKeys,
    /// One of a caller at once: each reads every row of a run.
    pub audits: Gate,
    /// Submits that count a staged list.
    pub counts: Gate,
    /// Submits that count what their caller has: each may read a thousand jobs.
    pub admissions: Gate,
    /// Reads of parts of lists: round robin over callers.
    lists: Gate,
    /// Checks of lists that came in the body of a submit and were staged.
    pub checks: Gate,
    pub rates: RequestRates,
    pub keys: KnownKeys,
    pub readiness: Readiness,
    pub metrics_page: MetricsPage,
    /// This start of this process, and how many objects it has written: no key is used twice (SPEC 4).
    pub incarnation: WorkerId,
    objects: AtomicU64,
}

pub(crate) type Shared = Arc<ApiState>;

impl ApiState {
    pub fn new(api: Api) -> ApiState {
        let (all_max, shares) = (api.config.requests_inflight_max, api.config.shares);
        let signed_max = (all_max / limits::SIGNED_REQUESTS_PART).max(1);
        let keyed_max = all_max.saturating_sub(signed_max).max(1);
        let known_keys: Vec<KeyHash> = api.operators.hashes().chain(api.accepted.iter().copied()).collect();
        ApiState {
            bodies: Arc::new(Bodies::new(
                shares.bodies_max_bytes,
                shares.bodies_of_caller_max_bytes,
                shares.body,
            )),
            answers: Answers::new(shares.answers_max_bytes),
            requests: Places::new("requests", keyed_max, keyed_max),
            signed_requests: Places::new("signed", signed_max, signed_max),
            own_requests: Turns::new(shares.requests_of_caller_max),
            reads: Turns::new(limits::READS_OF_CALLER_MAX),
            streams: Places::new("streams", shares.event_streams_max, shares.event_streams_of_caller_max),
            uploads: Places::new("uploads", shares.uploads_max, shares.uploads_of_caller_max),
            unknown_keys: UnknownKeys::new(shares.unknown_keys, known_keys.into_iter(), api.clock.now()),
            audits: Gate::new(limits::AUDITS_MAX, 1),
            counts: Gate::new(limits::COUNTS_MAX, limits::COUNTS_OF_CALLER_MAX),
            admissions: Gate::new(limits::ADMISSIONS_MAX, limits::ADMISSIONS_OF_CALLER_MAX),
            lists: Gate::new(limits::LIST_TURNS_MAX, limits::LIST_TURNS_OF_CALLER_MAX),
            checks: Gate::new(limits::LIST_CHECKS_MAX, limits::LIST_CHECKS_OF_CALLER_MAX),
            rates: RequestRates::new(api.config.requests),
            keys: KnownKeys::default(),
            readiness: Readiness::default(),
            metrics_page: MetricsPage::default(),
            incarnation: WorkerId::new(api.clock.now(), &api.entropy),
            objects: AtomicU64::new(0),
            api,
        }
    }

    /// The key of a new object of an upload.
    pub fn upload_object(&self, upload: UploadId) -> BlobKey {
        BlobKey::upload(upload, self.incarnation, self.objects.fetch_add(1, Ordering::Relaxed))
    }

    pub fn store(&self) -> &dyn Store {
        &*self.backend.store
    }

    /// Reads part of a list, when it is the caller's turn.
    pub async fn list<T>(
        &self,
        caller: CallerId,
        read: impl Future<Output = conveyor_store::Result<T>>,
    ) -> Result<T> {
        Ok(self.list_stored(caller, read).await?)
    }

    /// The same for what is no answer yet.
    pub async fn list_stored<T>(
        &self,
        caller: CallerId,
        read: impl Future<Output = conveyor_store::Result<T>>,
    ) -> conveyor_store::Result<T> {
        let _turn = self.lists.turn(caller).await;
        read.await
    }

    /// How callers reach the storage without us in between, where they can.
    pub fn direct(&self) -> Option<&dyn DirectAccess> {
        self.backend.direct.as_deref()
    }

    pub fn headers(&self) -> HeaderSeal {
        HeaderSeal::new(self.secret.clone(), self.entropy.clone())
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// By what time something is judged that is past its time by now: while the clock is in doubt nothing is (SPEC 6.26).
    pub async fn judged_at(&self, is_past: impl Fn(Timestamp) -> bool) -> Result<Timestamp> {
        let now = self.now();
        Ok(clock_watch::judged_at(self.store(), is_past(now), now).await?)
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
