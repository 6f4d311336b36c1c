//! The transactional outbox of refs (SPEC 5.4): where rows and messages cannot be one transaction, the write that makes rows
//! count also writes which of them need a ref. The record goes once all refs are sent; the sweeper sends those of a record
//! that is still there when it is due. A ref that is sent twice is harmless: the claim on the row decides.

use crate::{Entropy, JobId, Record, RecordKey, RecordKind, RecordVersion, RunId, Timestamp, limits};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Tasks of one run whose refs may not be sent, by their indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsentRefs {
    pub job: JobId,
    pub first: u32,
    pub end: u32,
}

impl UnsentRefs {
    /// The range that holds all of these indexes. Rows in it that need no ref get none: only pending rows do.
    pub fn of(job: JobId, indexes: impl Iterator<Item = u32>) -> Option<UnsentRefs> {
        let range = indexes.fold(None, |range: Option<(u32, u32)>, index| {
            Some(range.map_or((index, index), |(first, last)| (first.min(index), last.max(index))))
        });
        range.map(|(first, last)| UnsentRefs { job, first, end: last.saturating_add(1) })
    }

    pub fn covers(&self, index: u32) -> bool {
        (self.first..self.end).contains(&index)
    }

    /// The record of one send, due if that send takes longer than this.
    pub fn record(&self, run: RunId, now: Timestamp, sent_within: Duration, entropy: &Entropy) -> Record {
        let version = RecordVersion::new(entropy);
        // Two sends of the same tasks are two records.
        let id = format!("{:010}-{:016x}", self.first, version.to_stored());
        let key = RecordKey::new(RecordKind::UnsentRefs, run, id);
        Record::new(key, version, self)
            .due(Some(now.after(sent_within)))
            .expires(Some(now.after(limits::ROWS_KEPT)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_holds_all_indexes_and_is_read_back() {
        let (job, run) = (JobId::from_bytes([1; 16]), RunId::from_bytes([2; 16]));
        assert_eq!(UnsentRefs::of(job, std::iter::empty()), None);
        let unsent = UnsentRefs::of(job, [7, 3, 5].into_iter()).unwrap();
        assert_eq!((unsent.first, unsent.end), (3, 8));
        assert!(unsent.covers(3) && unsent.covers(7) && !unsent.covers(2) && !unsent.covers(8));
        let now = Timestamp(1_800_000_000_000);
        let record = unsent.record(run, now, Duration::from_secs(30), &Entropy::from_number(1));
        assert_eq!(record.parse::<UnsentRefs>(), Ok(unsent));
        assert_eq!(record.due, Some(now.after(Duration::from_secs(30))));
    }
}
