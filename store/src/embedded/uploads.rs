//! Upload slots (SPEC 6.9).

use super::Embedded;
use super::codec::{from_json, to_json};
use super::reader::Lane;
use super::scan;
use crate::port::{Error, Page, Result, UploadStore, UploadsQuery};
use async_trait::async_trait;
use conveyor_domain::ingest::Source;
use conveyor_domain::ingest::upload::{Declared, Part};
use conveyor_domain::{CallerId, JobId, ListSpec, Refusal, Staged, Timestamp, Upload, UploadId};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

const COLUMNS: &str = "upload_id, caller_id, created_ms, expires_ms, claimed, doc";

/// What is kept of an upload beside the columns that queries need. New fields need a default.
#[derive(Serialize, Deserialize)]
struct Doc {
    spec: ListSpec,
    #[serde(default)]
    multipart: bool,
    #[serde(default)]
    declared: Declared,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parts_handle: Option<String>,
    #[serde(default)]
    staged: Option<Staged>,
}

impl Doc {
    fn of(upload: &Upload) -> Doc {
        Doc {
            spec: upload.spec.clone(),
            multipart: upload.multipart,
            declared: upload.declared.clone(),
            parts_handle: upload.parts_handle.clone(),
            staged: upload.staged.clone(),
        }
    }
}

fn decode(row: &Row<'_>) -> Result<Upload> {
    let doc: Doc = from_json(&row.get::<_, String>(5)?)?;
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

/// One whose bytes may still be replaced.
fn find_unclaimed(connection: &Connection, upload: UploadId, now: Timestamp) -> Result<Upload> {
    refuse_claimed(find(connection, upload, now)?.ok_or(Error::NotFound)?)
}

fn refuse_claimed(found: Upload) -> Result<Upload> {
    if found.claimed { Err(Refusal::UploadClaimed.into()) } else { Ok(found) }
}

/// Keeps the bytes of a source for a job. The caller is inside the transaction that makes the job.
pub fn claim(connection: &Connection, source: &Source, job: JobId, now: Timestamp) -> Result<()> {
    let upload = source.upload;
    let found = find(connection, upload, now)?.ok_or(Error::NotFound)?;
    // Replaced since it was looked at: what the job would pin is about to be deleted.
    if !found.staged.is_some_and(|staged| staged.is_same(&source.staged)) {
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
            to_json(&Doc::of(upload))?,
        ])?;
    Ok(())
}

fn put_staged(
    connection: &Connection,
    upload: UploadId,
    staged: Staged,
    now: Timestamp,
) -> Result<Option<Staged>> {
    let found = find(connection, upload, now)?.ok_or(Error::NotFound)?;
    if found.staged.as_ref().is_some_and(|before| before.is_same(&staged)) {
        // They are, whatever has been made of them since: a repeat is no surprise.
        return Ok(None);
    }
    let found = refuse_claimed(found)?;
    let doc = Doc { staged: Some(staged), ..Doc::of(&found) };
    connection
        .prepare_cached("UPDATE uploads SET doc = ?2 WHERE upload_id = ?1")?
        .execute(params![upload.to_bytes(), to_json(&doc)?])?;
    Ok(found.staged)
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
    let found = find_unclaimed(connection, upload, now)?;
    if found.staged.is_some() {
        return Err(Refusal::UploadComplete.into());
    }
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

fn put_joined(
    connection: &Connection,
    upload: UploadId,
    staged: Staged,
    joined: &[Part],
    now: Timestamp,
) -> Result<Option<Staged>> {
    if parts(connection, upload)? != joined {
        return Err(Error::Conflict("a part was replaced while the parts were joined".to_owned()));
    }
    put_staged(connection, upload, staged, now)
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

    async fn put_staged(&self, upload: UploadId, staged: Staged, now: Timestamp) -> Result<Option<Staged>> {
        self.write(move |connection| put_staged(connection, upload, staged, now)).await
    }

    async fn put_joined(
        &self,
        upload: UploadId,
        staged: Staged,
        joined: Vec<Part>,
        now: Timestamp,
    ) -> Result<Option<Staged>> {
        self.write(move |connection| put_joined(connection, upload, staged, &joined, now)).await
    }

    async fn put_part(&self, upload: UploadId, part: Part, now: Timestamp) -> Result<Option<Staged>> {
        self.write(move |connection| put_part(connection, upload, &part, now)).await
    }

    async fn parts(&self, upload: UploadId) -> Result<Vec<Part>> {
        self.read(Lane::Points, move |connection| parts(connection, upload)).await
    }

    async fn abort_upload(&self, caller: CallerId, upload: UploadId, now: Timestamp) -> Result<()> {
        self.write(move |connection| {
            // Whose it is comes first: that a job was made of it is nobody else's business.
            let found = find(connection, upload, now)?.filter(|found| found.caller == caller);
            refuse_claimed(found.ok_or(Error::NotFound)?)?;
            connection
                .prepare_cached("UPDATE uploads SET doomed = 1 WHERE upload_id = ?1")?
                .execute([upload.to_bytes()])?;
            Ok(())
        })
        .await
    }

    async fn expired_uploads(&self, now: Timestamp, limit: u32) -> Result<Vec<UploadId>> {
        self.read(Lane::Work, move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT upload_id FROM uploads WHERE doomed = 1
                 UNION ALL SELECT upload_id FROM uploads WHERE doomed = 0 AND claimed = 0 AND expires_ms <= ?1
                 LIMIT ?2",
            )?;
            let rows =
                statement.query_map(params![now.0, limit], |row| Ok(UploadId::from_bytes(row.get(0)?)))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    async fn doom_upload(&self, upload: UploadId, now: Timestamp) -> Result<bool> {
        self.write(move |connection| {
            let doomed = connection
                .prepare_cached(
                    "UPDATE uploads SET doomed = 1
                     WHERE upload_id = ?1 AND (doomed = 1 OR (claimed = 0 AND expires_ms <= ?2))",
                )?
                .execute(params![upload.to_bytes(), now.0])?;
            Ok(doomed == 1)
        })
        .await
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
