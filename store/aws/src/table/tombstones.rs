//! What is left where a job was (SPEC 6.6). It is in the very place of the job, so that whoever makes a job of that id finds
//! that there is something; to everybody who reads jobs it is nothing.

use super::Table;
use super::item::{Draft, Item, Row, corrupt, json, number, text, time_to_live};
use super::keys::{self, GSI2, GSI2_PK, GSI2_SK};
use super::read::Range;
use super::transact::{Condition, Expression};
use conveyor_domain::{JobId, Timestamp, limits};
use conveyor_store::Result;
use conveyor_store::port::Tombstone;
use futures::FutureExt;

/// A partition of the second index: tombstones by when they are due.
const REMEMBERED: &str = "tombstone";
/// Only tombstones have it: when the job went.
const GONE: &str = "gone";

/// A tombstone, and what is kept beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct TombstoneRow {
    pub tombstone: Tombstone,
    /// Partitions that the job's tasks had.
    pub shards: u32,
    pub due: Timestamp,
}

pub fn is_tombstone(item: &Item) -> bool {
    item.contains_key(GONE)
}

/// There is no job, whatever is remembered.
pub fn no_job() -> Condition {
    Condition {
        expression: format!("attribute_not_exists(pk) OR attribute_exists({GONE})"),
        values: Vec::new(),
    }
}

/// As it sorts.
fn due_key(due: Timestamp, job: JobId) -> String {
    format!("{:015}#{job}", due.0.max(0))
}

impl TombstoneRow {
    pub fn encode(&self) -> Result<Item> {
        let Tombstone { job, runs, gone, looks } = &self.tombstone;
        Ok(Draft::at(&keys::job(*job))
            .set("runs", json(runs)?)
            .set(GONE, number(gone.0))
            .set("looks", number(looks))
            .set("sh", number(self.shards))
            .set(GSI2_PK, text(REMEMBERED))
            .set(GSI2_SK, text(due_key(self.due, *job)))
            .set(keys::TTL, time_to_live(*gone, limits::TOMBSTONE_KEPT))
            .item())
    }

    /// `None` if it is a job.
    pub fn decode(item: &Item) -> Result<Option<TombstoneRow>> {
        let row = Row(item);
        let Some(gone) = row.find_number(GONE)? else { return Ok(None) };
        let due = row.text(GSI2_SK)?.split('#').next().and_then(|digits| digits.parse().ok());
        Ok(Some(TombstoneRow {
            tombstone: Tombstone {
                job: keys::job_of(row.text(keys::PK)?).ok_or_else(|| corrupt("job id"))?,
                runs: row.json("runs")?,
                gone: Timestamp(gone),
                looks: row.number("looks")?,
            },
            shards: row.number("sh")?,
            due: due.map(Timestamp).ok_or_else(|| corrupt("when a tombstone is due"))?,
        }))
    }
}

impl Table {
    pub async fn find_tombstone(&self, job: JobId) -> Result<Option<TombstoneRow>> {
        Ok(self.get(&keys::job(job)).await?.as_ref().map(TombstoneRow::decode).transpose()?.flatten())
    }

    pub async fn due_tombstones(&self, now: Timestamp, limit: u32) -> Result<Vec<Tombstone>> {
        let high = format!("{:015}~", now.0.max(0));
        let range = Range::up_to(REMEMBERED.to_owned(), high).in_index(GSI2).by(limit);
        let key = |item: &Item| keys::job_of(Row(item).text(keys::PK)?).ok_or_else(|| corrupt("job id"));
        let place = |job: &JobId| (job.to_string(), job.to_string());
        // Somebody may have looked since the index was written.
        let read = |job: JobId| {
            let found = async move { Ok(self.find_tombstone(job).await?.filter(|row| row.due <= now)) };
            (job, found.boxed())
        };
        let due = self.named("tombstone", &range, limit as usize, key, place, read).await?;
        Ok(due.into_iter().map(|row| row.tombstone).collect())
    }

    /// Of two who looked at once, one counts.
    pub async fn count_look(&self, tombstone: &Tombstone, next: Option<Timestamp>) -> Result<()> {
        let Tombstone { job, looks, .. } = tombstone;
        let seen =
            Condition { expression: "looks = :seen".to_owned(), values: vec![(":seen", number(looks))] };
        let key = keys::job(*job);
        let write = match next {
            None => self.delete(&key, Some(seen))?,
            Some(next) => {
                let values = vec![(":looks", number(looks + 1)), (":due", text(due_key(next, *job)))];
                let text = format!("SET looks = :looks, {GSI2_SK} = :due");
                self.update(&key, Expression { text, values }, Some(seen))?
            }
        };
        self.transact(vec![write]).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::JobRow;
    use super::*;
    use conveyor_domain::RunId;

    #[test]
    fn a_tombstone_reads_back_and_is_no_job() {
        let row = TombstoneRow {
            tombstone: Tombstone {
                job: JobId::from_bytes([1; 16]),
                runs: vec![RunId::from_bytes([2; 16]), RunId::from_bytes([3; 16])],
                gone: Timestamp(1_800_000_000_000),
                looks: 2,
            },
            shards: 16,
            due: Timestamp(1_800_000_003_600),
        };
        let item = row.encode().unwrap();
        assert_eq!(TombstoneRow::decode(&item).unwrap(), Some(row));
        assert_eq!(JobRow::decode(&item).unwrap(), None);
    }
}
