use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// A word of a set that a newer server may have more of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Open<T> {
    Known(T),
    /// As it was sent.
    Other(String),
}

impl<T> Open<T> {
    pub fn known(&self) -> Option<&T> {
        match self {
            Open::Known(word) => Some(word),
            Open::Other(_) => None,
        }
    }
}

impl<T> From<T> for Open<T> {
    fn from(word: T) -> Open<T> {
        Open::Known(word)
    }
}

impl<T: PartialEq> PartialEq<T> for Open<T> {
    fn eq(&self, other: &T) -> bool {
        self.known() == Some(other)
    }
}

impl<T: Serialize> Serialize for Open<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Open::Known(word) => word.serialize(serializer),
            Open::Other(text) => serializer.serialize_str(text),
        }
    }
}

/// As it is on the wire.
impl<T: Serialize> fmt::Display for Open<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Open<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Open<T>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let word: StrDeserializer<'_, Error> = text.as_str().into_deserializer();
        Ok(T::deserialize(word).map_or_else(|_| Open::Other(text), Open::Known))
    }
}

/// The set of the server: it prints no other word.
impl<T: JsonSchema> JsonSchema for Open<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::RunStatus;

    fn read(text: &str) -> Open<RunStatus> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_word_of_a_newer_server_is_kept() {
        assert_eq!(read(r#""pending""#), RunStatus::Pending);
        assert_eq!(read(r#""napping""#), Open::Other("napping".to_owned()));
        for text in ["pending", "napping"] {
            let json = format!("\"{text}\"");
            assert_eq!(serde_json::to_string(&read(&json)).unwrap(), json);
            assert_eq!(read(&json).to_string(), text);
        }
        assert!(serde_json::from_str::<Open<RunStatus>>("1").is_err());
    }
}
