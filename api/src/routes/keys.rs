//! API keys, as operators make, list and revoke them (SPEC 6.24).

use super::callers::{self, quotas_of};
use crate::auth::Operator;
use crate::body::{self, JsonBody};
use crate::cursor::Cursors;
use crate::managed_keys::{self, Made};
use crate::path::{Id, Path};
use crate::problem::{ApiError, Result};
use crate::query::Query;
use crate::show;
use crate::state::Shared;
use crate::warnings::{STRICT, Warnings};
use crate::wire::keys::parse_key;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use conveyor_domain::{ApiKeyId, CallerId, Opens, limits};
use conveyor_wire::{ApiKeys, CreateKey};
use std::collections::BTreeMap;

pub(super) async fn create(
    _: Operator,
    State(state): State<Shared>,
    query: Query,
    request: Request,
) -> Result<Response> {
    let warnings = Warnings::of(&request, &query.only(&[STRICT])?)?;
    let max = limits::SUBMIT_REST_MAX_BYTES.min(state.config.max_body_bytes);
    let JsonBody { bytes, room: _room } = body::read_json(request, max, &state.bodies).await?;
    let CreateKey { name, operator, caller, quotas } = parse_key(&bytes, &warnings)?;
    let new_caller = || CallerId::new(state.now(), &state.entropy);
    let opens = if operator == Some(true) {
        Opens::Operator
    } else {
        Opens::Caller(caller.unwrap_or_else(new_caller))
    };
    let quotas = match (opens, quotas) {
        (Opens::Operator, _) => None,
        // Before the key: whoever has it is never without them.
        (Opens::Caller(caller), Some(change)) => Some(callers::change_quotas(&state, caller, change).await?),
        (Opens::Caller(caller), None) => Some(quotas_of(&state, caller).await?),
    };
    let Made { id, kept, key } = managed_keys::make(&state, name.0, opens).await?;
    tracing::info!(key = %id, ?opens, "an API key was made");
    Ok((StatusCode::CREATED, Json(show::api_key(id, kept, quotas, Some(key)))).into_response())
}

pub(super) async fn list(_: Operator, State(state): State<Shared>, query: Query) -> Result<Response> {
    let query = query.only(&["limit", "cursor"])?;
    let limit = query.limit(limits::PAGE_DEFAULT, limits::PAGE_MAX)?;
    let cursors = Cursors::of_operator(&state, "keys");
    let after = cursors.open(query.get("cursor"))?;
    let mut rows = managed_keys::list(state.store(), after, limit + 1).await?;
    let next_cursor = cursors.page(&mut rows, limit, |(id, _)| *id);
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
        keys.push(show::api_key(id, kept, quotas, None));
    }
    Ok(Json(ApiKeys { keys, next_cursor }).into_response())
}

pub(super) async fn revoke(
    _: Operator,
    State(state): State<Shared>,
    Path(Id(key)): Path<Id<ApiKeyId>>,
    query: Query,
) -> Result<Response> {
    query.none()?;
    match managed_keys::revoke(&state, key).await? {
        true => {
            tracing::info!(%key, "an API key was revoked");
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        false => Err(ApiError::not_found()),
    }
}
