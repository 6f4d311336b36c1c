//! The time that removals go by, kept as one record (SPEC 6.26). Every removal by time asks for it with the very moment that
//! it would go by: a clock that jumps between two steps removes nothing.

use crate::{Error, Result, Store};
use conveyor_domain::clock::watch::Watch;
use conveyor_domain::job::record::Expected;
use conveyor_domain::{Record, RecordVersion, RecordWrite, Timestamp};
use sha2::{Digest, Sha256};

/// Tries of a write that others keep from being made: they write the same.
const TRIES_MAX: u32 = 8;

/// Takes note of the time. Reads one record, and writes it at most once a minute.
pub async fn observe(store: &dyn Store, now: Timestamp) -> Result<Watch> {
    change(store, |seen| seen.map_or(Watch::new(now), |watch| watch.observe(now))).await
}

/// An operator says that this is the time.
pub async fn confirm(store: &dyn Store, now: Timestamp) -> Result<Watch> {
    change(store, |_| Watch::new(now)).await
}

/// What was seen; nothing if no sweeper has looked yet.
pub async fn look(store: &dyn Store) -> Result<Option<Watch>> {
    Ok(read(store).await?.0)
}

/// The time that removals go by at this moment.
pub async fn removal_time(store: &dyn Store, now: Timestamp) -> Result<Timestamp> {
    Ok(look(store).await?.map_or(now, |watch| watch.removal_time(now)))
}

/// By what time something is judged that would be past its time by now: that of removals. Only who sees such a thing asks.
pub async fn judged_at(store: &dyn Store, is_past: bool, now: Timestamp) -> Result<Timestamp> {
    if is_past { removal_time(store, now).await } else { Ok(now) }
}

/// What was seen, and what a write of it expects. A record that cannot be read, its row or its document, says nothing:
/// whatever the time is, it has to hold first.
async fn read(store: &dyn Store) -> Result<(Option<Watch>, Expected)> {
    let (why, expected) = match store.record(&Watch::key()).await {
        Ok(None) => return Ok((None, Expected::Absent)),
        Ok(Some(record)) => match record.parse() {
            Ok(watch) => return Ok((Some(watch), Expected::Version(record.version))),
            Err(error) => (error.to_string(), Expected::Version(record.version)),
        },
        Err(Error::Corrupt(why)) => (why, Expected::Anything),
        Err(error) => return Err(error),
    };
    tracing::error!(why, "the record of the time that was seen begins anew");
    Ok((Some(Watch::new(Timestamp(0))), expected))
}

async fn change(store: &dyn Store, decide: impl Fn(Option<Watch>) -> Watch) -> Result<Watch> {
    for _ in 0..TRIES_MAX {
        let (seen, expected) = read(store).await?;
        let watch = decide(seen);
        if seen == Some(watch) {
            return Ok(watch);
        }
        if store.write_record(RecordWrite::put(record(&watch), expected)).await? {
            return Ok(watch);
        }
    }
    Err(Error::Unavailable("the record of the time that was seen is busy".to_owned()))
}

/// Its version follows from what it says: two who write the same are one.
fn record(watch: &Watch) -> Record {
    let unversioned = Record::new(Watch::key(), RecordVersion::from_stored(0), watch);
    let digest: [u8; 32] = Sha256::digest(unversioned.doc.as_bytes()).into();
    let [a, b, c, d, e, f, g, h, ..] = digest;
    Record {
        version: RecordVersion::from_stored(i64::from_be_bytes([a, b, c, d, e, f, g, h])),
        ..unversioned
    }
}
