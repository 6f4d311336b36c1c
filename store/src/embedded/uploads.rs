//! Upload slots (SPEC 6.9).

use super::Embedded;
use super::codec::{from_json, to_json};
use super::reader::Lane;
use super::scan;
use crate::port::{Error, Page, Result, UploadStore, UploadsQuery};
use async_trait::async_trait;
use conveyor_domain::ingest::Source;
use conveyor_domain::ingest::upload::{Part, UploadDoc};
use conveyor_domain::{CallerId, JobId, Refusal, Staged, Timestamp, Upload, UploadId};
use rusqlite::{Connection, OptionalExtension, Row, params};

const COLUMNS: &str = "upload_id, caller_id, created_ms, expires_ms, claimed, doc";

fn decode(row: &Row<'_>) -> Result<Upload> {
    let doc: UploadDoc = from_json(&row.get::<_, String>(5)?)?;
    Ok(Upload {
        id: UploadId::from_bytes(row.get(0)?),
        caller: CallerId::from_bytes(row.get(1)?),
        created: Timestamp(row.get(2)?),
        expires: Timestamp(row.get(3)?),
        claimed: row.get(4)?,
        spec: doc.spec,
        multipart: doc.multipart,
        declared: doc.declared,
        parts_handle: doc.parts_handle,
        staged: doc.staged,
    })
}

/// One that is still there for callers.
fn find(connection: &Connection, upload: UploadId, now: Timestamp) -> Result<Option<Upload>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM uploads WHERE upload_id = ?1 AND doomed = 0 AND expires_ms > ?2"
    ))?;
    let found = statement.query_row(params![upload.to_bytes(), now.0], |row| Ok(decode(row))).optional()?;
    found.transpose()
}

fn find_there(connection: &Connection, upload: UploadId, now: Timestamp) -> Result<Upload> {
    find(connection, upload, now)?.ok_or(Error::NotFound)
}

/// Keeps the bytes of a source for a job. The caller is inside the transaction that makes the job.
pub fn claim(connection: &Connection, source: &Source, job: JobId, now: Timestamp) -> Result<()> {
    let upload = source.upload;
    // Replaced since it was looked at: what the job would pin is about to be deleted.
    if !find_there(connection, upload, now)?.has_staged(&source.staged) {
        return Err(Error::Changed);
    }
    connection
        .prepare_cached("INSERT OR IGNORE INTO upload_claims (upload_id, job_id) VALUES (?1, ?2)")?
        .execute(params![upload.to_bytes(), job.to_bytes()])?;
    connection
        .prepare_cached("UPDATE uploads SET claimed = 1 WHERE upload_id = ?1")?
        .execute([upload.to_bytes()])?;
    Ok(())
}

/// Lets go of whatever a job was made of. The caller is inside a transaction.
pub fn release(connection: &Connection, job: JobId) -> Result<()> {
    for statement in [
        "UPDATE uploads SET claimed = EXISTS (
            SELECT 1 FROM upload_claims c WHERE c.upload_id = uploads.upload_id AND c.job_id <> ?1)
         WHERE upload_id IN (SELECT upload_id FROM upload_claims WHERE job_id = ?1)",
        "DELETE FROM upload_claims WHERE job_id = ?1",
    ] {
        connection.prepare_cached(statement)?.execute([job.to_bytes()])?;
    }
    Ok(())
}

fn create(connection: &Connection, upload: &Upload, max: u32) -> Result<()> {
    // By an index of just those, and no further than it takes: the writer's time is everybody's.
    let mut waiting = connection.prepare_cached(
        "SELECT count(*) FROM (SELECT 1 FROM uploads
            WHERE caller_id = ?1 AND claimed = 0 AND doomed = 0 AND expires_ms > ?2 LIMIT ?3)",
    )?;
    let values = params![upload.caller.to_bytes(), upload.created.0, max];
    if max < u32::MAX && waiting.query_row(values, |row| row.get::<_, u32>(0))? >= max {
        return Err(Refusal::TooManyUploads.into());
    }
    connection
        .prepare_cached(
            "INSERT OR IGNORE INTO uploads (upload_id, caller_id, created_ms, expires_ms, doc)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            upload.id.to_bytes(),
            upload.caller.to_bytes(),
            upload.created.0,
            upload.expires.0,
            to_json(&upload.doc())?,
        ])?;
    Ok(())
}

fn put_staged(
    connection: &Connection,
    upload: UploadId,
    staged: Staged,
    joined: Option<&[Part]>,
    now: Timestamp,
) -> Result<Option<Staged>> {
    let mut found = find_there(connection, upload, now)?;
    if let Some(joined) = joined
        && parts(connection, upload)? != joined
    {
        return Err(Error::Conflict("a part was replaced while the parts were joined".to_owned()));
    }
    let replaced = found.stage(staged)?;
    connection
        .prepare_cached("UPDATE uploads SET doc = ?2 WHERE upload_id = ?1")?
        .execute(params![upload.to_bytes(), to_json(&found.doc())?])?;
    Ok(replaced)
}

fn parts(connection: &Connection, upload: UploadId) -> Result<Vec<Part>> {
    let mut statement =
        connection.prepare_cached("SELECT doc FROM upload_parts WHERE upload_id = ?1 ORDER BY number")?;
    let rows = statement.query_map([upload.to_bytes()], |row| row.get::<_, String>(0))?;
    rows.map(|doc| from_json(&doc?)).collect()
}

fn put_part(
    connection: &Connection,
    upload: UploadId,
    part: &Part,
    now: Timestamp,
) -> Result<Option<Staged>> {
    find_there(connection, upload, now)?.takes_parts()?;
    let mut statement =
        connection.prepare_cached("SELECT doc FROM upload_parts WHERE upload_id = ?1 AND number = ?2")?;
    let before: Option<String> =
        statement.query_row(params![upload.to_bytes(), part.number], |row| row.get(0)).optional()?;
    let before: Option<Part> = before.map(|doc| from_json(&doc)).transpose()?;
    connection
        .prepare_cached("INSERT OR REPLACE INTO upload_parts (upload_id, number, doc) VALUES (?1, ?2, ?3)")?
        .execute(params![upload.to_bytes(), part.number, to_json(part)?])?;
    Ok(before.map(|p| p.staged).filter(|staged| *staged != part.staged))
}

/// Marks an upload to be removed. Whose it is comes first: that a job was made of it is nobody else's business.
fn doom(connection: &Connection, upload: UploadId, by: Option<CallerId>, now: Timestamp) -> Result<bool> {
    if let Some(caller) = by {
        let found = find(connection, upload, now)?.filter(|found| found.caller == caller);
        found.ok_or(Error::NotFound)?.refuse_claimed()?;
    }
    let doomed = connection
        .prepare_cached(
            "UPDATE uploads SET doomed = 1
             WHERE upload_id = ?1 AND (?3 OR doomed = 1 OR (claimed = 0 AND expires_ms <= ?2))",
        )?
        .execute(params![upload.to_bytes(), now.0, by.is_some()])?;
    Ok(doomed == 1)
}

#[async_trait]
impl UploadStore for Embedded {
    async fn create_upload(&self, upload: Upload, max: u32) -> Result<()> {
        self.write(move |connection| create(connection, &upload, max)).await
    }

    async fn upload(&self, caller: CallerId, upload: UploadId, now: Timestamp) -> Result<Option<Upload>> {
        self.read(Lane::Points, move |connection| {
            Ok(find(connection, upload, now)?.filter(|found| found.caller == caller))
        })
        .await
    }

    async fn uploads(&self, query: UploadsQuery, now: Timestamp) -> Result<Page<Upload, UploadId>> {
        self.read(Lane::Lists, move |connection| {
            let before = query.before.map_or([0xff; 16], UploadId::to_bytes);
            let mut statement = connection.prepare_cached(&format!(
                "SELECT {COLUMNS}, doomed = 0 AND expires_ms > ?3 FROM uploads
                 WHERE caller_id = ?1 AND upload_id < ?2 ORDER BY upload_id DESC"
            ))?;
            let rows = statement.query(params![query.caller.to_bytes(), before, now.0])?;
            let id = |row: &Row<'_>| Ok(UploadId::from_bytes(row.get(0)?));
            scan::page(rows, "upload", (query.limit, query.look), id, |row| {
                if row.get(6)? { decode(row).map(Some) } else { Ok(None) }
            })
        })
        .await
    }

    async fn put_staged(
        &self,
        upload: UploadId,
        staged: Staged,
        joined: Option<Vec<Part>>,
        now: Timestamp,
    ) -> Result<Option<Staged>> {
        self.write(move |connection| put_staged(connection, upload, staged, joined.as_deref(), now)).await
    }

    async fn put_part(&self, upload: UploadId, part: Part, now: Timestamp) -> Result<Option<Staged>> {
        self.write(move |connection| put_part(connection, upload, &part, now)).await
    }

    async fn parts(&self, upload: UploadId) -> Result<Vec<Part>> {
        self.read(Lane::Points, move |connection| parts(connection, upload)).await
    }

    async fn doom_upload(&self, upload: UploadId, by: Option<CallerId>, now: Timestamp) -> Result<bool> {
        self.write(move |connection| doom(connection, upload, by, now)).await
    }

    async fn forget_upload(&self, upload: UploadId) -> Result<()> {
        self.write(move |connection| {
            for statement in [
                "DELETE FROM upload_parts WHERE upload_id = (SELECT upload_id FROM uploads WHERE upload_id = ?1 AND doomed = 1)",
                "DELETE FROM uploads WHERE upload_id = ?1 AND doomed = 1",
            ] {
                connection.prepare_cached(statement)?.execute([upload.to_bytes()])?;
            }
            Ok(())
        })
        .await
    }
}
