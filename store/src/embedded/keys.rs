//! API keys.

use super::Embedded;
use super::codec::corrupt;
use super::reader::Lane;
use crate::port::{KeyStore, Result};
use async_trait::async_trait;
use conveyor_domain::{CallerId, KeyHash, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

fn find(connection: &Connection, key: KeyHash) -> Result<Option<CallerId>> {
    let mut statement =
        connection.prepare_cached("SELECT caller_id FROM api_keys WHERE hash = ?1 AND revoked_ms IS NULL")?;
    let found: Option<Vec<u8>> = statement.query_row([key.0], |row| row.get(0)).optional()?;
    let id = |bytes: Vec<u8>| bytes.try_into().map(CallerId::from_bytes).map_err(|_| corrupt("caller id"));
    found.map(id).transpose()
}

#[async_trait]
impl KeyStore for Embedded {
    async fn put_key(&self, key: KeyHash, caller: CallerId, now: Timestamp) -> Result<CallerId> {
        self.write(move |connection| {
            connection
                .prepare_cached(
                    "INSERT INTO api_keys (hash, caller_id, created_ms) VALUES (?1, ?2, ?3)
                     ON CONFLICT (hash) DO UPDATE SET revoked_ms = NULL",
                )?
                .execute(params![key.0, caller.to_bytes(), now.0])?;
            find(connection, key)?.ok_or_else(|| corrupt("api key"))
        })
        .await
    }

    async fn revoke_key(&self, key: KeyHash, now: Timestamp) -> Result<()> {
        self.write(move |connection| {
            connection
                .prepare_cached("UPDATE api_keys SET revoked_ms = ?2 WHERE hash = ?1 AND revoked_ms IS NULL")?
                .execute(params![key.0, now.0])?;
            Ok(())
        })
        .await
    }

    async fn accepted_keys(&self) -> Result<Vec<KeyHash>> {
        self.read(Lane::Work, |connection| {
            let mut live = connection.prepare_cached("SELECT hash FROM api_keys WHERE revoked_ms IS NULL")?;
            let hashes = live.query_map([], |row| row.get(0).map(KeyHash))?;
            Ok(hashes.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    async fn caller_of(&self, key: KeyHash) -> Result<Option<CallerId>> {
        self.read(Lane::Keys, move |connection| find(connection, key)).await
    }
}
