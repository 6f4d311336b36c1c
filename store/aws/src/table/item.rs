//! Rows as DynamoDB has them: attributes by name, read and written without guessing.

use super::keys::{PK, RowKey, SK};
use aws_sdk_dynamodb::types::AttributeValue;
use conveyor_domain::Timestamp;
use conveyor_store::port::readable;
use conveyor_store::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

pub type Item = HashMap<String, AttributeValue>;

pub fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

pub fn number(value: impl Display) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

pub fn json<T: Serialize>(value: &T) -> Result<AttributeValue> {
    serde_json::to_string(value).map(AttributeValue::S).map_err(|e| Error::Corrupt(e.to_string()))
}

/// The time to live of a row that is kept for so long from now on: whole seconds, never less.
pub fn time_to_live(now: Timestamp, kept: Duration) -> AttributeValue {
    number(now.after(kept).as_ms().saturating_add(999) / 1000)
}

pub fn corrupt(what: &str) -> Error {
    Error::Corrupt(what.to_owned())
}

impl RowKey {
    pub fn attributes(&self) -> Item {
        Item::from([(PK.to_owned(), text(&self.pk)), (SK.to_owned(), text(&self.sk))])
    }
}

/// A row on its way into the table.
#[derive(Debug)]
pub struct Draft(Item);

impl Draft {
    pub fn at(key: &RowKey) -> Draft {
        Draft(key.attributes())
    }

    pub fn set(mut self, name: &str, value: AttributeValue) -> Draft {
        self.0.insert(name.to_owned(), value);
        self
    }

    pub fn set_some(self, name: &str, value: Option<AttributeValue>) -> Draft {
        match value {
            Some(value) => self.set(name, value),
            None => self,
        }
    }

    pub fn item(self) -> Item {
        self.0
    }
}

/// What these rows say, of those that can be read.
pub fn readable_items<T>(
    what: &'static str,
    items: &[Item],
    decode: impl Fn(&Item) -> Result<T>,
) -> Result<Vec<T>> {
    let read = |item: &Item| readable(what, || name_of(item), decode(item));
    items.iter().filter_map(|item| read(item).transpose()).collect()
}

/// What a row is called in the log.
pub fn name_of(item: &Item) -> String {
    let of = |name| Row(item).text(name).unwrap_or("?");
    format!("{} {}", of(PK), of(SK))
}

/// A row that was read.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a>(pub &'a Item);

impl<'a> Row<'a> {
    pub fn find_text(self, name: &str) -> Result<Option<&'a str>> {
        match self.0.get(name) {
            None => Ok(None),
            Some(AttributeValue::S(text)) => Ok(Some(text)),
            Some(_) => Err(corrupt(name)),
        }
    }

    pub fn text(self, name: &str) -> Result<&'a str> {
        self.find_text(name)?.ok_or_else(|| corrupt(name))
    }

    /// Something that is written as text: an id.
    pub fn parsed<T: FromStr>(self, name: &str) -> Result<T> {
        self.text(name)?.parse().map_err(|_| corrupt(name))
    }

    pub fn find_number<T: FromStr>(self, name: &str) -> Result<Option<T>> {
        match self.0.get(name) {
            None => Ok(None),
            Some(AttributeValue::N(digits)) => digits.parse().map(Some).map_err(|_| corrupt(name)),
            Some(_) => Err(corrupt(name)),
        }
    }

    pub fn number<T: FromStr>(self, name: &str) -> Result<T> {
        self.find_number(name)?.ok_or_else(|| corrupt(name))
    }

    pub fn find_json<T: DeserializeOwned>(self, name: &str) -> Result<Option<T>> {
        let Some(text) = self.find_text(name)? else { return Ok(None) };
        serde_json::from_str(text).map(Some).map_err(|e| Error::Corrupt(format!("stored document: {e}")))
    }

    pub fn json<T: DeserializeOwned>(self, name: &str) -> Result<T> {
        self.find_json(name)?.ok_or_else(|| corrupt(name))
    }
}
