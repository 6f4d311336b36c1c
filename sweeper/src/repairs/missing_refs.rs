//! Tasks that nobody will ever pick up: their run is not finished, and its queue holds nothing at all (SPEC 6.8).
//!
//! A task that is being worked on keeps its message in the queue, hidden. So an empty queue beside unfinished rows means that
//! messages were lost. Sending one too many is harmless: the claim decides.

use crate::facts;
use crate::proofs::Proofs;
use crate::repair::{Fixed, Found, Look, Pace, Repair, key_of, run_of, subject_of};
use crate::sweep::Sweep;
use async_trait::async_trait;
use conveyor_domain::message::{QueueName, TaskRef};
use conveyor_domain::repair::{Finding, Kind};
use conveyor_domain::{RunStatus, TaskId, limits};
use conveyor_store::port::{ActiveRun, Emptiness, RunKey, StatusFilter, TasksQuery};
use conveyor_store::{Backend, Result};
use std::sync::Arc;

pub(super) struct MissingRefs(pub Arc<Proofs>);

#[async_trait]
impl Repair for MissingRefs {
    fn name(&self) -> &'static str {
        "missing_refs"
    }

    fn kind(&self) -> Kind {
        Kind::Damage
    }

    fn pace(&self) -> Pace {
        Pace::Often
    }

    async fn find(&self, look: &Look<'_>, from: Option<String>) -> Result<Found> {
        let (runs, next) = look.runs_from(from).await?;
        let mut found = Found { next, ..Found::default() };
        for active in runs {
            let ours = look.is_ours(subject_of(key_of(active)));
            if ours && has_work(active) && !self.0.is_suspect(active.run.id) {
                let queue = QueueName::Run(active.run.id);
                match look.backend.queue.emptiness(queue, look.now()).await? {
                    Emptiness::Messages => {}
                    Emptiness::Unsure(until) => found.unsure.push((subject_of(key_of(active)), until)),
                    Emptiness::Empty => found.findings.extend(self.explain(look, active).await?),
                }
            }
        }
        Ok(found)
    }

    async fn fix(&self, sweep: &Sweep<'_>, finding: &Finding) -> Result<Fixed> {
        let (key, store) = (run_of(finding)?, &sweep.backend.store);
        let (Some(job), Some(of)) = (store.any_job(key.job).await?, store.run(key.job, key.run).await?)
        else {
            return Ok(Fixed::NOTHING);
        };
        let active = ActiveRun { job: job.job, run: of.run, stats: of.stats };
        let queue = QueueName::Run(key.run);
        if !has_work(&active) || !sweep.backend.queue.is_empty(queue, sweep.clock.now()).await? {
            return Ok(Fixed::NOTHING);
        }
        send(sweep, &active).await.map(Fixed::Changed)
    }
}

impl MissingRefs {
    async fn explain(&self, look: &Look<'_>, active: &ActiveRun) -> Result<Option<Finding>> {
        let key = key_of(active);
        if !any_unfinished(look.backend, key).await? {
            // Nothing to send: then it is the counters that are wrong.
            self.0.suspect(key.run, look.now());
            return Ok(None);
        }
        let (total, completed) = (active.stats.total, active.stats.counts.completed());
        let last = facts::last_event(look.backend, key, look.now()).await?;
        Ok(Some(Finding {
            repair: self.name(),
            kind: self.kind(),
            subject: subject_of(key),
            why: format!(
                "{} of {total} tasks are unfinished and the queue is empty; {last}",
                total - completed
            ),
            remedy: "sends a message for every unfinished task".to_owned(),
            fixable: true,
        }))
    }
}

fn has_work(active: &ActiveRun) -> bool {
    active.run.status == RunStatus::Running && active.stats.counts.completed() < active.stats.total
}

fn unfinished(key: RunKey, after: Option<TaskId>, limit: u32) -> TasksQuery {
    TasksQuery { key, filter: StatusFilter::Unfinished, after, limit, max_bytes: limits::RESULTS_PAGE_BYTES }
}

pub(super) async fn any_unfinished(backend: &Backend, key: RunKey) -> Result<bool> {
    Ok(!backend.store.tasks(unfinished(key, None, 1)).await?.is_empty())
}

/// All of them, however many: once some are there, the queue is not empty, and the rest would wait for these to be done.
async fn send(sweep: &Sweep<'_>, active: &ActiveRun) -> Result<u64> {
    let (key, task_shard_count) = (key_of(active), active.job.spec.task_shard_count);
    let (mut after, mut sent) = (None, 0);
    loop {
        let tasks = sweep.backend.store.tasks(unfinished(key, after, limits::SWEEP_STEP_ROWS)).await?;
        let Some(last) = tasks.last() else { return Ok(sent) };
        after = Some(last.id);
        let refs = tasks.iter().map(|task| TaskRef { task: task.id, task_shard_count }.to_string());
        sweep.backend.queue.send(QueueName::Run(key.run), refs.collect(), sweep.clock.now()).await?;
        sent += tasks.len() as u64;
        // There may be a million: of a run that ended meanwhile the queue may be gone, and must not come back.
        let of = sweep.backend.store.run(key.job, key.run).await?;
        if of.is_none_or(|of| of.run.status != RunStatus::Running) {
            return Ok(sent);
        }
    }
}
