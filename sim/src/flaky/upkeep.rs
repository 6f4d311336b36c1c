//! What is left to sweepers: uploads, removal, proofs, letters.

use super::Flaky;
use async_trait::async_trait;
use conveyor_domain::ingest::upload::Part;
use conveyor_domain::{
    CallerId, DeadLetter, JobId, LetterId, Record, RecordKey, RecordKind, RecordWrite, Staged, Storage, Sums,
    Timestamp, Upload, UploadId,
};
use conveyor_store::Result;
use conveyor_store::port::{
    DamagePage, DamagedRow, DeadLetterStore, DueQuery, Page, ProofStore, RecordStore, RecordsQuery,
    Retention, RunKey, Tally, Tombstone, UploadStore, UploadsQuery,
};
use std::time::Duration;

#[async_trait]
impl UploadStore for Flaky {
    async fn create_upload(&self, upload: Upload, max: u32) -> Result<()> {
        self.pass("create_upload", self.inner.store.create_upload(upload, max)).await
    }

    async fn upload(&self, caller: CallerId, upload: UploadId, now: Timestamp) -> Result<Option<Upload>> {
        self.pass("upload", self.inner.store.upload(caller, upload, now)).await
    }

    async fn uploads(&self, query: UploadsQuery, now: Timestamp) -> Result<Page<Upload, UploadId>> {
        self.pass("uploads", self.inner.store.uploads(query, now)).await
    }

    async fn put_staged(&self, upload: UploadId, staged: Staged, now: Timestamp) -> Result<Option<Staged>> {
        self.pass("put_staged", self.inner.store.put_staged(upload, staged, now)).await
    }

    async fn put_joined(
        &self,
        upload: UploadId,
        staged: Staged,
        joined: Vec<Part>,
        now: Timestamp,
    ) -> Result<Option<Staged>> {
        self.pass("put_joined", self.inner.store.put_joined(upload, staged, joined, now)).await
    }

    async fn put_part(&self, upload: UploadId, part: Part, now: Timestamp) -> Result<Option<Staged>> {
        self.pass("put_part", self.inner.store.put_part(upload, part, now)).await
    }

    async fn parts(&self, upload: UploadId) -> Result<Vec<Part>> {
        self.pass("parts", self.inner.store.parts(upload)).await
    }

    async fn abort_upload(&self, caller: CallerId, upload: UploadId, now: Timestamp) -> Result<()> {
        self.pass("abort_upload", self.inner.store.abort_upload(caller, upload, now)).await
    }

    async fn expired_uploads(&self, now: Timestamp, limit: u32) -> Result<Vec<UploadId>> {
        self.pass("expired_uploads", self.inner.store.expired_uploads(now, limit)).await
    }

    async fn doom_upload(&self, upload: UploadId, now: Timestamp) -> Result<bool> {
        self.pass("doom_upload", self.inner.store.doom_upload(upload, now)).await
    }

    async fn forget_upload(&self, upload: UploadId) -> Result<()> {
        self.pass("forget_upload", self.inner.store.forget_upload(upload)).await
    }
}

#[async_trait]
impl Retention for Flaky {
    async fn deleted_jobs(&self, limit: u32) -> Result<Vec<JobId>> {
        self.pass("deleted_jobs", self.inner.store.deleted_jobs(limit)).await
    }

    async fn remove_rows(&self, job: JobId, limit: u32) -> Result<u32> {
        self.pass("remove_rows", self.inner.store.remove_rows(job, limit)).await
    }

    async fn forget_job(&self, job: JobId, now: Timestamp) -> Result<bool> {
        self.pass("forget_job", self.inner.store.forget_job(job, now)).await
    }

    async fn tombstones(&self, now: Timestamp, limit: u32) -> Result<Vec<Tombstone>> {
        self.pass("tombstones", self.inner.store.tombstones(now, limit)).await
    }

    async fn looked_at(&self, tombstone: &Tombstone, next: Option<Timestamp>) -> Result<()> {
        self.pass("looked_at", self.inner.store.looked_at(tombstone, next)).await
    }

    async fn ended_runs_with_queue(&self, limit: u32) -> Result<Vec<RunKey>> {
        self.pass("ended_runs_with_queue", self.inner.store.ended_runs_with_queue(limit)).await
    }

    async fn queue_removed(&self, key: RunKey) -> Result<()> {
        self.pass("queue_removed", self.inner.store.queue_removed(key)).await
    }

    async fn deleted_runs(&self, limit: u32) -> Result<Vec<RunKey>> {
        self.pass("deleted_runs", self.inner.store.deleted_runs(limit)).await
    }

    async fn expired_runs(&self, ended_before: Timestamp, limit: u32) -> Result<Vec<RunKey>> {
        self.pass("expired_runs", self.inner.store.expired_runs(ended_before, limit)).await
    }

    async fn remove_run_rows(&self, key: RunKey, limit: u32) -> Result<u32> {
        self.pass("remove_run_rows", self.inner.store.remove_run_rows(key, limit)).await
    }

    async fn run_removed(&self, key: RunKey, storage: Storage) -> Result<()> {
        self.pass("run_removed", self.inner.store.run_removed(key, storage)).await
    }

    async fn abandoned_submits(&self, begun_before: Timestamp, limit: u32) -> Result<Vec<JobId>> {
        self.pass("abandoned_submits", self.inner.store.abandoned_submits(begun_before, limit)).await
    }

    async fn remove_submit(&self, job: JobId, limit: u32) -> Result<u32> {
        self.pass("remove_submit", self.inner.store.remove_submit(job, limit)).await
    }

    fn removes_by_itself_within(&self) -> Duration {
        self.inner.store.removes_by_itself_within()
    }
}

#[async_trait]
impl ProofStore for Flaky {
    async fn tally(&self, key: RunKey, with_objects: bool) -> Result<Option<Tally>> {
        self.pass("tally", self.inner.store.tally(key, with_objects)).await
    }

    async fn correct(&self, key: RunKey, missing: Sums, seen: u64, now: Timestamp) -> Result<bool> {
        self.pass("correct", self.inner.store.correct(key, missing, seen, now)).await
    }

    async fn damage_of(&self, job: JobId) -> Result<Vec<DamagedRow>> {
        self.pass("damage_of", self.inner.store.damage_of(job)).await
    }

    async fn damage(&self, after: Option<JobId>) -> Result<DamagePage> {
        self.pass("damage", self.inner.store.damage(after)).await
    }
}

#[async_trait]
impl DeadLetterStore for Flaky {
    async fn keep_letter(&self, letter: DeadLetter) -> Result<()> {
        self.pass("keep_letter", self.inner.store.keep_letter(letter)).await
    }

    async fn letter(&self, letter: LetterId) -> Result<Option<DeadLetter>> {
        self.pass("letter", self.inner.store.letter(letter)).await
    }

    async fn letters(&self, after: Option<LetterId>, limit: u32) -> Result<Vec<DeadLetter>> {
        self.pass("letters", self.inner.store.letters(after, limit)).await
    }

    async fn count_redrive(&self, letter: LetterId, seen: u32) -> Result<bool> {
        self.pass("count_redrive", self.inner.store.count_redrive(letter, seen)).await
    }

    async fn forget_letter(&self, letter: LetterId) -> Result<()> {
        self.pass("forget_letter", self.inner.store.forget_letter(letter)).await
    }
}

#[async_trait]
impl RecordStore for Flaky {
    async fn record(&self, key: &RecordKey) -> Result<Option<Record>> {
        // Every removal asks for the time that it goes by. No sweeper of a simulation writes that down: nothing can go wrong.
        if key.kind == RecordKind::Clock {
            return self.inner.store.record(key).await;
        }
        self.pass("record", self.inner.store.record(key)).await
    }

    async fn write_record(&self, write: RecordWrite) -> Result<bool> {
        self.pass("write_record", self.inner.store.write_record(write)).await
    }

    async fn records(&self, query: RecordsQuery) -> Result<Vec<Record>> {
        self.pass("records", self.inner.store.records(query)).await
    }

    async fn due_records(&self, kind: RecordKind, by: Timestamp, limit: u32) -> Result<Vec<Record>> {
        self.pass("due_records", self.inner.store.due_records(kind, by, limit)).await
    }

    async fn due_keys(&self, query: DueQuery) -> Result<Vec<(Timestamp, RecordKey)>> {
        self.pass("due_keys", self.inner.store.due_keys(query)).await
    }

    async fn remove_expired_records(&self, now: Timestamp, limit: u32) -> Result<u32> {
        self.pass("remove_expired_records", self.inner.store.remove_expired_records(now, limit)).await
    }
}
