//! Rows against counters (SPEC 6.14). A snapshot is one moment, so there is nothing to make up for here.

use super::codec::{corrupt, failure_class, index_of, task_key, task_status};
use super::reader::Lane;
use super::runs::StoredRun;
use super::{Embedded, jobs, runs, tasks};
use crate::port::{
    DamagePage, Damaged, DamagedRow, DamagedRows, Documents, Error, NamedObjects, ProofStore, Result, RunKey,
    Tally,
};
use async_trait::async_trait;
use conveyor_domain::{Damage, JobId, RowCounts, RunStatus, Sums, TaskId, TaskStatus, Timestamp, WorkerId};
use rusqlite::{Connection, OptionalExtension, params};

/// Whose counter row corrections are: nobody's.
const CORRECTION: [u8; 16] = [0; 16];

/// Row by row: to have them grouped, SQLite would sort them first, a million into files of its own.
fn count_rows(connection: &Connection, stored: &StoredRun) -> Result<(RowCounts, DamagedRows)> {
    let mut statement = connection
        .prepare_cached("SELECT status, class, task_key FROM tasks WHERE task_key >= ?1 AND task_key < ?2")?;
    let mut found = statement.query(params![task_key(stored.key, 0), task_key(stored.key + 1, 0)])?;
    let (mut rows, mut damaged) = (RowCounts::default(), DamagedRows::default());
    while let Some(row) = found.next()? {
        let class = row.get::<_, Option<i64>>(1).unwrap_or_default().and_then(failure_class);
        let mut damage = Damage::default();
        let status = row.get(0).map_err(Error::from).and_then(task_status);
        match (damage.read("status", status), class) {
            (Some(TaskStatus::Pending), _) => rows.pending += 1,
            (Some(TaskStatus::Processing), _) => rows.processing += 1,
            (Some(TaskStatus::Successful), _) => rows.settled.successful += 1,
            (Some(TaskStatus::Failed), Some(class)) => rows.settled.add_failed(class),
            (Some(TaskStatus::Failed), None) => rows.unclassified += 1,
            (None, _) => damaged.note(TaskId::of(stored.run.id_seed, index_of(row.get(2)?)), &damage),
        }
    }
    Ok((rows, damaged))
}

/// The objects that results name, and the rows of which a document cannot be read.
fn read_documents(connection: &Connection, stored: &StoredRun) -> Result<(NamedObjects, DamagedRows)> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {} FROM tasks WHERE task_key >= ?1 AND task_key < ?2",
        tasks::COLUMNS
    ))?;
    let mut found = statement.query(params![task_key(stored.key, 0), task_key(stored.key + 1, 0)])?;
    let (mut objects, mut damaged) = (NamedObjects::default(), DamagedRows::default());
    while let Some(row) = found.next()? {
        let Documents { result, mut damage, .. } = tasks::documents(row);
        let status = row.get(1).map_err(Error::from).and_then(task_status).ok();
        match (status, result) {
            (Some(TaskStatus::Successful), Some(result)) => objects.add(result.object.as_deref()),
            (Some(TaskStatus::Successful), None) if damage.parts().is_none() => {
                damage.read("result", Err::<(), _>(()));
            }
            _ => {}
        }
        // One whose status cannot be read is counted already.
        if status.is_some() {
            damaged.note(TaskId::of(stored.run.id_seed, index_of(row.get(0)?)), &damage);
        }
    }
    Ok((objects, damaged))
}

fn revision(connection: &Connection, run_key: i64) -> Result<u64> {
    let mut statement =
        connection.prepare_cached("SELECT revision FROM counters WHERE run_key = ?1 AND worker = ?2")?;
    let found: Option<i64> =
        statement.query_row(params![run_key, CORRECTION], |row| row.get(0)).optional()?;
    u64::try_from(found.unwrap_or(0)).map_err(|_| corrupt("revision of a correction"))
}

/// Jobs that one read looks at for damage.
const DAMAGE_PAGE: u32 = 2_000;

fn damage_of(connection: &Connection, job: JobId) -> Result<Vec<DamagedRow>> {
    let mut rows = Vec::new();
    let mut note = |run, read: Result<()>| match read {
        Err(Error::Corrupt(why)) => {
            rows.push(DamagedRow { job, run, why });
            Ok(())
        }
        other => other,
    };
    note(None, jobs::find(connection, job).map(drop))?;
    for (run, read) in runs::each_of(connection, job)? {
        note(Some(run), read)?;
    }
    Ok(rows)
}

#[async_trait]
impl ProofStore for Embedded {
    async fn tally(&self, key: RunKey, with_objects: bool) -> Result<Option<Tally>> {
        self.read(Lane::Proofs, move |connection| {
            let Some(stored) = runs::find_visible(connection, key)? else { return Ok(None) };
            let (rows, mut damaged) = count_rows(connection, &stored)?;
            let mut objects = NamedObjects::default();
            if with_objects {
                let (named, unreadable) = read_documents(connection, &stored)?;
                objects = named;
                damaged.merge(unreadable);
            }
            Ok(Some(Tally {
                rows,
                damaged,
                counters: runs::sums(connection, stored.key)?.plus(stored.run.doc.inherited.into()),
                revision: revision(connection, stored.key)?,
                run: stored.run,
                objects,
            }))
        })
        .await
    }

    async fn correct(&self, key: RunKey, missing: Sums, seen: u64, _now: Timestamp) -> Result<bool> {
        self.write(move |connection| {
            let Some(stored) = runs::find_visible(connection, key)? else { return Ok(false) };
            // Of one that is deleted the rows are on their way out: they prove nothing any more.
            let deleted = stored.run.status == RunStatus::Deleted;
            if deleted || revision(connection, stored.key)? != seen {
                return Ok(false);
            }
            let nobody = WorkerId::from_bytes(CORRECTION);
            runs::add(connection, stored.key, nobody, missing, seen + 1)?;
            Ok(true)
        })
        .await
    }

    async fn damage(&self, of: Damaged) -> Result<DamagePage> {
        self.read(Lane::Work, move |connection| {
            let after = match of {
                Damaged::Behind(after) => after,
                Damaged::Of(job) => return Ok(DamagePage { rows: damage_of(connection, job)?, next: None }),
            };
            let mut statement = connection
                .prepare_cached("SELECT job_id FROM jobs WHERE job_id > ?1 ORDER BY job_id LIMIT ?2")?;
            let after = after.map_or([0; 16], JobId::to_bytes);
            let jobs = statement.query_map(params![after, DAMAGE_PAGE], |row| row.get::<_, [u8; 16]>(0))?;
            let jobs: Vec<JobId> =
                jobs.map(|id| id.map(JobId::from_bytes)).collect::<rusqlite::Result<_>>()?;
            let mut page = DamagePage::default();
            for job in &jobs {
                page.rows.extend(damage_of(connection, *job)?);
            }
            page.next = jobs.last().copied().filter(|_| jobs.len() == DAMAGE_PAGE as usize);
            Ok(page)
        })
        .await
    }
}
