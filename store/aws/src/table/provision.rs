//! Creates the table, and brings one that is there up to date. Safe to repeat.

use super::keys::{GSI1, GSI1_PK, GSI1_SK, GSI2, GSI2_PK, GSI2_SK, PK, SK, TTL};
use crate::error::unavailable;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, IndexStatus, KeySchemaElement, KeyType,
    Projection, ProjectionType, ScalarAttributeType, TableDescription, TableStatus, TimeToLiveSpecification,
    TimeToLiveStatus,
};
use conveyor_store::{Error, Result};
use std::ops::RangeInclusive;
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(200);
const READY_WITHIN: Duration = Duration::from_secs(180);
const NAME_CHARS: RangeInclusive<usize> = 3..=255;

/// True if the table was created, false if it was there.
pub async fn provision(dynamodb: &Client, table: &str) -> Result<bool> {
    let created = match describe(dynamodb, table).await? {
        Some(found) => {
            check_keys(&found)?;
            false
        }
        None => create(dynamodb, table).await?,
    };
    let ready = wait_until_ready(dynamodb, table);
    let late = |_| Error::Unavailable(format!("the table {table} does not become ready"));
    tokio::time::timeout(READY_WITHIN, ready).await.map_err(late)??;
    expire_rows(dynamodb, table).await?;
    Ok(created)
}

async fn describe(dynamodb: &Client, table: &str) -> Result<Option<TableDescription>> {
    match dynamodb.describe_table().table_name(table).send().await {
        Ok(answer) => Ok(answer.table),
        Err(e) if e.as_service_error().is_some_and(|e| e.is_resource_not_found_exception()) => Ok(None),
        Err(e) => Err(unavailable("DescribeTable", &e)),
    }
}

/// What DynamoDB takes as a name.
pub fn check_name(table: &str) -> Result<()> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if NAME_CHARS.contains(&table.len()) && table.chars().all(legal) {
        return Ok(());
    }
    let (min, max) = (NAME_CHARS.start(), NAME_CHARS.end());
    Err(Error::Conflict(format!(
        "the table name {table:?} is not {min} to {max} letters, digits, hyphens, underscores and dots"
    )))
}

/// Whether a table of this name can be created or used.
pub async fn check(dynamodb: &Client, table: &str) -> Result<()> {
    describe(dynamodb, table).await?.as_ref().map_or(Ok(()), check_keys)
}

/// A table of this name that is not ours is left alone.
fn check_keys(found: &TableDescription) -> Result<()> {
    let keys: Vec<&str> = found.key_schema().iter().map(|key| key.attribute_name()).collect();
    let indexes: Vec<&str> =
        found.global_secondary_indexes().iter().filter_map(|index| index.index_name()).collect();
    if keys == [PK, SK] && [GSI1, GSI2].iter().all(|index| indexes.contains(index)) {
        return Ok(());
    }
    let name = found.table_name().unwrap_or("?");
    Err(Error::Conflict(format!("there is a table {name} with other keys or indexes; choose another name")))
}

async fn create(dynamodb: &Client, table: &str) -> Result<bool> {
    let text = |name: &str| {
        built(
            AttributeDefinition::builder()
                .attribute_name(name)
                .attribute_type(ScalarAttributeType::S)
                .build(),
        )
    };
    let mut call = dynamodb.create_table().table_name(table).billing_mode(BillingMode::PayPerRequest);
    for name in [PK, SK, GSI1_PK, GSI1_SK, GSI2_PK, GSI2_SK] {
        call = call.attribute_definitions(text(name)?);
    }
    for key in schema(PK, SK)? {
        call = call.key_schema(key);
    }
    let counted = Projection::builder()
        .projection_type(ProjectionType::Include)
        .set_non_key_attributes(Some(vec!["st".to_owned(), "ex".to_owned()]))
        .build();
    let keys_only = Projection::builder().projection_type(ProjectionType::KeysOnly).build();
    let answer = call
        .global_secondary_indexes(index(GSI1, schema(GSI1_PK, GSI1_SK)?, counted)?)
        .global_secondary_indexes(index(GSI2, schema(GSI2_PK, GSI2_SK)?, keys_only)?)
        .send()
        .await;
    match answer {
        Ok(_) => Ok(true),
        // Somebody else was quicker.
        Err(e) if e.as_service_error().is_some_and(|e| e.is_resource_in_use_exception()) => Ok(false),
        Err(e) => Err(unavailable("CreateTable", &e)),
    }
}

fn schema(partition: &str, sort: &str) -> Result<Vec<KeySchemaElement>> {
    let key =
        |name: &str, kind| built(KeySchemaElement::builder().attribute_name(name).key_type(kind).build());
    Ok(vec![key(partition, KeyType::Hash)?, key(sort, KeyType::Range)?])
}

fn index(name: &str, schema: Vec<KeySchemaElement>, projection: Projection) -> Result<GlobalSecondaryIndex> {
    built(
        GlobalSecondaryIndex::builder()
            .index_name(name)
            .set_key_schema(Some(schema))
            .projection(projection)
            .build(),
    )
}

fn built<T>(built: std::result::Result<T, BuildError>) -> Result<T> {
    built.map_err(|e| Error::Corrupt(e.to_string()))
}

async fn wait_until_ready(dynamodb: &Client, table: &str) -> Result<()> {
    loop {
        if let Some(found) = describe(dynamodb, table).await? {
            let indexes = found.global_secondary_indexes();
            let active = |status: Option<&IndexStatus>| status.is_none_or(|s| *s == IndexStatus::Active);
            if found.table_status() == Some(&TableStatus::Active)
                && indexes.iter().all(|index| active(index.index_status()))
            {
                return Ok(());
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn expire_rows(dynamodb: &Client, table: &str) -> Result<()> {
    let found = dynamodb.describe_time_to_live().table_name(table).send().await;
    let found = found.map_err(|e| unavailable("DescribeTimeToLive", &e))?;
    let status = found.time_to_live_description().and_then(|ttl| ttl.time_to_live_status());
    if matches!(status, Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)) {
        return Ok(());
    }
    let ttl = built(TimeToLiveSpecification::builder().enabled(true).attribute_name(TTL).build())?;
    let answer =
        dynamodb.update_time_to_live().table_name(table).time_to_live_specification(ttl).send().await;
    answer.map(drop).map_err(|e| unavailable("UpdateTimeToLive", &e))
}

#[cfg(test)]
mod tests {
    use super::check_name;

    #[test]
    fn a_table_name_that_dynamodb_would_refuse_is_refused() {
        check_name("conveyor.prod_1-a").unwrap();
        for bad in ["", "ab", "a b", "tabelle-ü", &"t".repeat(256)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
