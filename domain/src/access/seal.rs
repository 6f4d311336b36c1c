//! What must not be read or forged: forwarded credentials, cursors, result URLs, stored API keys (SPEC 13).

use crate::Entropy;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

const NONCE_BYTES: usize = 24;

/// Ciphertext as text: base64url of nonce and sealed bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sealed(pub String);

/// The text was changed, cut, or sealed for something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sealed text is not authentic")]
pub struct NotAuthentic;

/// The deployment's secret, and the keys derived from it. Prints nothing of itself.
#[derive(Clone)]
pub struct Secret {
    root: [u8; 32],
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// What a sealed text is for. A text sealed for one purpose does not open for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Credential,
    Cursor,
    /// Custom headers of a job, of its tasks, or of a staged list.
    Headers,
    /// What notifications are signed with.
    SigningKey,
    /// What a state machine is answered with.
    TaskToken,
}

impl Purpose {
    fn label(self) -> &'static str {
        match self {
            Purpose::Credential => "conveyor/1/credential",
            Purpose::Cursor => "conveyor/1/cursor",
            Purpose::Headers => "conveyor/1/headers",
            Purpose::SigningKey => "conveyor/1/signing-key",
            Purpose::TaskToken => "conveyor/1/task-token",
        }
    }
}

impl Secret {
    pub fn new(root: [u8; 32]) -> Secret {
        Secret { root }
    }

    /// Seals `plain` so that only the same purpose and `context` (a job id, a caller id) open it.
    pub fn seal(&self, purpose: Purpose, context: &str, plain: &[u8], entropy: &Entropy) -> Sealed {
        let mut nonce = [0u8; NONCE_BYTES];
        entropy.fill(&mut nonce);
        let payload = Payload { msg: plain, aad: context.as_bytes() };
        let sealed = self
            .cipher(purpose)
            .encrypt(&XNonce::from(nonce), payload)
            .expect("sealing fails only past 256 GiB, and what we seal is bounded");
        Sealed(URL_SAFE_NO_PAD.encode([nonce.as_slice(), &sealed].concat()))
    }

    pub fn open(&self, purpose: Purpose, context: &str, sealed: &Sealed) -> Result<Vec<u8>, NotAuthentic> {
        let bytes = URL_SAFE_NO_PAD.decode(&sealed.0).map_err(|_| NotAuthentic)?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE_BYTES>().ok_or(NotAuthentic)?;
        let payload = Payload { msg: sealed, aad: context.as_bytes() };
        self.cipher(purpose).decrypt(&XNonce::from(*nonce), payload).map_err(|_| NotAuthentic)
    }

    /// A signature over `text` for a URL.
    pub fn sign_url(&self, text: &str) -> String {
        URL_SAFE_NO_PAD.encode(self.url_mac(text).finalize().into_bytes())
    }

    pub fn verify_url(&self, text: &str, signature: &str) -> Result<(), NotAuthentic> {
        let given = URL_SAFE_NO_PAD.decode(signature).map_err(|_| NotAuthentic)?;
        // Constant time: a comparison that stops early would tell a forger how far he got.
        self.url_mac(text).verify_slice(&given).map_err(|_| NotAuthentic)
    }

    fn url_mac(&self, text: &str) -> Hmac<Sha256> {
        let mut mac = mac(&self.derive("conveyor/1/url"));
        mac.update(text.as_bytes());
        mac
    }

    fn cipher(&self, purpose: Purpose) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&self.derive(purpose.label()).into())
    }

    fn derive(&self, label: &str) -> [u8; 32] {
        let mut mac = mac(&self.root);
        mac.update(label.as_bytes());
        mac.finalize().into_bytes().into()
    }
}

fn mac(key: &[u8; 32]) -> Hmac<Sha256> {
    Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length")
}

/// What is stored of an API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyHash(pub [u8; 32]);

impl KeyHash {
    pub fn of(key: &str) -> KeyHash {
        KeyHash(Sha256::digest(key.as_bytes()).into())
    }
}

/// As 64 hex digits.
impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for KeyHash {
    type Err = NotAHash;

    fn from_str(text: &str) -> Result<KeyHash, NotAHash> {
        let digits: Option<Vec<u8>> =
            text.chars().map(|digit| u8::try_from(digit.to_digit(16)?).ok()).collect();
        let digits = digits.filter(|digits| digits.len() == 64).ok_or(NotAHash)?;
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair.iter().fold(0, |byte, digit| byte << 4 | digit);
        }
        Ok(KeyHash(hash))
    }
}

impl Serialize for KeyHash {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for KeyHash {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<KeyHash, D::Error> {
        String::deserialize(d)?.parse().map_err(D::Error::custom)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a hash has 64 hex digits")]
pub struct NotAHash;

/// A new API key: 160 random bits behind a prefix that secret scanners can find.
pub fn new_api_key(entropy: &Entropy) -> String {
    let mut bytes = [0u8; 20];
    entropy.fill(&mut bytes);
    bytes.iter().fold("cvr_".to_owned(), |key, b| key + &format!("{b:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn secret(n: u8) -> Secret {
        Secret::new([n; 32])
    }

    proptest! {
        #[test]
        fn opens_what_it_sealed_and_nothing_else(plain: Vec<u8>, context in "[a-z]{0,8}", at: prop::sample::Index, seed: u64) {
            let entropy = Entropy::from_number(seed);
            let sealed = secret(1).seal(Purpose::Cursor, &context, &plain, &entropy);
            prop_assert_eq!(secret(1).open(Purpose::Cursor, &context, &sealed), Ok(plain));
            prop_assert!(secret(2).open(Purpose::Cursor, &context, &sealed).is_err());
            prop_assert!(secret(1).open(Purpose::Credential, &context, &sealed).is_err());
            let other = context.clone() + "x";
            prop_assert!(secret(1).open(Purpose::Cursor, &other, &sealed).is_err());
            let mut bytes = URL_SAFE_NO_PAD.decode(&sealed.0).unwrap();
            let i = at.index(bytes.len());
            bytes[i] ^= 1;
            let edited = Sealed(URL_SAFE_NO_PAD.encode(bytes));
            prop_assert!(secret(1).open(Purpose::Cursor, &context, &edited).is_err());
        }
    }

    #[test]
    fn a_hash_is_written_as_hex_and_read_back() {
        let hash = KeyHash::of("a key");
        assert_eq!(hash.to_string().parse(), Ok(hash));
        for bad in ["", "ab", &"g".repeat(64), &"a".repeat(63), &"ä".repeat(32)] {
            assert_eq!(bad.parse::<KeyHash>(), Err(NotAHash));
        }
    }

    #[test]
    fn a_signature_fits_one_text_and_one_secret() {
        let signature = secret(1).sign_url("/a?expires=1");
        assert!(secret(1).verify_url("/a?expires=1", &signature).is_ok());
        assert!(secret(1).verify_url("/a?expires=2", &signature).is_err());
        assert!(secret(2).verify_url("/a?expires=1", &signature).is_err());
        assert!(secret(1).verify_url("/a?expires=1", "").is_err());
    }
}
