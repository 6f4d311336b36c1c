//! How domain values are stored in SQLite, and how its errors are read.

use crate::port::{self, Error, Result};
use conveyor_domain::{FailureClass, IngestStatus, JobId, JobStatus, RunStatus, Storage, TaskStatus};
use rusqlite::types::ValueRef;
use rusqlite::{Params, Row, Statement, ffi};
use serde::Serialize;
use serde::de::DeserializeOwned;

impl From<rusqlite::Error> for Error {
    fn from(e: rusqlite::Error) -> Error {
        let text = e.to_string();
        match e.sqlite_error().map(|f| f.extended_code & 0xff) {
            Some(ffi::SQLITE_FULL) => Error::Full(text),
            Some(ffi::SQLITE_CORRUPT | ffi::SQLITE_NOTADB) => Error::Corrupt(text),
            Some(_) => Error::Unavailable(text),
            // Not SQLite's: a column that does not hold what the layout says.
            None => Error::Corrupt(text),
        }
    }
}

/// Whether it is unknown what of a commit is on the disk. Trying again could then report as durable what is not.
pub fn leaves_disk_unknown(e: &rusqlite::Error) -> bool {
    matches!(
        e.sqlite_error().map(|f| f.extended_code),
        Some(ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC | ffi::SQLITE_IOERR_TRUNCATE)
    )
}

pub fn corrupt(what: &str) -> Error {
    Error::Corrupt(what.to_owned())
}

pub fn to_json<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::Corrupt(e.to_string()))
}

pub fn from_json<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|e| Error::Corrupt(format!("stored document: {e}")))
}

/// The first rows of a query that can be read, at most `limit`. The query itself has no limit: rows that are left out are
/// made up for by those behind them, so a short page still means that there are no more.
pub fn readable<T>(
    what: &'static str,
    statement: &mut Statement<'_>,
    values: impl Params,
    limit: u32,
    decode: impl Fn(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let (mut rows, mut found) = (statement.query(values)?, Vec::new());
    while found.len() < limit as usize {
        let Some(row) = rows.next()? else { break };
        found.extend(port::readable(what, || name_of(row), decode(row))?);
    }
    Ok(found)
}

/// What a row is called in the log: its first columns.
fn name_of(row: &Row<'_>) -> String {
    let column = |n: usize| match row.get_ref(n) {
        Ok(ValueRef::Integer(n)) => n.to_string(),
        Ok(ValueRef::Text(text)) => String::from_utf8_lossy(text).into_owned(),
        Ok(ValueRef::Blob(blob)) => {
            <[u8; 16]>::try_from(blob).map_or_else(|_| "?".to_owned(), |id| JobId::from_bytes(id).to_string())
        }
        Ok(ValueRef::Null | ValueRef::Real(_)) | Err(_) => "?".to_owned(),
    };
    format!("{} {}", column(0), column(1))
}

pub fn job_status(text: &str) -> Result<JobStatus> {
    text.parse().map_err(|_| corrupt("job status"))
}

pub fn run_status(text: &str) -> Result<RunStatus> {
    text.parse().map_err(|_| corrupt("run status"))
}

pub fn ingest_status(text: &str) -> Result<IngestStatus> {
    text.parse().map_err(|_| corrupt("ingest status"))
}

pub fn storage(text: &str) -> Result<Storage> {
    text.parse().map_err(|_| corrupt("storage of a run"))
}

/// `None` for a number that stands for none, as for a row that has no number.
pub fn failure_class(code: i64) -> Option<FailureClass> {
    FailureClass::ALL.into_iter().find(|class| *class as i64 == code)
}

pub fn task_status(code: i64) -> Result<TaskStatus> {
    TaskStatus::ALL.into_iter().find(|s| task_status_code(*s) == code).ok_or_else(|| corrupt("task status"))
}

pub fn task_status_code(status: TaskStatus) -> i64 {
    match status {
        TaskStatus::Pending => 0,
        TaskStatus::Processing => 1,
        TaskStatus::Successful => 2,
        TaskStatus::Failed => 3,
    }
}

/// The key of a task row: its run's small number above, its index below.
pub fn task_key(run_key: i64, index: u32) -> i64 {
    run_key << 32 | i64::from(index)
}

pub fn index_of(task_key: i64) -> u32 {
    u32::try_from(task_key & 0xffff_ffff).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn task_keys_cluster_by_run_in_input_order(a in 1i64..1 << 31, b in 1i64..1 << 31, i: u32, j: u32) {
            prop_assert_eq!(index_of(task_key(a, i)), i);
            prop_assert_eq!(task_key(a, i).cmp(&task_key(b, j)), (a, i).cmp(&(b, j)));
        }
    }

    #[test]
    fn statuses_round_trip() {
        for s in TaskStatus::ALL {
            assert_eq!(task_status(task_status_code(s)), Ok(s));
        }
        for s in RunStatus::ALL {
            assert_eq!(run_status(s.as_str()), Ok(s));
        }
        for s in JobStatus::ALL {
            assert_eq!(job_status(s.as_str()), Ok(s));
        }
        for s in Storage::ALL {
            assert_eq!(storage(s.as_str()), Ok(s));
        }
        for class in FailureClass::ALL {
            assert_eq!(failure_class(class as i64), Some(class));
        }
        assert!(task_status(9).is_err() && failure_class(9).is_none());
    }
}
