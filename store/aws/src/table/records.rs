//! Small documents beside jobs and runs (SPEC 5.7): those of one owner and kind in one partition, and in the second index by
//! when they are due.

use super::Table;
use super::item::{Draft, Item, Row, corrupt, number, text};
use super::keys::{self, GSI2, GSI2_PK, GSI2_SK, RowKey, TTL};
use super::read::Range;
use super::transact::Condition;
use async_trait::async_trait;
use aws_sdk_dynamodb::types::TransactWriteItem;
use conveyor_domain::job::record::Expected;
use conveyor_domain::{Record, RecordKey, RecordVersion, RecordWrite, Timestamp};
use conveyor_store::Result;
use conveyor_store::port::{DueQuery, RecordStore, RecordsQuery};

const EXPIRES: &str = "xa";

fn encode(record: &Record) -> Item {
    let Record { key, version, doc, due, expires } = record;
    // Whole seconds, never less.
    let ttl = expires.map(|expires| number(expires.as_ms().saturating_add(999) / 1000));
    let draft = Draft::at(&keys::record(key))
        .set("v", number(version.to_stored()))
        .set("doc", text(doc.as_str()))
        .set_some(EXPIRES, expires.map(|expires| number(expires.0)))
        .set_some(TTL, ttl);
    match due {
        None => draft.item(),
        Some(due) => draft
            .set("due", number(due.0))
            .set(GSI2_PK, text(keys::records_due(key.kind)))
            .set(GSI2_SK, text(keys::record_due(*due, key)))
            .item(),
    }
}

fn decode(item: &Item) -> Result<Record> {
    let row = Row(item);
    let time = |name| -> Result<Option<Timestamp>> { Ok(row.find_number(name)?.map(Timestamp)) };
    Ok(Record {
        key: keys::record_of(row.text(keys::PK)?, row.text(keys::SK)?).ok_or_else(|| corrupt("record"))?,
        version: RecordVersion::from_stored(row.number("v")?),
        doc: row.text("doc")?.to_owned(),
        due: time("due")?,
        expires: time(EXPIRES)?,
    })
}

fn condition(expected: Expected) -> Option<Condition> {
    match expected {
        Expected::Anything => None,
        Expected::Absent => Some(Condition::absent()),
        Expected::Version(version) => Some(Condition {
            expression: "v = :version".to_owned(),
            values: vec![(":version", number(version.to_stored()))],
        }),
    }
}

impl Table {
    /// A change of a record, to be part of a transaction.
    pub fn record_write(&self, write: &RecordWrite) -> Result<TransactWriteItem> {
        let condition = condition(write.expected());
        match write {
            RecordWrite::Put { record, .. } => self.put(encode(record), condition),
            RecordWrite::Remove { key, .. } => self.delete(&keys::record(key), condition),
        }
    }

    async fn record_at(&self, key: &RowKey) -> Result<Option<Record>> {
        self.get(key).await?.as_ref().map(decode).transpose()
    }
}

#[async_trait]
impl RecordStore for Table {
    async fn record(&self, key: &RecordKey) -> Result<Option<Record>> {
        self.record_at(&keys::record(key)).await
    }

    /// A transaction, though of one write: its token tells a repeat from a race.
    async fn write_record(&self, write: RecordWrite) -> Result<bool> {
        if self.transact(vec![self.record_write(&write)?]).await?.is_ok() {
            return Ok(true);
        }
        Ok(match &write {
            RecordWrite::Put { record, .. } => {
                self.record(&record.key).await?.is_some_and(|found| found.version == record.version)
            }
            RecordWrite::Remove { .. } => false,
        })
    }

    async fn records(&self, query: RecordsQuery) -> Result<Vec<Record>> {
        let RecordsQuery { kind, owner, after, newest_first, limit } = query;
        let partition = keys::records_of(kind, &owner);
        let range = match (after.clone(), newest_first) {
            (Some(after), true) => Range::up_to(partition, after).descending(),
            (None, true) => Range::everything(partition).descending(),
            (Some(after), false) => Range::from(partition, after),
            (None, false) => Range::everything(partition),
        };
        // One more, as the one that is named is in the range.
        let wanted = limit.saturating_add(1);
        let mut records = self.readable("record", &range.by(wanted), wanted as usize, decode).await?;
        records.retain(|record| Some(&record.key.id) != after.as_ref());
        records.truncate(limit as usize);
        Ok(records)
    }

    async fn due_keys(&self, query: DueQuery) -> Result<Vec<(Timestamp, RecordKey)>> {
        let DueQuery { kind, by, after, newest_first, limit } = query;
        let (partition, until) = (keys::records_due(kind), keys::due_by(by));
        let from = after.as_ref().map(|(since, key)| keys::record_due(*since, key));
        let range = match (from.clone(), newest_first) {
            (Some(from), true) => Range::up_to(partition, from).descending(),
            (None, true) => Range::up_to(partition, until).descending(),
            (Some(from), false) => Range::between(partition, from, until),
            (None, false) => Range::up_to(partition, until),
        };
        // One more, as the one that is named is in the range.
        let wanted = limit.saturating_add(1);
        let decode = |item: &Item| {
            let sort = Row(item).text(GSI2_SK)?.to_owned();
            let key = keys::due_of(kind, &sort).ok_or_else(|| corrupt("time of a record"))?;
            Ok((sort, key))
        };
        let range = range.in_index(GSI2).by(wanted);
        let mut found = self.readable("record", &range, wanted as usize, decode).await?;
        found.retain(|(sort, _)| from.as_ref() != Some(sort));
        let mut found: Vec<_> = found.into_iter().map(|(_, key)| key).collect();
        found.truncate(limit as usize);
        Ok(found)
    }
}
