//! Messages that were given up (SPEC 6.15).

use super::reader::Lane;
use super::{Embedded, codec};
use crate::port::{DeadLetterStore, Result};
use async_trait::async_trait;
use conveyor_domain::{DeadLetter, LetterId, Timestamp};
use rusqlite::{OptionalExtension, Row, params};

const COLUMNS: &str = "letter_id, body, first_ms, last_ms, redrives";

fn decode(row: &Row<'_>) -> rusqlite::Result<DeadLetter> {
    Ok(DeadLetter {
        id: LetterId::from_bytes(row.get(0)?),
        body: row.get(1)?,
        first: Timestamp(row.get(2)?),
        last: Timestamp(row.get(3)?),
        redrives: row.get(4)?,
    })
}

#[async_trait]
impl DeadLetterStore for Embedded {
    async fn keep_letter(&self, letter: DeadLetter) -> Result<()> {
        self.write(move |connection| {
            connection
                .prepare_cached(&format!(
                    "INSERT INTO dead_letters ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5)
                     ON CONFLICT (letter_id) DO UPDATE SET body = excluded.body, last_ms = excluded.last_ms"
                ))?
                .execute(params![
                    letter.id.to_bytes(),
                    letter.body,
                    letter.first.0,
                    letter.last.0,
                    letter.redrives
                ])?;
            Ok(())
        })
        .await
    }

    async fn letter(&self, letter: LetterId) -> Result<Option<DeadLetter>> {
        self.read(Lane::Points, move |connection| {
            let mut statement = connection
                .prepare_cached(&format!("SELECT {COLUMNS} FROM dead_letters WHERE letter_id = ?1"))?;
            Ok(statement.query_row([letter.to_bytes()], decode).optional()?)
        })
        .await
    }

    async fn letters(&self, after: Option<LetterId>, limit: u32) -> Result<Vec<DeadLetter>> {
        self.read(Lane::Lists, move |connection| {
            let mut statement = connection.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM dead_letters WHERE letter_id > coalesce(?1, x'')
                 ORDER BY letter_id"
            ))?;
            let after = [after.map(LetterId::to_bytes)];
            codec::readable("dead_letter", &mut statement, after, limit, |row| Ok(decode(row)?))
        })
        .await
    }

    async fn count_redrive(&self, letter: LetterId, seen: u32) -> Result<bool> {
        self.write(move |connection| {
            let counted = connection
                .prepare_cached(
                    "UPDATE dead_letters SET redrives = redrives + 1 WHERE letter_id = ?1 AND redrives = ?2",
                )?
                .execute(params![letter.to_bytes(), seen])?;
            Ok(counted == 1)
        })
        .await
    }

    async fn forget_letter(&self, letter: LetterId) -> Result<()> {
        self.write(move |connection| {
            connection
                .prepare_cached("DELETE FROM dead_letters WHERE letter_id = ?1")?
                .execute([letter.to_bytes()])?;
            Ok(())
        })
        .await
    }
}
