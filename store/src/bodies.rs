//! Result bodies, verified as they are read (SPEC 6.14): nobody is given bytes that are not those that were written.

use crate::port::{BlobKey, Blobs, Error, Result};
use bytes::Bytes;
use conveyor_domain::{BodyFault, ResultRef, TaskId, checksum, limits};

/// The body of a task, all of it.
pub async fn read_body(
    blobs: &dyn Blobs,
    task: TaskId,
    result: &ResultRef,
) -> Result<std::result::Result<Bytes, BodyFault>> {
    let Some(object) = &result.object else { return Ok(Ok(Bytes::new())) };
    let read = match object.parse::<BlobKey>() {
        Ok(key) => found(blobs.get(&key, result.offset, result.length).await)?,
        Err(_) => Err(BodyFault::Damaged),
    };
    let body = read.and_then(|body| match result.crc32 {
        Some(crc32) if crc32 != checksum::hash(&body) => Err(BodyFault::Damaged),
        Some(_) | None => Ok(body),
    });
    Ok(body.inspect_err(|fault| note(task, result, *fault)))
}

/// Whether the body of a task is what was written, however large it is: it is read in pieces.
pub async fn check_body(
    blobs: &dyn Blobs,
    task: TaskId,
    result: &ResultRef,
) -> Result<std::result::Result<(), BodyFault>> {
    let Some(object) = &result.object else { return Ok(Ok(())) };
    let checked = match object.parse::<BlobKey>() {
        Ok(key) => check_object(blobs, &key, result).await?,
        Err(_) => Err(BodyFault::Damaged),
    };
    Ok(checked.inspect_err(|fault| note(task, result, *fault)))
}

async fn check_object(
    blobs: &dyn Blobs,
    key: &BlobKey,
    result: &ResultRef,
) -> Result<std::result::Result<(), BodyFault>> {
    let mut hasher = checksum::Hasher::new();
    let mut done = 0;
    while done < result.length {
        let length = (result.length - done).min(limits::AUDIT_PIECE_BYTES);
        match found(blobs.get(key, result.offset.saturating_add(done), length).await)? {
            Ok(piece) => hasher.update(&piece),
            Err(fault) => return Ok(Err(fault)),
        }
        done += length;
    }
    let crc32 = hasher.finalize();
    let damaged = result.crc32.is_some_and(|written| written != crc32);
    Ok(if damaged { Err(BodyFault::Damaged) } else { Ok(()) })
}

/// Tells a body that is at fault from a storage that does not answer.
fn found<T>(read: Result<T>) -> Result<std::result::Result<T, BodyFault>> {
    match read {
        Ok(bytes) => Ok(Ok(bytes)),
        Err(Error::NotFound) => Ok(Err(BodyFault::Missing)),
        Err(Error::Corrupt(_)) => Ok(Err(BodyFault::Truncated)),
        Err(error) => Err(error),
    }
}

fn note(task: TaskId, result: &ResultRef, fault: BodyFault) {
    let ResultRef { object, offset, length, .. } = result;
    let (object, fault) = (object.as_deref().unwrap_or_default(), fault.as_str());
    metrics::counter!("conveyor_damaged_bodies_total", "fault" => fault).increment(1);
    tracing::error!(%task, object, offset, length, fault, "a stored body is not what was written");
}
