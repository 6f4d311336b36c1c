//! What a caller's notifications are signed with: the key that is used, and the one that takes its place (SPEC 6.21, 13).

use crate::{
    CallerId, Entropy, EventId, KeyId, NotAuthentic, Purpose, RecordKey, RecordKind, Sealed, Secret,
    Timestamp,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::fmt;

/// Stored as JSON: new fields need a default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningKeys {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<SigningKey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<SigningKey>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningKey {
    pub kid: KeyId,
    secret: Sealed,
    pub created: Timestamp,
}

/// Why a rotation cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RotationRefused {
    #[error("a new key was made already: finalize or cancel it first")]
    CandidatePending,
    #[error("there is no new key")]
    NoCandidate,
}

/// Where the keys of a caller are.
pub fn signing_keys_key(caller: CallerId) -> RecordKey {
    RecordKey::new(RecordKind::SigningKeys, caller, "keys")
}

impl SigningKeys {
    /// The first key is active at once: there is none that receivers know, so nothing to take over from.
    pub fn rotate(&self, key: SigningKey) -> Result<SigningKeys, RotationRefused> {
        match (&self.active, &self.candidate) {
            (_, Some(_)) => Err(RotationRefused::CandidatePending),
            (None, None) => Ok(SigningKeys { active: Some(key), candidate: None }),
            (Some(_), None) => Ok(SigningKeys { active: self.active.clone(), candidate: Some(key) }),
        }
    }

    pub fn finalize(&self) -> Result<SigningKeys, RotationRefused> {
        let active = self.candidate.clone().ok_or(RotationRefused::NoCandidate)?;
        Ok(SigningKeys { active: Some(active), candidate: None })
    }

    /// Without a candidate there is nothing to cancel, and nothing changes.
    pub fn cancel(&self) -> SigningKeys {
        SigningKeys { active: self.active.clone(), candidate: None }
    }
}

/// 32 random bytes. Prints nothing of itself.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecret([u8; 32]);

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret")
    }
}

impl SigningSecret {
    pub fn new(entropy: &Entropy) -> SigningSecret {
        let mut bytes = [0; 32];
        entropy.fill(&mut bytes);
        SigningSecret(bytes)
    }

    /// As its owner is shown it, once.
    pub fn expose(&self) -> String {
        STANDARD.encode(self.0)
    }

    fn mac(&self, parts: &[&str]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        parts.iter().for_each(|part| mac.update(part.as_bytes()));
        mac.finalize().into_bytes().into()
    }
}

impl SigningKey {
    pub fn new(
        caller: CallerId,
        kid: KeyId,
        signing: &SigningSecret,
        now: Timestamp,
        secret: &Secret,
        entropy: &Entropy,
    ) -> SigningKey {
        let sealed = secret.seal(Purpose::SigningKey, &context(caller, kid), &signing.0, entropy);
        SigningKey { kid, secret: sealed, created: now }
    }

    pub fn open(&self, caller: CallerId, secret: &Secret) -> Result<SigningSecret, NotAuthentic> {
        let bytes = secret.open(Purpose::SigningKey, &context(caller, self.kid), &self.secret)?;
        bytes.try_into().map(SigningSecret).map_err(|_| NotAuthentic)
    }
}

fn context(caller: CallerId, kid: KeyId) -> String {
    format!("{caller}/{kid}")
}

/// The headers that say which event a delivery is, and when it was sent. `now`: of this try, so that receivers can refuse what
/// is old.
pub fn event_headers(event: EventId, now: Timestamp) -> Vec<(&'static str, String)> {
    vec![
        ("x-zenrows-event-id", event.to_string()),
        ("webhook-id", event.to_string()),
        ("webhook-timestamp", seconds(now)),
    ]
}

/// The headers that prove who sent it: that of the batch client, and that of Standard Webhooks.
pub fn signature_headers(
    signing: &SigningSecret,
    kid: KeyId,
    event: EventId,
    now: Timestamp,
    body: &str,
) -> Vec<(&'static str, String)> {
    let (t, id) = (seconds(now), event.to_string());
    let hex = signing.mac(&[&t, ".", body]).iter().fold(String::new(), |hex, b| hex + &format!("{b:02x}"));
    let standard = STANDARD.encode(signing.mac(&[&id, ".", &t, ".", body]));
    vec![
        ("x-signature", format!("t={t},v1={hex},kid={kid}")),
        ("webhook-signature", format!("v1,{standard}")),
    ]
}

fn seconds(now: Timestamp) -> String {
    now.0.div_euclid(1_000).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLER: CallerId = CallerId::from_bytes([1; 16]);

    fn key(n: u8) -> SigningKey {
        let entropy = Entropy::from_number(u64::from(n));
        let signing = SigningSecret([n; 32]);
        SigningKey::new(
            CALLER,
            KeyId::from_bytes([n; 16]),
            &signing,
            Timestamp(0),
            &Secret::new([9; 32]),
            &entropy,
        )
    }

    #[test]
    fn a_rotation_is_made_and_then_finalized_or_cancelled() {
        let none = SigningKeys::default();
        assert_eq!(none.finalize(), Err(RotationRefused::NoCandidate));
        assert_eq!(none.cancel(), none);
        let first = none.rotate(key(1)).unwrap();
        assert_eq!((&first.active, &first.candidate), (&Some(key(1)), &None), "the first signs at once");
        assert_eq!(first.finalize(), Err(RotationRefused::NoCandidate));
        let second = first.rotate(key(2)).unwrap();
        assert_eq!(second.rotate(key(3)), Err(RotationRefused::CandidatePending));
        assert_eq!(second.active, Some(key(1)), "deliveries go on under the old one");
        assert_eq!(second.cancel(), first);
        assert_eq!(second.finalize().unwrap(), SigningKeys { active: Some(key(2)), candidate: None });
    }

    #[test]
    fn a_secret_opens_for_its_caller_and_its_key_only() {
        let (secret, mine) = (Secret::new([9; 32]), key(1));
        assert_eq!(mine.open(CALLER, &secret), Ok(SigningSecret([1; 32])));
        assert!(mine.open(CallerId::from_bytes([2; 16]), &secret).is_err());
        assert!(
            SigningKey { kid: KeyId::from_bytes([7; 16]), ..mine.clone() }.open(CALLER, &secret).is_err()
        );
        let stored = serde_json::to_string(&SigningKeys { active: Some(mine), candidate: None }).unwrap();
        assert!(!stored.contains(&SigningSecret([1; 32]).expose()));
    }

    /// Computed with `printf '1767225600.{"a":1}' | openssl dgst -sha256 -mac HMAC -macopt hexkey:0101...`, and with the id in front.
    #[test]
    fn signatures_are_those_of_the_documents() {
        let event = EventId::from_bytes([0; 16]);
        let headers = signature_headers(
            &SigningSecret([1; 32]),
            KeyId::from_bytes([0; 16]),
            event,
            Timestamp(1_767_225_600_999),
            r#"{"a":1}"#,
        );
        let kid = "00000000000000000000000000";
        assert_eq!(headers[0], ("x-signature", format!("t=1767225600,v1={HEX},kid={kid}")));
        assert_eq!(headers[1], ("webhook-signature", format!("v1,{BASE64}")));
    }
    const HEX: &str = "6326a43c0a33a0a4a9be9c6ad046a0edf3b7b116a2ca6dfd5fceec22b8432434";
    const BASE64: &str = "eZpgaeTR32MjIS48OQHgmxTlAGWgIDhUG5jqsBs2H8U=";
}
