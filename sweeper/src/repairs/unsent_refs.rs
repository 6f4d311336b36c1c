//! Rows that count and whose refs were not all sent (SPEC 5.4): the outbox record that was written with the count is still
//! there. It needs no empty queue, and finding it costs what is unsent.

use super::send_refs;
use crate::facts;
use crate::repair::{About, Fixed, Found, Look, Pace, Repair, Scope, key_of, run_of};
use crate::sweep::Sweep;
use async_trait::async_trait;
use conveyor_domain::job::record::Expected;
use conveyor_domain::repair::{Finding, Kind, Subject};
use conveyor_domain::{
    QueueName, Record, RecordKey, RecordKind, RecordVersion, RecordWrite, RunId, Task, TaskId, TaskStatus,
    Timestamp, UnsentRefs, limits,
};
use conveyor_store::port::{RecordsQuery, RunKey, StatusFilter, TasksQuery, read_each};
use conveyor_store::{Backend, Result};
use futures::FutureExt;
use std::collections::{BTreeMap, BTreeSet};

/// Records of a run that are read at once.
const RECORDS_PAGE: u32 = 1_000;

pub(super) struct UnsentRefsOfRuns;

#[async_trait]
impl Repair for UnsentRefsOfRuns {
    fn about(&self) -> About {
        About::new("unsent_refs", Kind::Damage, Pace::Messages)
    }

    async fn find(&self, look: &Look<'_>, from: Option<String>) -> Result<Found> {
        let mut found = Found::default();
        let records = match look.scope {
            Scope::All => {
                let (due, next) = look.due_from(RecordKind::UnsentRefs, from).await?;
                found.next = next;
                read(self, look, due.into_iter().map(|(_, key)| key), &mut found).await
            }
            Scope::Job(_) => {
                let (mut records, (runs, next)) = (Vec::new(), look.runs_from(from).await?);
                found.next = next;
                for active in runs.iter().filter(|active| !active.run.status.is_terminal()) {
                    records.extend(due_of(look.backend, key_of(active), look.now(), RECORDS_PAGE).await?);
                }
                records
            }
        };
        let mut by_run: BTreeMap<String, (RunKey, u64, Timestamp)> = BTreeMap::new();
        for record in &records {
            let (Ok(unsent), Ok(run)) = (record.parse::<UnsentRefs>(), record.key.owner.parse()) else {
                tracing::error!(run = record.key.owner, "a record of unsent refs cannot be read");
                continue;
            };
            let due = record.due.unwrap_or(look.now());
            let of_run = by_run.entry(record.key.owner.clone());
            let (_, tasks, since) = of_run.or_insert((RunKey { job: unsent.job, run }, 0, due));
            *tasks += u64::from(unsent.end.saturating_sub(unsent.first));
            *since = due.min(*since);
        }
        let findings = by_run.into_values().map(|(key, tasks, since)| {
            self.about().finding(Subject::from(key), format!(
                "messages of up to {tasks} tasks should have been sent {}, and nobody noted that they were",
                facts::ago(since, look.now())
            ), "sends a message for every one of them that is pending")
        });
        found.findings.extend(findings);
        Ok(found)
    }

    async fn fix(&self, sweep: &Sweep<'_>, finding: &Finding) -> Result<Fixed> {
        let key = run_of(finding)?;
        let (mut sent, mut failed) = (0, None);
        for record in due_of(sweep.backend, key, sweep.clock.now(), limits::SWEEP_RECORDS_OF_RUN_MAX).await? {
            match resend(sweep, key, record).await {
                Ok(count) => sent += count,
                // It is due again when its lease is over, and keeps those behind it from nothing.
                Err(error) => failed = Some(error),
            }
            if sweep.is_over() {
                return Ok(Fixed::Unfinished);
            }
        }
        failed.map_or(Ok(Fixed::Changed(sent)), Err)
    }
}

/// Those of the records that are still due. One that is not answered is unsure, and keeps no others from being found: the page
/// behind it has its turn, even if none of this one is answered.
async fn read(
    repair: &dyn Repair,
    look: &Look<'_>,
    keys: impl Iterator<Item = RecordKey>,
    found: &mut Found,
) -> Vec<Record> {
    let store = &look.backend.store;
    let reads = keys.map(|key| {
        let at = key.clone();
        (key, async move { store.record(&at).await }.boxed())
    });
    let place = |key: &RecordKey| (key.owner.clone(), key.id.clone());
    let reads = read_each("record", place, reads.collect()).await;
    let again = look.now().after(limits::SWEEP_EVERY);
    for run in reads.silent.iter().filter_map(|key| key.owner.parse().ok()).collect::<BTreeSet<RunId>>() {
        metrics::counter!("conveyor_sweep_failures_total", "repair" => repair.name()).increment(1);
        found.unsure.push((Subject::Queue(QueueName::Run(run)), again));
    }
    let records = reads.found.into_iter().filter_map(|(_, record)| record);
    records.filter(|record| record.due.is_some_and(|due| due <= look.now())).collect()
}

/// Records of a run that should be gone, at most so many.
async fn due_of(backend: &Backend, key: RunKey, now: Timestamp, max: u32) -> Result<Vec<Record>> {
    let (mut due, mut after) = (Vec::new(), None);
    loop {
        let query = RecordsQuery {
            kind: RecordKind::UnsentRefs,
            owner: key.run.to_string(),
            after,
            newest_first: false,
            limit: RECORDS_PAGE,
        };
        let page = backend.store.records(query).await?;
        let is_full = page.len() >= RECORDS_PAGE as usize;
        after = page.last().filter(|_| is_full).map(|last| last.key.id.clone());
        due.extend(page.into_iter().filter(|record| record.due.is_some_and(|due| due <= now)));
        if due.len() >= max as usize || after.is_none() {
            due.truncate(max as usize);
            return Ok(due);
        }
    }
}

/// Leased first, so that two sweepers do not send the same, and one that fails lets the others have their turn.
async fn resend(sweep: &Sweep<'_>, key: RunKey, record: Record) -> Result<u64> {
    let (store, now) = (&sweep.backend.store, sweep.clock.now());
    let Ok(unsent) = record.parse::<UnsentRefs>() else { return Ok(0) };
    // Two who choose the same version send twice, which is harmless.
    let version = RecordVersion::from_stored(record.version.to_stored().wrapping_add(now.0 | 1));
    let expected = Expected::Version(record.version);
    let leased = Record { version, ..record }.due(Some(now.after(limits::REFS_SENT_WITHIN)));
    if !store.write_record(RecordWrite::put(leased.clone(), expected)).await? {
        return Ok(0);
    }
    let sent = send_pending(sweep, key, unsent).await?;
    store.write_record(RecordWrite::remove(leased.key, Expected::Version(version))).await?;
    Ok(sent)
}

/// A task that is being worked on, or is done, has or had its message: only pending rows get one.
async fn send_pending(sweep: &Sweep<'_>, key: RunKey, unsent: UnsentRefs) -> Result<u64> {
    let store = &sweep.backend.store;
    let Some(job) = store.job(None, key.job).await? else { return Ok(0) };
    let (task_shard_count, mut next, mut sent) = (job.job.spec.task_shard_count, unsent.first, 0);
    while next < unsent.end {
        // Of a run that has ended the queue may be gone, and must not come back.
        let Some(of) = store.run(key.job, key.run).await? else { break };
        if of.run.status.is_terminal() {
            break;
        }
        let tasks = store.tasks(page_of(key, of.run.id_seed, next, unsent.end)).await?;
        let Some(last) = tasks.last() else { break };
        next = last.id.index() + 1;
        let pending = |task: &&Task| task.status == TaskStatus::Pending && unsent.covers(task.id.index());
        sent += send_refs(sweep, key.run, task_shard_count, tasks.iter().filter(pending)).await?;
    }
    Ok(sent)
}

/// Rows from one index to before another, and no others: what is behind may be the rest of a long run that is done.
fn page_of(key: RunKey, seed: RunId, from: u32, end: u32) -> TasksQuery {
    let after = from.checked_sub(1).map(|index| TaskId::of(seed, index));
    let limit = limits::SWEEP_STEP_ROWS.min(end - from);
    TasksQuery { key, filter: StatusFilter::All, after, limit, max_bytes: limits::RESULTS_PAGE_BYTES }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::{Clock, JobId};
    use conveyor_store::embedded::Embedded;
    use conveyor_testkit::ManualClock;

    /// Whatever becomes of the first run's findings: they may be another sweeper's, or fail.
    #[tokio::test]
    async fn the_backlog_of_one_run_is_a_page_and_not_all_pages() {
        let dir = tempfile::TempDir::new().unwrap();
        let clock = ManualClock::new();
        let backend = Embedded::open(dir.path(), clock.now()).unwrap().backend();
        let job = JobId::from_bytes([1; 16]);
        for (run, due, id) in (0..7).map(|n| (2, n, n)).chain([(3, 9, 0)]) {
            let key =
                RecordKey::new(RecordKind::UnsentRefs, RunId::from_bytes([run; 16]), format!("{id:010}-0"));
            let unsent = UnsentRefs { job, first: 0, end: 1 };
            let record = Record::new(key, RecordVersion::from_stored(1), &unsent).due(Some(Timestamp(due)));
            assert!(backend.store.write_record(RecordWrite::put(record, Expected::Absent)).await.unwrap());
        }
        let look = Look::new(&backend, &clock, Scope::All, false).paged(5);
        let (mut seen, mut from) = (Vec::new(), None);
        for _ in 0..2 {
            let found = UnsentRefsOfRuns.find(&look, from).await.unwrap();
            seen.push(found.findings.iter().map(|finding| finding.subject).collect::<Vec<_>>());
            from = found.next.map(|next| next.cursor(found.findings.len()));
        }
        let [one, other] = [2, 3].map(|run| Subject::Run(job, RunId::from_bytes([run; 16])));
        assert_eq!(seen, [vec![one], vec![one, other]]);
        assert_eq!(from, None);
        assert!(UnsentRefsOfRuns.find(&look, Some("5".to_owned())).await.is_err(), "not a cursor of ours");
    }
}
