//! Requests that may be repeated (SPEC 6.23). A handler takes four steps: it takes the [`Intent`] off its request, lets the
//! body pass by it, and [begins](begin) once that is read; it [carries out](Turn::carry_out) what was asked for, which
//! claims the key just before the store does it; and whatever came of it, it [ends](Turn::end) its turn.
//!
//! What is done and what is answered are one step of the store, under the condition that the claim is still ours. So it does
//! not matter here who believes what about a lease: nothing is done twice.

mod snapshot;

pub(crate) use snapshot::{IDEMPOTENCY_REPLAYED, Snapshot};

use crate::admission::admitted;
use crate::problem::{ApiError, Code, Result};
use crate::state::ApiState;
use crate::warnings::Warnings;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use conveyor_domain::access::idempotency::{Kept, Seen, record_key, see};
use conveyor_domain::access::quota::Wanted;
use conveyor_domain::job::record::Expected;
use conveyor_domain::{
    CallerId, Fingerprint, Fingerprinting, Record, RecordKey, RecordVersion, RecordWrite, limits,
};
use conveyor_store::admission::Became;
use conveyor_store::port::{JobView, Once};
use conveyor_store::{Error, clock_watch};
use std::ops::ControlFlow;
use std::sync::Arc;

const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// How often a claim is tried when what is in its way goes by itself at that moment.
const CLAIM_TRIES: u32 = 3;

/// A key, and the request that it is for, as far as it was read.
#[derive(Debug)]
pub(crate) struct Intent {
    key: RecordKey,
    fingerprint: Fingerprinting,
}

impl Intent {
    /// `None` if the request has no key. Its body has yet to [pass](Intent::pass).
    pub fn of(request: &Request, caller: CallerId) -> Result<Option<Intent>> {
        let Some(key) = key_of(request.headers(), caller)? else { return Ok(None) };
        let (method, uri) = (request.method(), request.uri());
        let fingerprint = Fingerprinting::of(method.as_str(), uri.path(), uri.query().unwrap_or_default());
        Ok(Some(Intent { key, fingerprint }))
    }

    pub fn pass(&mut self, bytes: &[u8]) {
        self.fingerprint.pass(bytes);
    }

    /// All of the body has passed.
    fn whole(self) -> (RecordKey, Fingerprint) {
        (self.key, self.fingerprint.taken())
    }
}

fn key_of(headers: &HeaderMap, caller: CallerId) -> Result<Option<RecordKey>> {
    let mut given = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = given.next() else { return Ok(None) };
    if given.next().is_some() {
        return Err(ApiError::invalid("`Idempotency-Key` is given twice."));
    }
    let refuse = || {
        let max = limits::IDEMPOTENCY_KEY_MAX;
        ApiError::invalid(format!("`Idempotency-Key` must be 1 to {max} printable characters of ASCII."))
    };
    record_key(caller, value.as_bytes()).map(Some).ok_or_else(refuse)
}

/// A request that is about to be carried out, under a key or without.
#[derive(Debug)]
pub(crate) struct Turn {
    keyed: Option<Keyed>,
    /// What its answer names is kept with it: a repeat is answered alike.
    warnings: Warnings,
}

#[derive(Debug)]
struct Keyed {
    key: RecordKey,
    fingerprint: Fingerprint,
    /// What the claim is written over.
    over: Expected,
    claimed: Option<RecordVersion>,
}

/// Looks for an answer, or says why there is none yet. Nothing is claimed: a request that is refused leaves no trace.
pub(crate) async fn begin(
    state: &ApiState,
    intent: Option<Intent>,
    warnings: Warnings,
) -> ControlFlow<Result<Response>, Turn> {
    let Some(intent) = intent else { return ControlFlow::Continue(Turn { keyed: None, warnings }) };
    let (key, fingerprint) = intent.whole();
    let mut keyed = Keyed { key, fingerprint, over: Expected::Absent, claimed: None };
    ControlFlow::Break(match keyed.look(state).await {
        Ok((_, Seen::Free(over))) => {
            keyed.over = over;
            return ControlFlow::Continue(Turn { keyed: Some(keyed), warnings });
        }
        Ok((_, Seen::Answered(answered))) => snapshot::replay(answered),
        Ok((_, Seen::Running)) => Err(running()),
        Ok((_, Seen::Another)) => Err(another()),
        Err(error) => Err(error),
    })
}

impl Turn {
    pub fn warnings(&self) -> &Warnings {
        &self.warnings
    }

    /// Claims the key, asks whether the caller may have so much, does it, and answers. `answer` is what the request is answered
    /// with, of the job as the operation leaves it; `done` is what becomes of that.
    pub async fn carry_out<F: Future<Output = Result<JobView>>>(
        &mut self,
        state: &ApiState,
        caller: CallerId,
        (wanted, done): (Wanted, Became),
        answer: impl Fn(&JobView) -> Snapshot + Clone + Send + Sync + 'static,
        operation: impl FnOnce(Option<Once>) -> F,
    ) -> Result<Response> {
        let once = self.claim(state, answer.clone()).await?;
        let view = admitted(state, caller, wanted, done, operation(once)).await?;
        Ok(answer(&view).into_response())
    }

    /// Claims the key for what the store is about to do; `None` if there is no key.
    async fn claim(
        &mut self,
        state: &ApiState,
        answer: impl Fn(&JobView) -> Snapshot + Send + Sync + 'static,
    ) -> Result<Option<Once>> {
        let Some(keyed) = &mut self.keyed else { return Ok(None) };
        let warnings = self.warnings.clone();
        let answer = move |view: &JobView| answer(view).with(&warnings.named());
        for _ in 0..CLAIM_TRIES {
            if let Some(claimed) = keyed.write_claim(state).await? {
                // Should it be claimed anew, because what was about to be done has to be decided again.
                (keyed.over, keyed.claimed) = (Expected::Version(claimed), Some(claimed));
                return Ok(Some(keyed.once(state, claimed, answer)));
            }
            match keyed.look(state).await?.1 {
                Seen::Free(over) => keyed.over = over,
                // The answer is found again at the end of the turn.
                Seen::Running | Seen::Answered(_) => return Err(running()),
                Seen::Another => return Err(another()),
            }
        }
        Err(running())
    }

    /// Ends the turn. What was done is answered already, in the same step. What failed may have been done all the same, or by
    /// another request with this key, and then that is the answer; what was surely not done gives the key back.
    pub async fn end(self, state: &ApiState, outcome: Result<Response>) -> Result<Response> {
        let (Some(keyed), Err(error)) = (self.keyed, &outcome) else { return outcome };
        let (record, seen) = match keyed.look(state).await {
            Ok(found) => found,
            Err(failed) => {
                tracing::warn!(?failed, "what became of an idempotency key is not known; its lease will end");
                return outcome;
            }
        };
        let ours = keyed.claimed.is_some() && record.map(|record| record.version) == keyed.claimed;
        match seen {
            Seen::Answered(answered) => snapshot::replay(answered),
            Seen::Free(_) | Seen::Running | Seen::Another if ours => {
                if error.is_refusal() {
                    keyed.release(state).await;
                }
                outcome
            }
            // The store found that the claim is another's.
            Seen::Running if keyed.claimed.is_some() && error.is_conflict() => Err(running()),
            Seen::Another if keyed.claimed.is_some() && error.is_conflict() => Err(another()),
            Seen::Free(_) | Seen::Running | Seen::Another => outcome,
        }
    }
}

impl Keyed {
    async fn look(&self, state: &ApiState) -> Result<(Option<Record>, Seen)> {
        let record = state.store().record(&self.key).await?;
        let mut now = state.now();
        if record.as_ref().is_some_and(|record| record.is_over(now)) {
            // What was answered is forgotten only by a time that is not in doubt.
            now = clock_watch::removal_time(state.store(), now).await?;
        }
        let seen = see(record.as_ref(), &self.fingerprint, now);
        Ok((record, seen.map_err(Error::from)?))
    }

    async fn write_claim(&self, state: &ApiState) -> Result<Option<RecordVersion>> {
        let (now, version) = (state.now(), RecordVersion::new(&state.entropy));
        let running = Kept::running(self.fingerprint.clone(), now);
        let record = Record::new(self.key.clone(), version, &running);
        let record = record.expires(Some(now.after(limits::IDEMPOTENCY_TTL)));
        let written = state.store().write_record(RecordWrite::put(record, self.over)).await?;
        Ok(written.then_some(version))
    }

    fn once(
        &self,
        state: &ApiState,
        claimed: RecordVersion,
        answer: impl Fn(&JobView) -> Snapshot + Send + Sync + 'static,
    ) -> Once {
        let fingerprint = self.fingerprint.clone();
        Once {
            key: self.key.clone(),
            expected: claimed,
            next: RecordVersion::new(&state.entropy),
            expires: state.now().after(limits::IDEMPOTENCY_TTL),
            answer: Arc::new(move |view| answer(view).document(fingerprint.clone())),
        }
    }

    /// Gives the key back, so that the caller may repeat at once. If that fails, its lease ends.
    async fn release(&self, state: &ApiState) {
        let Some(claimed) = self.claimed else { return };
        let remove = RecordWrite::remove(self.key.clone(), Expected::Version(claimed));
        if let Err(error) = state.store().write_record(remove).await {
            tracing::warn!(%error, "an idempotency key was not given back; its lease will end");
        }
    }
}

fn running() -> ApiError {
    let detail = "A request with this idempotency key is being carried out. Repeat it in a moment.";
    ApiError::new(Code::IdempotencyKeyConflict, detail)
}

fn another() -> ApiError {
    let detail = "This idempotency key was used for another request: another route, query or body.";
    ApiError::new(Code::IdempotencyKeyConflict, detail)
}
