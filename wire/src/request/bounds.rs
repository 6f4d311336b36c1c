//! Values with limits, which are checked where they are deserialised and described in their schema.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// A text does not follow the rule of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    pub expected: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "must be {}", self.expected)
    }
}

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Within<T, const MIN: u64, const MAX: u64>(pub T);

impl<T, const MIN: u64, const MAX: u64> From<T> for Within<T, MIN, MAX> {
    fn from(number: T) -> Within<T, MIN, MAX> {
        Within(number)
    }
}

impl<'de, T: TryFrom<u64>, const MIN: u64, const MAX: u64> Deserialize<'de> for Within<T, MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(WithinVisitor(PhantomData))
    }
}

struct WithinVisitor<T, const MIN: u64, const MAX: u64>(PhantomData<T>);

impl<T: TryFrom<u64>, const MIN: u64, const MAX: u64> Visitor<'_> for WithinVisitor<T, MIN, MAX> {
    type Value = Within<T, MIN, MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a number from {MIN} to {MAX}")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
        let fits = T::try_from(number).ok().filter(|_| (MIN..=MAX).contains(&number));
        fits.map(Within).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }
}

impl<T: JsonSchema, const MIN: u64, const MAX: u64> JsonSchema for Within<T, MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Within".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = T::json_schema(generator);
        schema.insert("minimum".to_owned(), MIN.into());
        schema.insert("maximum".to_owned(), MAX.into());
        schema
    }
}

/// A number between two numbers of millionths.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Decimal<const MIN: u64, const MAX: u64>(pub f64);

impl<const MIN: u64, const MAX: u64> Decimal<MIN, MAX> {
    const MIN: f64 = MIN as f64 / 1e6;
    const MAX: f64 = MAX as f64 / 1e6;
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Decimal<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_f64(DecimalVisitor)
    }
}

struct DecimalVisitor<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Visitor<'_> for DecimalVisitor<MIN, MAX> {
    type Value = Decimal<MIN, MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a number from {} to {}", Self::Value::MIN, Self::Value::MAX)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
        match (Self::Value::MIN..=Self::Value::MAX).contains(&number) {
            true => Ok(Decimal(number)),
            false => Err(E::invalid_value(Unexpected::Float(number), &self)),
        }
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
        self.visit_f64(number as f64)
    }
}

impl<const MIN: u64, const MAX: u64> JsonSchema for Decimal<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Decimal".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "format": "double", "minimum": Self::MIN, "maximum": Self::MAX})
    }
}

/// A text of `MIN` to `MAX` characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Text<const MIN: usize, const MAX: usize>(pub String);

impl<T: Into<String>, const MIN: usize, const MAX: usize> From<T> for Text<MIN, MAX> {
    fn from(text: T) -> Text<MIN, MAX> {
        Text(text.into())
    }
}

impl<'de, const MIN: usize, const MAX: usize> Deserialize<'de> for Text<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match (MIN..=MAX).contains(&text.chars().count()) {
            true => Ok(Text(text)),
            false => Err(de::Error::custom(format_args!("must have {MIN} to {MAX} characters"))),
        }
    }
}

impl<const MIN: usize, const MAX: usize> JsonSchema for Text<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = json_schema!({"type": "string", "maxLength": MAX});
        if MIN > 0 {
            schema.insert("minLength".to_owned(), MIN.into());
        }
        schema
    }
}

/// A list of `MIN` to `MAX` items. No more than that are ever in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct List<T, const MIN: usize, const MAX: usize>(pub Vec<T>);

impl<T, const MIN: usize, const MAX: usize> FromIterator<T> for List<T, MIN, MAX> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> List<T, MIN, MAX> {
        List(items.into_iter().collect())
    }
}

impl<'de, T: Deserialize<'de>, const MIN: usize, const MAX: usize> Deserialize<'de> for List<T, MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ListVisitor(PhantomData))
    }
}

struct ListVisitor<T, const MIN: usize, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MIN: usize, const MAX: usize> Visitor<'de> for ListVisitor<T, MIN, MAX> {
    type Value = List<T, MIN, MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while items.len() < MAX
            && let Some(item) = seq.next_element()?
        {
            items.push(item);
        }
        let more = items.len() == MAX && seq.next_element::<IgnoredAny>()?.is_some();
        match items.len() < MIN || more {
            true => Err(de::Error::custom(format_args!("must have {MIN} to {MAX} items"))),
            false => Ok(List(items)),
        }
    }
}

impl<T: JsonSchema, const MIN: usize, const MAX: usize> JsonSchema for List<T, MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "List".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let items = generator.subschema_for::<T>();
        let mut schema = json_schema!({"type": "array", "items": items, "maxItems": MAX});
        if MIN > 0 {
            schema.insert("minItems".to_owned(), MIN.into());
        }
        schema
    }
}

/// An object of at most `MAX` values under names of the caller's own. A name that is there twice is kept twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named<T, const MAX: usize>(pub Vec<(String, T)>);

impl<T, const MAX: usize> FromIterator<(String, T)> for Named<T, MAX> {
    fn from_iter<I: IntoIterator<Item = (String, T)>>(items: I) -> Named<T, MAX> {
        Named(items.into_iter().collect())
    }
}

impl<T: Serialize, const MAX: usize> Serialize for Named<T, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        self.0.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        map.end()
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for Named<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(NamedVisitor(PhantomData))
    }
}

struct NamedVisitor<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for NamedVisitor<T, MAX> {
    type Value = Named<T, MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(name) = map.next_key()? {
            if entries.len() == MAX {
                return Err(de::Error::custom(format_args!("must have 0 to {MAX} names")));
            }
            entries.push((name, map.next_value()?));
        }
        Ok(Named(entries))
    }
}

impl<T: JsonSchema, const MAX: usize> JsonSchema for Named<T, MAX> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Named".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let values = generator.subschema_for::<T>();
        json_schema!({"type": "object", "additionalProperties": values, "maxProperties": MAX})
    }
}
