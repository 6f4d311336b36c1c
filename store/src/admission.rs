//! Whether a caller may have what it asks for (SPEC 6.24), for every role that makes runs, schedules or tasks.
//!
//! The caller's record is read, then what is there is counted, then the record is written with a reservation, over the
//! version that was read. Who loses that write looks again. So any number of processes let in exactly as many as there is
//! room for. What is decided is the domain's; this is the reading and writing around it.

use crate::port::{Error, RecordsQuery, Result, RunView, Store};
use conveyor_domain::access::quota::{Exceeded, Usage, Wanted};
use conveyor_domain::job::record::Expected;
use conveyor_domain::{
    CallerId, Clock, Entropy, Holdings, JobId, LiveRun, Quotas, Record, RecordKey, RecordKind, RecordVersion,
    RecordWrite, Timestamp, limits,
};
use futures::{StreamExt, TryStreamExt, stream};
use std::collections::BTreeMap;
use std::time::Duration;

const READS_INFLIGHT: usize = 16;
const PAGE: u32 = 1_000;
/// Who lost a write waits for up to this, so that not all of them meet again.
const LOST_WAIT_MAX_MS: u64 = 20;

/// Lets callers in.
#[derive(Clone, Copy)]
pub struct Admission<'a> {
    pub store: &'a dyn Store,
    pub clock: &'a dyn Clock,
    pub entropy: &'a Entropy,
    /// What callers may have of whom no operator said otherwise.
    pub defaults: Quotas,
}

impl std::fmt::Debug for Admission<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Admission({:?})", self.defaults)
    }
}

/// Why somebody is not let in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAdmitted {
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
    /// Too many come at once. Come again.
    #[error("too many requests of this caller are let in right now")]
    Busy,
    #[error(transparent)]
    Store(#[from] Error),
}

/// Somebody who was let in; with a reservation, unless nothing of it is limited.
#[derive(Clone, Copy, Debug)]
#[must_use = "a reservation that is not given back keeps others out until it lapses"]
pub struct Admitted(Option<(CallerId, u64)>);

/// What became of what somebody was let in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Became {
    /// It is there, or came to nothing.
    Known,
    /// The job is there; its list is read later.
    Reading,
    /// It may have happened: held until it is seen, or lapses.
    Unknown,
}

impl Admission<'_> {
    pub async fn admit(
        &self,
        caller: CallerId,
        wanted: Wanted,
    ) -> std::result::Result<Admitted, NotAdmitted> {
        for _ in 0..limits::QUOTA_TRIES_MAX {
            let (read, holdings) = self.holdings(caller).await?;
            let quotas = holdings.chosen.or(self.defaults);
            if !quotas.concern(&wanted) {
                return Ok(Admitted(None));
            }
            let quotas = bounded(quotas);
            // Behind the record: what a reservation was given up for is there to be counted.
            let usage = self.usage(caller, quotas).await?;
            let (id, times) = self.reservation();
            let next = holdings.admit(quotas, &usage, &wanted, id, times)?;
            if self.reserve(caller, read, &next).await? {
                return Ok(Admitted(Some((caller, id))));
            }
        }
        Err(NotAdmitted::Busy)
    }

    /// Holds room for all rows of a list, once they were counted, until its ingest is done.
    pub async fn hold_list(
        &self,
        caller: CallerId,
        job: JobId,
        tasks: u32,
    ) -> std::result::Result<(), NotAdmitted> {
        let wanted = Wanted { job, active: false, scheduled: false, tasks };
        for _ in 0..limits::QUOTA_TRIES_MAX {
            let (read, holdings) = self.holdings(caller).await?;
            let quotas = holdings.chosen.or(self.defaults);
            if !quotas.concern(&wanted) {
                return Ok(());
            }
            let usage = self.usage(caller, bounded(quotas)).await?;
            let (id, times) = self.reservation();
            let Some(next) = holdings.hold_list(quotas, &usage, &wanted, id, times)? else { return Ok(()) };
            if self.reserve(caller, read, &next).await? {
                return Ok(());
            }
        }
        Err(NotAdmitted::Busy)
    }

    /// The id of a new reservation, what time it is, and until when it holds.
    fn reservation(&self) -> (u64, (Timestamp, Timestamp)) {
        let now = self.clock.now();
        (self.entropy.next_u64(), (now, now.after(limits::RESERVATION_TTL)))
    }

    /// Whether the record is written with its reservations; if somebody was faster, after a moment.
    async fn reserve(
        &self,
        caller: CallerId,
        read: Expected,
        next: &Holdings,
    ) -> std::result::Result<bool, NotAdmitted> {
        if next.reservations.len() > limits::RESERVATIONS_MAX {
            return Err(NotAdmitted::Busy);
        }
        let written = self.write(caller, read, next).await?;
        if !written {
            self.lost().await;
        }
        Ok(written)
    }

    /// Gives the reservation back, or keeps what is still needed of it.
    pub async fn settle(&self, admitted: Admitted, became: Became) {
        let Admitted(Some((caller, id))) = admitted else { return };
        let change = |holdings: &Holdings| match became {
            Became::Known => holdings.release(id),
            Became::Reading => holdings.reading(id),
            Became::Unknown => None,
        };
        if !matches!(self.change(caller, change).await, Ok(Some(_))) {
            // What was asked for is done; this only keeps others out until it lapses.
            tracing::warn!(%caller, "a reservation of quotas was not given back; it lapses");
        }
    }

    /// Changes a caller's record, unless there is nothing to change. `None`: others were always faster.
    pub async fn change(
        &self,
        caller: CallerId,
        change: impl Fn(&Holdings) -> Option<Holdings>,
    ) -> Result<Option<Holdings>> {
        for _ in 0..limits::QUOTA_TRIES_MAX {
            let (read, holdings) = self.holdings(caller).await?;
            let Some(next) = change(&holdings) else { return Ok(Some(holdings)) };
            if self.write(caller, read, &next).await? {
                return Ok(Some(next));
            }
            self.lost().await;
        }
        Ok(None)
    }

    /// A caller's record, and what has to be there for a write over it.
    pub async fn holdings(&self, caller: CallerId) -> Result<(Expected, Holdings)> {
        match self.store.record(&key_of(caller)).await? {
            None => Ok((Expected::Absent, Holdings::default())),
            Some(record) => Ok((Expected::Version(record.version), record.parse()?)),
        }
    }

    async fn write(&self, caller: CallerId, read: Expected, next: &Holdings) -> Result<bool> {
        let record = Record::new(key_of(caller), RecordVersion::new(self.entropy), next);
        self.store.write_record(RecordWrite::put(record, read)).await
    }

    async fn lost(&self) {
        tokio::time::sleep(Duration::from_millis(1 + self.entropy.below(LOST_WAIT_MAX_MS))).await;
    }

    /// What there is of what is limited.
    pub async fn usage(&self, caller: CallerId, quotas: Quotas) -> Result<Usage> {
        let mut usage = Usage::default();
        // More than there is room for, so that whoever is refused learns how many there are.
        let shown = |limit: u32| limit.max(limits::QUOTA_LIVE_JOBS_MAX);
        if let Some(most) = quotas.scheduled_jobs.map(shown) {
            let scheduled = self.jobs(RecordKind::ScheduledJob, caller, most + 1).await?;
            usage.scheduled = scheduled.into_iter().collect();
        }
        let counted = quotas.queued_tasks.map(|_| limits::QUOTA_LIVE_JOBS_MAX);
        if let Some(most) = counted.or(quotas.active_jobs.map(shown)) {
            let live = self.jobs(RecordKind::LiveJob, caller, most + 1).await?;
            usage.more = live.len() > most as usize;
            usage.live = match counted {
                Some(_) => self.runs(caller, live).await?,
                None => live.into_iter().map(|job| (job, LiveRun::default())).collect(),
            };
        }
        Ok(usage)
    }

    /// The jobs that have a record of a kind; as many as are asked for.
    async fn jobs(&self, kind: RecordKind, caller: CallerId, wanted: u32) -> Result<Vec<JobId>> {
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let limit = PAGE.min(wanted.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX)));
            let owner = caller.to_string();
            let query = RecordsQuery { kind, owner, after: after.take(), newest_first: false, limit };
            let page = self.store.records(query).await?;
            for record in &page {
                let job = record.key.id.parse();
                found.push(job.map_err(|_| Error::Corrupt(format!("a {} of no job", kind.as_str())))?);
            }
            after = page.last().map(|record| record.key.id.clone());
            if page.len() < limit as usize || found.len() >= wanted as usize {
                return Ok(found);
            }
        }
    }

    async fn runs(&self, caller: CallerId, jobs: Vec<JobId>) -> Result<BTreeMap<JobId, LiveRun>> {
        let look = |job: JobId| async move {
            let view = self.store.job(Some(caller), job).await?;
            // One that ended meanwhile is not live any more.
            let live = view.and_then(|view| view.latest).filter(|latest| !latest.run.status.is_terminal());
            Ok::<_, Error>(live.map(|RunView { run, stats }| {
                let (total, completed) = (stats.total, stats.counts.completed());
                let inherited = run.doc.inherited.completed();
                (job, LiveRun { total, completed, inherited, ingesting: run.is_ingesting() })
            }))
        };
        let found = stream::iter(jobs).map(look).buffer_unordered(READS_INFLIGHT);
        found.try_filter_map(async |live| Ok(live)).try_collect().await
    }
}

/// Tasks of more jobs than this are not counted: nobody whose tasks are limited has more.
fn bounded(quotas: Quotas) -> Quotas {
    let most = limits::QUOTA_LIVE_JOBS_MAX;
    match quotas.queued_tasks {
        Some(_) => Quotas { active_jobs: Some(quotas.active_jobs.map_or(most, |n| n.min(most))), ..quotas },
        None => quotas,
    }
}

fn key_of(caller: CallerId) -> RecordKey {
    RecordKey::new(RecordKind::Quotas, caller, "quotas")
}
