//! Whose job it is.

use super::failure::{Failure, patiently};
use crate::secret_text::SecretText;
use conveyor_domain::seal::KeyHash;
use conveyor_domain::{CallerId, Timestamp, limits};
use conveyor_store::Backend;

pub fn check(key: &SecretText) -> Result<(), Failure> {
    let key = key.expose();
    let min = limits::API_KEY_MIN_CHARS;
    if key.chars().count() < min || !key.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(Failure::usage(format!(
            "an API key has at least {min} characters, all of them visible ASCII"
        )));
    }
    Ok(())
}

/// The caller of a key. One that nobody has becomes the former owner's, so that several jobs of one caller stay together.
pub async fn caller_of(
    backend: &Backend,
    key: &SecretText,
    former: CallerId,
    now: Timestamp,
) -> Result<CallerId, Failure> {
    let hash = KeyHash::of(key.expose());
    patiently(|| backend.store.put_key(hash, former, now)).await
}
