//! Keys that operators make, and revoke (SPEC 6.24).
//!
//! A key is made record first, then what it is found by: a crash between leaves a record of a key that nobody was given. It
//! is revoked in the same order: a crash between leaves a key that the record says is revoked, and a repeat goes on; until
//! then an operator key is refused by its record alone, and a caller's by the next start of an API that is given keys.

use crate::problem::{ApiError, Code, Result};
use crate::state::ApiState;
use conveyor_domain::job::record::Expected;
use conveyor_domain::{
    ApiKey, ApiKeyId, KeyHash, Opens, OperatorHash, Record, RecordKind, RecordVersion, RecordWrite,
    Timestamp, api_key,
};
use conveyor_store::port::{RecordsQuery, readable};
use conveyor_store::{Error, Store};
use std::collections::HashSet;

const PAGE: u32 = 1_000;
/// Two operators who revoke one key at once meet once.
const TRIES_MAX: u32 = 8;

/// A key, made: what is kept of it, and the one look at itself.
#[derive(Debug)]
pub(crate) struct Made {
    pub id: ApiKeyId,
    pub kept: ApiKey,
    pub key: String,
}

pub(crate) async fn make(state: &ApiState, name: String, opens: Opens) -> Result<Made> {
    let now = state.now();
    let id = ApiKeyId::new(now, &state.entropy);
    let (key, kept) = ApiKey::make(name, opens, now, &state.entropy);
    let version = || RecordVersion::new(&state.entropy);
    let record = Record::new(api_key::record_key(id), version(), &kept);
    write_new(state.store(), record).await?;
    match opens {
        Opens::Operator => {
            let index = Record::new(api_key::operator_key(kept.hash), version(), &OperatorHash { key: id });
            write_new(state.store(), index).await?;
        }
        Opens::Caller(caller) => {
            let owner = state.store().put_key(kept.hash, caller, now).await?;
            if owner != caller {
                return Err(ApiError::internal("a new API key is somebody's already"));
            }
            // Whoever revoked it before it could be found revoked nothing: the row was not there yet.
            if !find(state.store(), id).await?.is_some_and(|(_, kept)| kept.is_accepted()) {
                state.store().revoke_key(kept.hash, state.now()).await?;
                return Err(ApiError::new(Code::Conflict, "The key was revoked while it was made."));
            }
        }
    }
    Ok(Made { id, kept, key })
}

async fn write_new(store: &dyn Store, record: Record) -> Result<()> {
    match store.write_record(RecordWrite::put(record, Expected::Absent)).await? {
        true => Ok(()),
        false => Err(ApiError::internal("there is a record of a new API key already")),
    }
}

/// Revokes a key; one that is revoked already stays so since then. False if there is no such key.
pub(crate) async fn revoke(state: &ApiState, id: ApiKeyId) -> Result<bool> {
    let store = state.store();
    for _ in 0..TRIES_MAX {
        let Some((record, mut kept)) = find(store, id).await? else { return Ok(false) };
        if kept.is_accepted() {
            kept.revoked = Some(state.now());
            let next = Record::new(record.key, RecordVersion::new(&state.entropy), &kept);
            if !store.write_record(RecordWrite::put(next, Expected::Version(record.version))).await? {
                continue;
            }
        }
        // Also if it was revoked before: whoever did may have got no further.
        let revoked = match kept.opens {
            Opens::Caller(_) => store.revoke_key(kept.hash, state.now()).await,
            Opens::Operator => {
                let index = api_key::operator_key(kept.hash);
                store.write_record(RecordWrite::remove(index, Expected::Anything)).await.map(drop)
            }
        };
        // Also after an error: the write may have happened.
        state.keys.forget(kept.hash);
        revoked?;
        return Ok(true);
    }
    Err(ApiError::new(Code::Unavailable, "The key is being changed by somebody else; repeat it."))
}

async fn find(store: &dyn Store, id: ApiKeyId) -> conveyor_store::Result<Option<(Record, ApiKey)>> {
    let Some(record) = store.record(&api_key::record_key(id)).await? else { return Ok(None) };
    let kept = record.parse()?;
    Ok(Some((record, kept)))
}

/// Whether it is an operator key that is not revoked. Looked up by its hash: how long that takes tells nothing about keys.
pub(crate) async fn is_operator(store: &dyn Store, hash: KeyHash) -> conveyor_store::Result<bool> {
    let Some(index) = store.record(&api_key::operator_key(hash)).await? else { return Ok(false) };
    let OperatorHash { key } = index.parse()?;
    let found = find(store, key).await?;
    Ok(found
        .is_some_and(|(_, kept)| kept.is_accepted() && kept.hash == hash && kept.opens == Opens::Operator))
}

/// A page of keys, the newest first. One whose record cannot be read has only its id.
pub(crate) async fn list(
    store: &dyn Store,
    after: Option<ApiKeyId>,
    limit: u32,
) -> conveyor_store::Result<Vec<(ApiKeyId, Option<ApiKey>)>> {
    let query = RecordsQuery {
        kind: RecordKind::ApiKey,
        owner: api_key::owner().to_owned(),
        after: after.map(|id| id.to_string()),
        newest_first: true,
        limit,
    };
    let read = |record: &Record| {
        let id = record.key.id.parse().map_err(|_| Error::Corrupt("id of an API key".to_owned()))?;
        let key = readable("api_key", || record.key.id.clone(), record.parse().map_err(Error::from))?;
        Ok((id, key))
    };
    store.records(query).await?.iter().map(read).collect()
}

/// What becomes of keys that are accepted, but neither configured nor made by an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbsentKeys {
    /// Another API of the fleet may have been started with them.
    Keep,
    Revoke,
}

/// Settles which keys are accepted when an API starts (SPEC 6.24). Keys that operators revoked are revoked in any case;
/// returned are those that are absent, in the order of their hashes.
pub async fn settle_keys(
    store: &dyn Store,
    configured: impl IntoIterator<Item = KeyHash>,
    absent_keys: AbsentKeys,
    now: Timestamp,
) -> conveyor_store::Result<Vec<KeyHash>> {
    // First what is accepted, then the records, which are written before: a key that is made meanwhile is not taken for one
    // that nobody wants.
    let accepted = store.accepted_keys().await?;
    let mut wanted: HashSet<KeyHash> = configured.into_iter().collect();
    let mut unwanted = HashSet::new();
    let (mut after, mut unreadable) = (None, false);
    loop {
        let page = list(store, after, PAGE).await?;
        after = page.last().map(|(id, _)| *id);
        unreadable |= page.iter().any(|(_, key)| key.is_none());
        for key in page.iter().filter_map(|(_, key)| key.as_ref()) {
            if key.is_accepted() {
                wanted.insert(key.hash)
            } else {
                unwanted.insert(key.hash)
            };
        }
        if page.len() < PAGE as usize {
            break;
        }
    }
    if unreadable {
        // One of those that seem to be wanted by nobody may be the one that cannot be read.
        tracing::error!("the record of an API key cannot be read; no key is revoked");
        return Ok(Vec::new());
    }
    let mut absent = Vec::new();
    for key in accepted.into_iter().filter(|key| !wanted.contains(key)) {
        let is_absent = !unwanted.contains(&key);
        if is_absent {
            absent.push(key);
        }
        if !is_absent || absent_keys == AbsentKeys::Revoke {
            store.revoke_key(key, now).await?;
        }
    }
    absent.sort_by_key(|key| key.0);
    Ok(absent)
}
