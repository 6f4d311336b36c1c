//! Permits: the pure arithmetic of the domain, applied to one row in one transaction.

use super::Embedded;
use super::codec::{from_json, to_json};
use crate::port::{Coordinator, Result};
use async_trait::async_trait;
use conveyor_domain::grant::{Grants, Holding};
use conveyor_domain::{JobId, Timestamp, WorkerId};
use rusqlite::{Connection, OptionalExtension, params};
use std::time::Duration;

fn load(connection: &Connection, job: JobId) -> Result<Grants> {
    let mut statement = connection.prepare_cached("SELECT doc FROM grants WHERE job_id = ?1")?;
    let doc: Option<String> = statement.query_row([job.to_bytes()], |row| row.get(0)).optional()?;
    doc.map_or_else(|| Ok(Grants::default()), |doc| from_json(&doc))
}

/// A row that nobody is in is not kept: jobs come and go.
fn save(connection: &Connection, job: JobId, grants: &Grants) -> Result<()> {
    if grants.is_empty() {
        connection.prepare_cached("DELETE FROM grants WHERE job_id = ?1")?.execute([job.to_bytes()])?;
    } else {
        connection
            .prepare_cached("INSERT OR REPLACE INTO grants (job_id, doc) VALUES (?1, ?2)")?
            .execute(params![job.to_bytes(), to_json(grants)?])?;
    }
    Ok(())
}

#[async_trait]
impl Coordinator for Embedded {
    async fn grant(
        &self,
        job: JobId,
        worker: WorkerId,
        want: u32,
        cap: u32,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Holding> {
        self.write(move |connection| {
            let mut grants = load(connection, job)?;
            let holding = grants.grant(worker, want, cap, ttl, now);
            save(connection, job, &grants)?;
            Ok(holding)
        })
        .await
    }

    async fn release(&self, job: JobId, worker: WorkerId) -> Result<()> {
        self.write(move |connection| {
            let mut grants = load(connection, job)?;
            grants.release(worker);
            save(connection, job, &grants)
        })
        .await
    }

    async fn holders(&self, job: JobId, now: Timestamp) -> Result<Vec<(WorkerId, Holding)>> {
        self.read(move |connection| Ok(load(connection, job)?.live(now).collect())).await
    }
}
