//! Reads: single rows, and all rows of a range. Consistent, unless said otherwise: decisions hang on them.

use super::Table;
use super::item::{Item, readable_items, text};
use super::keys::{GSI1, GSI1_PK, GSI1_SK, GSI2, GSI2_PK, GSI2_SK, PK, RowKey, SK};
use crate::client::count_capacity;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::{
    AttributeValue, ConsumedCapacity, Get, ReturnConsumedCapacity, Select, TransactGetItem,
};
use conveyor_store::port::{Answers, read_each};
use conveyor_store::{Error, Result};
use futures::future::BoxFuture;

/// A range of rows of one partition of the table, or of an index.
#[derive(Clone, Debug)]
pub struct Range {
    index: Option<&'static str>,
    partition: String,
    low: String,
    high: String,
    descending: bool,
    limit: Option<i32>,
    filter: Option<Filter>,
    attributes: Option<&'static str>,
}

#[derive(Clone, Debug)]
pub struct Filter {
    pub expression: &'static str,
    pub values: Vec<(&'static str, AttributeValue)>,
}

/// Sort before and behind every key that we make. Empty is not a key.
const START: &str = " ";
const END: &str = "\u{ffff}";

impl Range {
    /// Rows of a partition whose sort key starts with this.
    pub fn of(partition: String, prefix: &str) -> Range {
        Range::between(partition, prefix.to_owned(), format!("{prefix}{END}"))
    }

    /// Rows from `low` to `high`, both included.
    pub fn between(partition: String, low: String, high: String) -> Range {
        Range {
            index: None,
            partition,
            low,
            high,
            descending: false,
            limit: None,
            filter: None,
            attributes: None,
        }
    }

    pub fn everything(partition: String) -> Range {
        Range::from(partition, START.to_owned())
    }

    pub fn from(partition: String, low: String) -> Range {
        Range::between(partition, low, END.to_owned())
    }

    pub fn up_to(partition: String, high: String) -> Range {
        Range::between(partition, START.to_owned(), high)
    }

    pub fn in_index(mut self, index: &'static str) -> Range {
        self.index = Some(index);
        self
    }

    pub fn descending(mut self) -> Range {
        self.descending = true;
        self
    }

    /// Rows to look at in one call.
    pub fn by(mut self, rows: u32) -> Range {
        self.limit = Some(i32::try_from(rows).unwrap_or(i32::MAX));
        self
    }

    /// Of each row no more than where it is.
    pub fn keys_only(self) -> Range {
        self.with("pk, sk")
    }

    /// Of each row only these attributes.
    pub fn with(mut self, attributes: &'static str) -> Range {
        self.attributes = Some(attributes);
        self
    }

    pub fn only(mut self, filter: Filter) -> Range {
        self.filter = Some(filter);
        self
    }

    fn key_names(&self) -> (&'static str, &'static str) {
        match self.index {
            Some(GSI1) => (GSI1_PK, GSI1_SK),
            Some(GSI2) => (GSI2_PK, GSI2_SK),
            Some(_) | None => (PK, SK),
        }
    }
}

/// What one call returned, and where the next goes on.
#[derive(Debug)]
pub struct Step {
    pub items: Vec<Item>,
    /// Rows that were looked at, whether or not they passed the filter.
    pub scanned: u64,
    /// Read units that it consumed.
    pub units: f64,
    pub next: Option<Item>,
}

impl Table {
    pub async fn get(&self, key: &RowKey) -> Result<Option<Item>> {
        self.get_row(key, true).await
    }

    /// May be a moment old: for what is looked at again, or never changes.
    pub async fn get_stale(&self, key: &RowKey) -> Result<Option<Item>> {
        self.get_row(key, false).await
    }

    async fn get_row(&self, key: &RowKey, consistent: bool) -> Result<Option<Item>> {
        let answer = self
            .dynamodb
            .get_item()
            .table_name(&self.name)
            .set_key(Some(key.attributes()))
            .consistent_read(consistent)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await
            .map_err(|e| self.unavailable("GetItem", &e))?;
        count_capacity("GetItem", "read", answer.consumed_capacity());
        Ok(answer.item)
    }

    /// Two rows as they were at one moment.
    pub async fn get_both(&self, first: &RowKey, second: &RowKey) -> Result<(Option<Item>, Option<Item>)> {
        let mut backoff = self.backoff();
        loop {
            let get = |key: &RowKey| -> Result<TransactGetItem> {
                let get = Get::builder().table_name(&self.name).set_key(Some(key.attributes())).build();
                let get = get.map_err(|e| Error::Corrupt(e.to_string()))?;
                Ok(TransactGetItem::builder().get(get).build())
            };
            let answer = self
                .dynamodb
                .transact_get_items()
                .transact_items(get(first)?)
                .transact_items(get(second)?)
                .return_consumed_capacity(ReturnConsumedCapacity::Total)
                .send()
                .await;
            match answer {
                Ok(answer) => {
                    count_capacity("TransactGetItems", "read", answer.consumed_capacity());
                    let mut items = answer.responses.unwrap_or_default().into_iter().map(|got| got.item);
                    return Ok((items.next().flatten(), items.next().flatten()));
                }
                // Somebody writes to one of them at this moment.
                Err(error)
                    if error.as_service_error().is_some_and(|e| e.is_transaction_canceled_exception()) =>
                {
                    backoff.wait("TransactGetItems").await?;
                }
                Err(error) => return Err(self.unavailable("TransactGetItems", &error)),
            }
        }
    }

    /// One call's worth of a range.
    pub async fn step(&self, range: &Range, from: Option<Item>) -> Result<Step> {
        let answer = self.query(range, from).send().await.map_err(|e| self.unavailable("Query", &e))?;
        count_capacity("Query", "read", answer.consumed_capacity());
        Ok(Step {
            scanned: u64::try_from(answer.scanned_count).unwrap_or(0),
            units: answer.consumed_capacity().and_then(ConsumedCapacity::capacity_units).unwrap_or(0.0),
            next: answer.last_evaluated_key.filter(|key| !key.is_empty()),
            items: answer.items.unwrap_or_default(),
        })
    }

    fn query(&self, range: &Range, from: Option<Item>) -> QueryFluentBuilder {
        let (partition, sort) = range.key_names();
        let mut query = self
            .dynamodb
            .query()
            .table_name(&self.name)
            .set_index_name(range.index.map(str::to_owned))
            .key_condition_expression("#partition = :partition AND #sort BETWEEN :low AND :high")
            .expression_attribute_names("#partition", partition)
            .expression_attribute_names("#sort", sort)
            .expression_attribute_values(":partition", text(&range.partition))
            .expression_attribute_values(":low", text(&range.low))
            .expression_attribute_values(":high", text(&range.high))
            .scan_index_forward(!range.descending)
            // An index is never consistent, and may not be asked to be.
            .consistent_read(range.index.is_none())
            .set_limit(range.limit)
            .set_exclusive_start_key(from)
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        if let Some(attributes) = range.attributes {
            query = query.projection_expression(attributes);
        }
        if let Some(filter) = &range.filter {
            query = query.filter_expression(filter.expression);
            for (name, value) in &filter.values {
                query = query.expression_attribute_values(*name, value.clone());
            }
        }
        query
    }

    /// All rows of a range.
    pub async fn all(&self, range: &Range) -> Result<Vec<Item>> {
        self.first(range, usize::MAX).await
    }

    /// At least `enough` rows of a range, if it has so many.
    pub async fn first(&self, range: &Range, enough: usize) -> Result<Vec<Item>> {
        let (mut items, mut from) = (Vec::new(), None);
        loop {
            let step = self.step(range, from).await?;
            items.extend(step.items);
            from = step.next;
            if from.is_none() || items.len() >= enough {
                return Ok(items);
            }
        }
    }

    /// The first rows of a range that can be read, at most `enough`. Those behind make up for rows that are left out, so a
    /// short page still means that there are no more.
    pub async fn readable<T>(
        &self,
        what: &'static str,
        range: &Range,
        enough: usize,
        decode: impl Fn(&Item) -> Result<T>,
    ) -> Result<Vec<T>> {
        let (mut found, mut from) = (Vec::new(), None);
        loop {
            let step = self.step(range, from).await?;
            found.extend(readable_items(what, &step.items, &decode)?);
            from = step.next;
            if from.is_none() || found.len() >= enough {
                found.truncate(enough);
                return Ok(found);
            }
        }
    }

    /// Things that an index names, each read from the table for itself, at most `enough`. Those behind make up for those that
    /// are left out, so a short page still means that there are no more.
    pub async fn named<'a, K, T>(
        &self,
        what: &'static str,
        range: &Range,
        enough: usize,
        key: impl Fn(&Item) -> Result<K>,
        place: fn(&K) -> (String, String),
        read: impl Fn(K) -> (K, BoxFuture<'a, Result<Option<T>>>),
    ) -> Result<Vec<T>> {
        let (mut found, mut answers, mut from) = (Vec::new(), Answers::default(), None);
        loop {
            let step = self.step(range, from).await?;
            let keys = readable_items(what, &step.items, &key)?;
            let reads = read_each(what, place, keys.into_iter().map(&read).collect()).await;
            found.extend(reads.found.into_iter().filter_map(|(_, thing)| thing));
            answers.add(reads.answers);
            from = step.next;
            if from.is_none() || found.len() >= enough {
                answers.any()?;
                found.truncate(enough);
                return Ok(found);
            }
        }
    }

    /// How many rows of a range there are, counted no further than `enough`.
    pub async fn count(&self, range: &Range, enough: u32) -> Result<u32> {
        let (mut count, mut from) = (0, None);
        loop {
            let query = self.query(range, from).select(Select::Count);
            let answer = query.send().await.map_err(|e| self.unavailable("Query", &e))?;
            count_capacity("Query", "read", answer.consumed_capacity());
            count += u32::try_from(answer.count).unwrap_or(0);
            from = answer.last_evaluated_key.filter(|key| !key.is_empty());
            if from.is_none() || count >= enough {
                return Ok(count);
            }
        }
    }
}
