//! API keys, as operators make, list and revoke them (SPEC 6.24).

use super::callers::{self, quotas_of};
use crate::auth::Operator;
use crate::body;
use crate::cursor::Cursors;
use crate::managed_keys::{self, Made};
use crate::path::Id;
use crate::problem::{ApiError, Result};
use crate::query::{NoQuery, Query};
use crate::state::Shared;
use crate::wire::keys::parse_key;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use conveyor_domain::{ApiKey, ApiKeyId, CallerId, Opens, Quotas};
use conveyor_wire::{self as wire, ApiKeys, CreateKey, KeyKind, Time};
use std::collections::BTreeMap;

pub(super) async fn create(
    _: Operator,
    State(state): State<Shared>,
    body: body::Json,
) -> Result<(StatusCode, Json<wire::ApiKey>)> {
    let CreateKey { name, operator, caller, quotas } = body.parse(parse_key)?;
    let operator = operator.unwrap_or(false);
    let new_caller = || CallerId::new(state.now(), &state.entropy);
    let opens = if operator { Opens::Operator } else { Opens::Caller(caller.unwrap_or_else(new_caller)) };
    let quotas = match (opens, quotas) {
        (Opens::Operator, _) => None,
        // Before the key: whoever has it is never without them.
        (Opens::Caller(caller), Some(change)) => Some(callers::change_quotas(&state, caller, change).await?),
        (Opens::Caller(caller), None) => Some(quotas_of(&state, caller).await?),
    };
    let Made { id, kept, key } = managed_keys::make(&state, name.0, opens).await?;
    tracing::info!(key = %id, ?opens, "an API key was made");
    Ok((StatusCode::CREATED, Json(shown(id, kept, quotas, Some(key)))))
}

pub(super) async fn list(_: Operator, State(state): State<Shared>, query: Query) -> Result<Json<ApiKeys>> {
    let asked = query.page(Cursors::of_operator(&state, "keys"))?;
    let mut rows = managed_keys::list(state.store(), asked.after, asked.limit + 1).await?;
    let next_cursor = asked.page(&mut rows, |(id, _)| *id);
    // Keys of one caller have the same.
    let mut known = BTreeMap::new();
    let mut keys = Vec::with_capacity(rows.len());
    for (id, kept) in rows.into_iter().filter_map(|(id, kept)| Some((id, kept?))) {
        let quotas = match kept.opens {
            Opens::Operator => None,
            Opens::Caller(caller) => match known.get(&caller) {
                Some(quotas) => Some(*quotas),
                None => {
                    let quotas = quotas_of(&state, caller).await?;
                    known.insert(caller, quotas);
                    Some(quotas)
                }
            },
        };
        keys.push(shown(id, kept, quotas, None));
    }
    Ok(Json(ApiKeys { keys, next_cursor }))
}

pub(super) async fn revoke(
    _: Operator,
    State(state): State<Shared>,
    Id(key): Id<ApiKeyId>,
    _: NoQuery,
) -> Result<StatusCode> {
    match managed_keys::revoke(&state, key).await? {
        true => {
            tracing::info!(%key, "an API key was revoked");
            Ok(StatusCode::NO_CONTENT)
        }
        false => Err(ApiError::not_found()),
    }
}

/// `key`: the key itself, in the answer that makes it.
fn shown(key_id: ApiKeyId, kept: ApiKey, quotas: Option<Quotas>, key: Option<String>) -> wire::ApiKey {
    let (kind, caller) = match kept.opens {
        Opens::Caller(caller) => (KeyKind::Caller, Some(caller)),
        Opens::Operator => (KeyKind::Operator, None),
    };
    wire::ApiKey {
        key_id,
        name: kept.name,
        kind: kind.into(),
        caller,
        hint: kept.hint,
        created_at: Time(kept.created),
        revoked_at: kept.revoked.map(Time),
        quotas,
        key,
    }
}
