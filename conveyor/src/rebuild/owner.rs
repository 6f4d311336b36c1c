//! Whose job it is.

use super::failure::{Failure, patiently};
use super::{RebuildArgs, Rebuilder};
use crate::secret_text::SecretText;
use crate::server::{API_KEY_FILE, BackendKind};
use conveyor_domain::{CallerId, KeyHash, Timestamp, limits};
use conveyor_store::Backend;
use std::io::ErrorKind;

conveyor_domain::words! {
    /// What says whose it is.
    pub enum Owner {
        JobRow = "job_row",
        /// `--owner-key`
        Flag = "owner_key",
        /// The key that `conveyor dev` keeps beside its data, and accepts when it starts again.
        KeyFile = "api_key_file",
        /// What the job was accepted with. Keys were rows: there may be none any more.
        Accepted = "accepted",
    }
}

/// A key whose job it shall be, and where it is from.
pub struct OwnerKey {
    pub by: Owner,
    key: SecretText,
}

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

/// The key that was passed; or, for a job that is `made_anew` beside the key of `conveyor dev`, that one.
pub fn key(args: &RebuildArgs, made_anew: bool) -> Result<Option<OwnerKey>, Failure> {
    if let Some(key) = &args.owner_key {
        return Ok(Some(OwnerKey { by: Owner::Flag, key: key.clone() }));
    }
    if !made_anew || args.place.backend != BackendKind::Embedded {
        return Ok(None);
    }
    let file = args.place.data_dir.join(API_KEY_FILE);
    let unusable = |why: String| {
        Failure::usage(format!("the key in {} cannot be used: {why}; pass --owner-key", file.display()))
    };
    match std::fs::read_to_string(&file) {
        Ok(text) => {
            let key = SecretText::from(text.trim().to_owned());
            check(&key).map_err(|failure| unusable(failure.detail().to_owned()))?;
            Ok(Some(OwnerKey { by: Owner::KeyFile, key }))
        }
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(unusable(e.to_string())),
    }
}

impl OwnerKey {
    /// The caller of the key. One that nobody has becomes the former owner's, so that several jobs of one caller stay
    /// together.
    pub async fn put(
        &self,
        backend: &Backend,
        former: CallerId,
        now: Timestamp,
    ) -> Result<CallerId, Failure> {
        patiently(|| backend.store.put_key(KeyHash::of(self.key.expose()), former, now)).await
    }

    /// The caller of the key, if it has one already.
    pub async fn find(&self, backend: &Backend) -> Result<Option<CallerId>, Failure> {
        patiently(|| backend.store.caller_of(KeyHash::of(self.key.expose()))).await
    }
}

impl Rebuilder {
    /// What says that it is this caller's. A key in a file says so only if it is: it may have been made since.
    pub(super) async fn owned_by(
        &self,
        owner: Option<&OwnerKey>,
        caller: CallerId,
        made_anew: bool,
        foreseen: bool,
    ) -> Result<Owner, Failure> {
        Ok(match owner {
            Some(key) if key.by == Owner::Flag => Owner::Flag,
            Some(key) => match key.find(&self.backend).await? {
                Some(found) if found == caller => Owner::KeyFile,
                None if foreseen => Owner::KeyFile,
                _ => Owner::Accepted,
            },
            None if made_anew => Owner::Accepted,
            None => Owner::JobRow,
        })
    }
}
