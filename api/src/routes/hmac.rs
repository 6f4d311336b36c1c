//! The keys that a caller's notifications are signed with (SPEC 6.21).

use crate::auth::Caller;
use crate::problem::{ApiError, Code, Result};
use crate::query::NoQuery;
use crate::state::{ApiState, Shared};
use crate::webhooks::signing_keys;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use conveyor_domain::delivery::signing_keys::signing_keys_key;
use conveyor_domain::{
    KeyId, Record, RecordVersion, RecordWrite, RotationRefused, SigningKey, SigningKeys, SigningSecret,
};
use conveyor_wire::{HmacKey, HmacKeyCreated, HmacKeyFinalized, HmacKeys, Time};

/// Looks again this often if somebody else was quicker.
const LOOKS_MAX: u32 = 5;

pub(super) async fn list(caller: Caller, State(state): State<Shared>, _: NoQuery) -> Result<Json<HmacKeys>> {
    let SigningKeys { active, candidate } = signing_keys(&state, caller.id).await?.0;
    let shown = |key: SigningKey| HmacKey { kid: key.kid, created_at: Time(key.created) };
    Ok(Json(HmacKeys { active: active.map(shown), candidate: candidate.map(shown) }))
}

pub(super) async fn rotate(
    caller: Caller,
    State(state): State<Shared>,
    _: NoQuery,
) -> Result<(StatusCode, Json<HmacKeyCreated>)> {
    let (now, entropy) = (state.now(), &state.entropy);
    let (kid, signing) = (KeyId::new(now, entropy), SigningSecret::new(entropy));
    let key = SigningKey::new(caller.id, kid, &signing, now, &state.secret, entropy);
    change(&state, &caller, |keys| keys.rotate(key.clone())).await?;
    let created = HmacKeyCreated { kid, secret: signing.expose(), created_at: Time(now) };
    Ok((StatusCode::CREATED, Json(created)))
}

pub(super) async fn finalize(
    caller: Caller,
    State(state): State<Shared>,
    _: NoQuery,
) -> Result<Json<HmacKeyFinalized>> {
    let keys = change(&state, &caller, SigningKeys::finalize).await?;
    let active = keys.active.ok_or_else(|| ApiError::internal("a finalized key is not active"))?;
    Ok(Json(HmacKeyFinalized { active_kid: active.kid, created_at: Time(active.created) }))
}

pub(super) async fn cancel(caller: Caller, State(state): State<Shared>, _: NoQuery) -> Result<StatusCode> {
    change(&state, &caller, |keys| Ok(keys.cancel())).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn change(
    state: &ApiState,
    caller: &Caller,
    decide: impl Fn(&SigningKeys) -> std::result::Result<SigningKeys, RotationRefused>,
) -> Result<SigningKeys> {
    for _ in 0..LOOKS_MAX {
        let (keys, expected) = signing_keys(state, caller.id).await?;
        let next = decide(&keys).map_err(refused)?;
        if next == keys {
            return Ok(next);
        }
        let version = RecordVersion::new(&state.entropy);
        let record = Record::new(signing_keys_key(caller.id), version, &next);
        if state.store().write_record(RecordWrite::put(record, expected)).await? {
            return Ok(next);
        }
    }
    Err(ApiError::new(Code::Conflict, "The keys are being changed by somebody else right now."))
}

fn refused(why: RotationRefused) -> ApiError {
    let (code, detail) = match why {
        RotationRefused::CandidatePending => {
            (Code::CandidatePending, "A new key was made already: finalize or cancel it first.")
        }
        RotationRefused::NoCandidate => (Code::NoCandidate, "There is no new key: make one first."),
    };
    ApiError::new(code, detail)
}
