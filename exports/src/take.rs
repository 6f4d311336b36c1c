//! Exports that are due: some are taken to be built, the others get the end that their time has come for.

use crate::Builder;
use crate::held::Held;
use conveyor_domain::export::{Next, Progress};
use conveyor_domain::job::record::Expected;
use conveyor_domain::job::retention::rows_are_over;
use conveyor_domain::{
    Export, ExportFormat, JobSpec, JobStatus, Record, RecordKind, RecordVersion, RecordWrite, RunStatus,
    Timestamp,
};
use conveyor_store::port::{BlobKey, RunView};
use conveyor_store::{Result, clock_watch};
use std::sync::Arc;
use std::time::Duration;

/// When a record that this version cannot read is looked at again: another version may be there by then.
const UNREADABLE_AGAIN: Duration = Duration::from_secs(600);

/// What one look looks at while the time is in doubt.
const DOUBTED_MAX: u32 = 1_000;

/// An export that is ours to build.
#[derive(Debug)]
pub struct Taken {
    pub(crate) export: Export,
    pub(crate) held: Held,
    pub(crate) spec: Arc<JobSpec>,
    /// What can be seen at this time is in it.
    pub(crate) seen_at: Timestamp,
}

impl Builder {
    /// Records of exports that somebody has to look at.
    pub async fn due(&self, limit: u32) -> Result<Vec<Record>> {
        let (store, now) = (&self.backend.store, self.clock.now());
        let due = store.due_records(RecordKind::Export, now, limit).await?;
        if due.is_empty() {
            return Ok(due);
        }
        let removal_time = clock_watch::removal_time(store.as_ref(), now).await?;
        if removal_time == now {
            return Ok(due);
        }
        // Those that are past their time in a time that is in doubt stay, and must not keep others from being found.
        let due = store.due_records(RecordKind::Export, now, limit.max(DOUBTED_MAX)).await?;
        let is_kept =
            |record: &Record| record.parse().is_ok_and(|export: Export| export.is_kept(now, removal_time));
        Ok(due.into_iter().filter(|record| !is_kept(record)).take(limit as usize).collect())
    }

    /// Does what is due about an export, and gives it back if that is to build it.
    pub async fn take(&self, record: Record) -> Result<Option<Taken>> {
        let now = self.clock.now();
        let export = match record.parse::<Export>() {
            Ok(export) => export,
            Err(error) => {
                tracing::error!(export = record.key.id, %error, "an export cannot be read");
                self.put_off_unreadable(record, now).await?;
                return Ok(None);
            }
        };
        if !export.is_there(now) {
            let removal_time = clock_watch::removal_time(self.backend.store.as_ref(), now).await?;
            if export.is_kept(now, removal_time) {
                return Ok(None);
            }
        }
        let version = record.version;
        match export.next(now) {
            Next::Wait => Ok(None),
            Next::Remove => self.remove(&export, version).await.map(|()| None),
            Next::GiveUp(failed) => {
                self.put(&mut Held::new(version), &failed).await?;
                Ok(None)
            }
            Next::Build(taken) => self.begin(taken, version, now).await,
        }
    }

    async fn begin(&self, export: Export, version: RecordVersion, now: Timestamp) -> Result<Option<Taken>> {
        let job = self.backend.store.job(None, export.job).await?;
        let job = job.map(|view| view.job).filter(|job| job.status != JobStatus::Deleted);
        let run = self.backend.store.run(export.job, export.run).await?;
        let run = run.filter(|view| view.run.status != RunStatus::Deleted);
        let (Some(job), Some(view)) = (job, run) else {
            self.remove(&export, version).await?;
            return Ok(None);
        };
        let mut held = Held::new(version);
        let seen_at = clock_watch::removal_time(self.backend.store.as_ref(), now).await?;
        if rows_are_over(&view.run, seen_at) {
            let error = "the run ended so long ago that its tasks are no longer kept";
            self.put(&mut held, &export.failed(error)).await?;
            return Ok(None);
        }
        let progress = Progress { tasks_total: tasks_of(&view, export.format), ..Progress::default() };
        let export = export.renewed(progress, now);
        let ours = self.put(&mut held, &export).await?;
        Ok(ours.then_some(Taken { export, held, spec: job.spec, seen_at }))
    }

    /// Objects first: what is left without a record would be found by nobody.
    async fn remove(&self, export: &Export, version: RecordVersion) -> Result<()> {
        let prefix = BlobKey::export_prefix(export.job, export.run, export.id);
        self.backend.blobs.delete_under(&prefix).await?;
        let remove = RecordWrite::remove(Export::key(export.run, export.id), Expected::Version(version));
        self.backend.store.write_record(remove).await?;
        Ok(())
    }

    async fn put_off_unreadable(&self, record: Record, now: Timestamp) -> Result<()> {
        let expected = Expected::Version(record.version);
        let version = RecordVersion::new(&self.entropy);
        let record = Record { version, ..record }.due(Some(now.after(UNREADABLE_AGAIN)));
        self.backend.store.write_record(RecordWrite::put(record, expected)).await?;
        Ok(())
    }
}

/// How many tasks it will look at, if the run does not go on.
fn tasks_of(view: &RunView, format: ExportFormat) -> u32 {
    match format {
        ExportFormat::Zip => view.stats.counts.successful,
        ExportFormat::Jsonl | ExportFormat::Csv => view.stats.total,
    }
}
