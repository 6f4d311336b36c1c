use super::{Error, Result};

/// Leaves a row that cannot be read out of a list, so that the others are served. It is counted and logged with its id.
pub fn readable<T>(what: &'static str, id: impl FnOnce() -> String, read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(row) => Ok(Some(row)),
        Err(Error::Corrupt(detail)) => {
            metrics::counter!("conveyor_damaged_rows_total", "what" => what).increment(1);
            tracing::error!(what, id = id(), detail, "a stored row cannot be read and is left out");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
