//! The timeline of each job, and in it the log of each ingest (SPEC 6.11, 6.12).

use super::item::{Item, Row, corrupt};
use super::read::{Filter, Range};
use super::{Table, item, keys};
use async_trait::async_trait;
use conveyor_domain::{JobEvent, JobId, LoggedEvent, TimelineEntry, Timestamp};
use conveyor_store::Result;
use conveyor_store::port::{EventStore, RunKey};

fn decode(item: &Item) -> Result<TimelineEntry> {
    let row = Row(item);
    let number = row.text(keys::SK)?.strip_prefix(keys::EVENTS).and_then(|digits| digits.parse().ok());
    let is_ingest = row.find_number::<u32>("lno")?.is_some();
    Ok(TimelineEntry {
        number: number.ok_or_else(|| corrupt("event number"))?,
        run: row.parsed("run")?,
        at: Timestamp(row.number("at")?),
        event: if is_ingest {
            JobEvent::Ingest(row.json("doc")?)
        } else {
            JobEvent::Lifecycle(row.json("doc")?)
        },
    })
}

fn decode_logged(item: &Item) -> Result<LoggedEvent> {
    let row = Row(item);
    Ok(LoggedEvent { number: row.number("lno")?, at: Timestamp(row.number("at")?), event: row.json("doc")? })
}

impl Table {
    /// The log of a run's ingest, in order. `first`: no event of the run has a lower number. A job that fires every minute
    /// has very many, of other runs.
    pub async fn log(&self, key: RunKey, first: u64) -> Result<Vec<LoggedEvent>> {
        let of_run = Filter {
            expression: "run = :run AND attribute_exists(lno)",
            values: vec![(":run", item::text(key.run.to_string()))],
        };
        let (partition, last) = (keys::job_partition(key.job), format!("{}~", keys::EVENTS));
        let range = Range::between(partition, keys::event_sort(first), last).only(of_run);
        let mut log: Vec<LoggedEvent> =
            self.all(&range).await?.iter().map(decode_logged).collect::<Result<_>>()?;
        log.sort_by_key(|logged| logged.number);
        Ok(log)
    }
}

#[async_trait]
impl EventStore for Table {
    async fn events(&self, job: JobId, after: u64, limit: u32) -> Result<Vec<TimelineEntry>> {
        let range = Range::between(
            keys::job_partition(job),
            keys::event_sort(after.saturating_add(1)),
            format!("{}~", keys::EVENTS),
        );
        self.readable("event", &range.by(limit), limit as usize, decode).await
    }
}
