//! Rows that count and whose refs were not all sent (SPEC 5.4): the outbox record that was written with the count is still
//! there. It needs no empty queue, and finding it costs what is unsent.

use super::missing_refs::unfinished_tasks;
use crate::facts;
use crate::repair::{Fixed, Found, Look, Next, Pace, Repair, Scope, key_of, run_of, subject_of, window};
use crate::sweep::Sweep;
use async_trait::async_trait;
use conveyor_domain::message::{QueueName, TaskRef};
use conveyor_domain::record::{Expected, Record, RecordKind, RecordVersion, RecordWrite};
use conveyor_domain::repair::{Finding, Kind};
use conveyor_domain::unsent_refs::UnsentRefs;
use conveyor_domain::{TaskId, TaskStatus, Timestamp, limits};
use conveyor_store::port::{RecordsQuery, RunKey};
use conveyor_store::{Backend, Result};
use std::collections::BTreeMap;

/// Records of one run that one fix sends the refs of.
const RECORDS_MAX: u32 = 1_000;

pub(super) struct UnsentRefsOfRuns;

#[async_trait]
impl Repair for UnsentRefsOfRuns {
    fn name(&self) -> &'static str {
        "unsent_refs"
    }

    fn kind(&self) -> Kind {
        Kind::Damage
    }

    fn pace(&self) -> Pace {
        Pace::Messages
    }

    async fn find(&self, look: &Look<'_>, from: Option<String>) -> Result<Found> {
        let (records, next) = match look.scope {
            Scope::All => {
                let (behind, end) = window(look, from)?;
                let due = look.backend.store.due_records(RecordKind::UnsentRefs, look.now(), end).await?;
                let next = (due.len() >= end as usize).then_some(Next::Behind(behind));
                (due.into_iter().skip(behind as usize).collect(), next)
            }
            Scope::Job(_) => {
                let (mut records, (runs, next)) = (Vec::new(), look.runs_from(from).await?);
                for active in runs.iter().filter(|active| !active.run.status.is_terminal()) {
                    records.extend(due_of(look.backend, key_of(active), look.now()).await?);
                }
                (records, next)
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
        let findings = by_run.into_values().map(|(key, tasks, since)| Finding {
            repair: self.name(),
            kind: self.kind(),
            subject: subject_of(key),
            why: format!(
                "messages of up to {tasks} tasks should have been sent {}, and nobody noted that they were",
                facts::ago(since, look.now())
            ),
            remedy: "sends a message for every one of them that is pending".to_owned(),
            fixable: true,
        });
        Ok(Found { findings: findings.collect(), next, ..Found::default() })
    }

    async fn fix(&self, sweep: &Sweep<'_>, finding: &Finding) -> Result<Fixed> {
        let key = run_of(finding)?;
        let mut sent = 0;
        for record in due_of(sweep.backend, key, sweep.clock.now()).await? {
            sent += resend(sweep, key, record).await?;
            if sweep.is_over() {
                return Ok(Fixed::Unfinished);
            }
        }
        Ok(Fixed::Changed(sent))
    }
}

/// Records of a run that should be gone.
async fn due_of(backend: &Backend, key: RunKey, now: Timestamp) -> Result<Vec<Record>> {
    let query = RecordsQuery {
        kind: RecordKind::UnsentRefs,
        owner: key.run.to_string(),
        after: None,
        newest_first: false,
        limit: RECORDS_MAX,
    };
    let mut records = backend.store.records(query).await?;
    records.retain(|record| record.due.is_some_and(|due| due <= now));
    Ok(records)
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
    let (store, queue) = (&sweep.backend.store, QueueName::Run(key.run));
    let Some(job) = store.any_job(key.job).await? else { return Ok(0) };
    let (task_shard_count, mut after, mut sent) = (job.job.spec.task_shard_count, None, 0);
    loop {
        // Of a run that has ended the queue may be gone, and must not come back.
        let Some(of) = store.run(key.job, key.run).await? else { return Ok(sent) };
        if of.run.status.is_terminal() {
            return Ok(sent);
        }
        let before = unsent.first.checked_sub(1).map(|index| TaskId::of(of.run.id_seed, index));
        let page = unfinished_tasks(key, after.or(before), limits::SWEEP_STEP_ROWS);
        let tasks = store.tasks(page).await?;
        let Some(last) = tasks.last() else { return Ok(sent) };
        after = Some(last.id);
        let pending =
            tasks.iter().filter(|task| task.status == TaskStatus::Pending && unsent.covers(task.id.index()));
        let refs: Vec<String> =
            pending.map(|task| TaskRef { task: task.id, task_shard_count }.to_string()).collect();
        let count = refs.len() as u64;
        if count > 0 {
            sweep.backend.queue.send(queue, refs, sweep.clock.now()).await?;
        }
        sent += count;
        if last.id.index() >= unsent.end.saturating_sub(1) {
            return Ok(sent);
        }
    }
}
