//! Identifiers (SPEC 4). Parsed once at the edge; inside, an id is a type, never a string.

use crate::{Entropy, Timestamp};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use ulid::Ulid;

/// The text is not an id of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid id")]
pub struct InvalidId;

fn parse_from<'de, T: FromStr, D: Deserializer<'de>>(d: D) -> Result<T, D::Error> {
    let text = String::deserialize(d)?;
    text.parse().map_err(|_| de::Error::invalid_value(Unexpected::Str(&text), &"an id"))
}

macro_rules! ulid_id {
    ($name:ident, $about:literal, $example:literal) => {
        #[doc = $about]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Ulid);

        impl $name {
            pub fn new(now: Timestamp, entropy: &Entropy) -> Self {
                Self(entropy.ulid(now))
            }
            pub fn to_bytes(self) -> [u8; 16] {
                self.0.to_bytes()
            }
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Ulid::from_bytes(bytes))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0.to_string())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(s: &str) -> Result<Self, InvalidId> {
                let id = Ulid::from_string(s).map_err(|_| InvalidId)?;
                // One spelling only: lower case, or 26 characters that overflow 128 bits, is another text for the same id.
                if id.to_string() == s { Ok(Self(id)) } else { Err(InvalidId) }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                parse_from(d)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                // 26 characters hold 130 bits: the first has only three.
                json_schema!({
                    "type": "string", "pattern": "^[0-7][0-9A-HJKMNP-TV-Z]{25}$",
                    "description": $about, "examples": [$example],
                })
            }
        }
    };
}

ulid_id!(CallerId, "The id of a caller: a ULID.", "01KCX5Z3E5F7G9H1J3K5M7N9P3");
ulid_id!(JobId, "The id of a job: a ULID, so ids sort by when they were made.", "01KCX5T0Q8H2V4M6N8P0R2S4T6");
ulid_id!(RunId, "The id of a run: a ULID.", "01KCX5T0Q8M3Z7C9D1F5G7H9J1");
ulid_id!(UploadId, "The id of an upload slot, a `file_input_id`: a ULID.", "01KCX5R8W2A4B6C8D0E2F4G6H8");
ulid_id!(ExportId, "The id of an export: a ULID.", "01KCX5Y1D3E5F7G9H1J3K5M7N9");
ulid_id!(WorkerId, "The id of one start of one worker process: a ULID.", "01KCX5SYB3C5D7E9F1G3H5J7K9");
ulid_id!(ApiKeyId, "The id of an API key: a ULID. It is not the key.", "01KCX5Z3E5F7G9H1J3K5M7N9P1");
ulid_id!(
    LetterId,
    "The id of a dead letter: a ULID, the same for every message that asks for the same thing.",
    "01KCX5V3N5P7Q9R1S3T5V7W9X1"
);
ulid_id!(
    EventId,
    "The id of a notification: a ULID, the same for every attempt to deliver it.",
    "01KCX5W7A9B1C3D5E7F9G1H3J5"
);
ulid_id!(KeyId, "The id of a key that signs webhooks: a ULID.", "01KCX5X9C1D3E5F7G9H1J3K5M7");

impl EventId {
    /// As old as the run, and otherwise told by it and a name.
    pub fn derived(run: RunId, name: &str) -> EventId {
        let digest = Sha256::digest(format!("{run}:{name}").as_bytes());
        let mut bytes = run.to_bytes();
        bytes[6..].copy_from_slice(&digest[..10]);
        EventId::from_bytes(bytes)
    }
}

/// A task: 8 hex digits of its index, then 24 of `sha256("{run_id}:{index}")`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    index: u32,
    digest: [u8; 12],
}

impl TaskId {
    /// The id of the task at `index` in a run whose ids are seeded by `seed`.
    pub fn of(seed: RunId, index: u32) -> TaskId {
        let full = Sha256::digest(format!("{seed}:{index}").as_bytes());
        let mut digest = [0; 12];
        digest.copy_from_slice(&full[..12]);
        TaskId { index, digest }
    }

    pub fn index(self) -> u32 {
        self.index
    }

    /// In the order of the text: the index, then the digest.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&self.index.to_be_bytes());
        bytes[4..].copy_from_slice(&self.digest);
        bytes
    }

    pub fn from_bytes(bytes: [u8; 16]) -> TaskId {
        let [a, b, c, d, digest @ ..] = bytes;
        TaskId { index: u32::from_be_bytes([a, b, c, d]), digest }
    }

    /// Whether this id is the one that `seed` gives its index.
    pub fn belongs_to(self, seed: RunId) -> bool {
        self == TaskId::of(seed, self.index)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.index)?;
        self.digest.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskId({self})")
    }
}

impl Serialize for TaskId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TaskId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        parse_from(d)
    }
}

impl JsonSchema for TaskId {
    fn schema_name() -> Cow<'static, str> {
        "TaskId".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string", "pattern": "^[0-9a-f]{32}$",
            "description": "The id of a task: eight hex digits of its place in the list, then a digest.",
            "examples": ["000000003c9e2d3a1b5f7a9c0e4d6b82"],
        })
    }
}

impl FromStr for TaskId {
    type Err = InvalidId;
    fn from_str(s: &str) -> Result<Self, InvalidId> {
        let lower_hex = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        if s.len() != 32 || !s.bytes().all(lower_hex) {
            return Err(InvalidId);
        }
        let index = u32::from_str_radix(&s[..8], 16).map_err(|_| InvalidId)?;
        let mut digest = [0; 12];
        for (i, byte) in digest.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&s[8 + 2 * i..10 + 2 * i], 16).map_err(|_| InvalidId)?;
        }
        Ok(TaskId { index, digest })
    }
}

/// Proof of the latest claim of a task: only its holder can settle it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClaimToken(u64);

impl ClaimToken {
    pub fn new(entropy: &Entropy) -> ClaimToken {
        ClaimToken(entropy.next_u64())
    }
    /// As a signed integer, the form that stores keep.
    pub fn to_stored(self) -> i64 {
        self.0.cast_signed()
    }
    pub fn from_stored(v: i64) -> ClaimToken {
        ClaimToken(v.cast_unsigned())
    }
}

impl fmt::Debug for ClaimToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClaimToken({:016x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn task_id_is_the_documented_digest() {
        // Computed with `printf '01ARZ3NDEKTSV4RRFFQ69G5FAV:7' | sha256sum`.
        let run: RunId = "01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
        let id = TaskId::of(run, 7).to_string();
        assert_eq!(id, format!("00000007{}", SHA256_OF_RUN_AND_7));
    }
    const SHA256_OF_RUN_AND_7: &str = "875016fb84338c37f020c1a9";

    #[test]
    fn one_spelling_per_ulid() {
        assert!("01arz3ndektsv4rrffq69g5fav".parse::<RunId>().is_err());
        assert!("81ARZ3NDEKTSV4RRFFQ69G5FAV".parse::<RunId>().is_err());
        assert!("01ARZ3NDEKTSV4RRFFQ69G5FA".parse::<RunId>().is_err());
    }

    proptest! {
        #[test]
        fn ulids_round_trip(bytes: [u8; 16]) {
            let id = RunId::from_bytes(bytes);
            prop_assert_eq!(id.to_string().parse::<RunId>().unwrap(), id);
            prop_assert_eq!(RunId::from_bytes(id.to_bytes()), id);
        }

        #[test]
        fn task_ids_round_trip_and_sort_in_input_order(bytes: [u8; 16], a: u32, b: u32) {
            let run = RunId::from_bytes(bytes);
            let (x, y) = (TaskId::of(run, a), TaskId::of(run, b));
            prop_assert_eq!(x.to_string().parse::<TaskId>().unwrap(), x);
            prop_assert!(x.belongs_to(run));
            prop_assert_eq!(x.to_string().cmp(&y.to_string()), a.cmp(&b));
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
        }

        #[test]
        fn a_task_id_belongs_to_one_run(a: [u8; 16], b: [u8; 16], index: u32) {
            prop_assume!(a != b);
            prop_assert!(!TaskId::of(RunId::from_bytes(a), index).belongs_to(RunId::from_bytes(b)));
        }

        #[test]
        fn parsing_never_panics(s in "\\PC{0,40}") {
            let _ = s.parse::<TaskId>();
            let _ = s.parse::<JobId>();
        }
    }
}
