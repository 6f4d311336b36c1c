//! The key that a caller's notifications are signed with.

use conveyor_domain::delivery::signing_keys::signing_keys_key;
use conveyor_domain::{CallerId, KeyId, Secret, SigningKeys, SigningSecret};
use conveyor_store::{Backend, Error, Result};

/// The active key of a caller, if it has one.
pub(crate) async fn active_key(
    backend: &Backend,
    secret: &Secret,
    caller: CallerId,
) -> Result<Option<(KeyId, SigningSecret)>> {
    let Some(record) = backend.store.record(&signing_keys_key(caller)).await? else { return Ok(None) };
    let keys: SigningKeys = record.parse()?;
    let Some(key) = keys.active else { return Ok(None) };
    let opened = key.open(caller, secret).map_err(|e| Error::Corrupt(e.to_string()))?;
    Ok(Some((key.kid, opened)))
}
