//! Tasks that nobody will ever pick up: their run is not finished, and its queue holds nothing at all (SPEC 6.8).
//!
//! A task that is being worked on keeps its message in the queue, hidden. So an empty queue beside unfinished rows means that
//! messages were lost. Sending one too many is harmless: the claim decides.

use super::send_refs;
use crate::facts;
use crate::proofs::Proofs;
use crate::repair::{About, Fixed, Found, Look, Pace, Repair, Seen, key_of, run_of};
use crate::sweep::Sweep;
use async_trait::async_trait;
use conveyor_domain::repair::{Finding, Kind, Subject};
use conveyor_domain::{QueueName, RunStatus, Task, TaskId, TaskStatus, Timestamp, limits};
use conveyor_store::port::{ActiveRun, Depth, Emptiness, Reader, RunKey, StatusFilter, TasksQuery};
use conveyor_store::{Backend, Result};
use std::sync::Arc;

pub(super) struct MissingRefs(pub Arc<Proofs>);

#[async_trait]
impl Repair for MissingRefs {
    fn about(&self) -> About {
        About::new("missing_refs", Kind::Damage, Pace::Refs)
    }

    async fn find(&self, look: &Look<'_>, from: Option<String>) -> Result<Found> {
        let (runs, next) = look.runs_from(from).await?;
        let ours = |active: &&ActiveRun| look.is_ours(Subject::from(key_of(active)));
        let live = runs.iter().filter(|active| has_work(active) && !self.0.is_suspect(active.run.id));
        let looks =
            live.filter(ours).map(|active| (Subject::from(key_of(active)), self.look_at_queue(look, active)));
        Found { next, ..Found::default() }.look_at_runs(self, look, looks.collect()).await
    }

    async fn fix(&self, sweep: &Sweep<'_>, finding: &Finding) -> Result<Fixed> {
        let (key, store) = (run_of(finding)?, &sweep.backend.store);
        let (Some(job), Some(of)) = (store.job(None, key.job).await?, store.run(key.job, key.run).await?)
        else {
            return Ok(Fixed::NOTHING);
        };
        let active = ActiveRun { job: job.job, run: of.run, stats: of.stats };
        let (queue, now) = (QueueName::Run(key.run), sweep.clock.now());
        if !has_work(&active) {
            return Ok(Fixed::NOTHING);
        }
        if sweep.backend.queue.emptiness(queue, now).await? == Emptiness::Empty {
            return send(sweep, &active, |_| true).await.map(Fixed::Changed);
        }
        if outnumbered(sweep.backend, &active, now).await?.is_none() {
            return Ok(Fixed::NOTHING);
        }
        send(sweep, &active, |task| waits_long(task, now)).await.map(Fixed::Changed)
    }
}

impl MissingRefs {
    async fn look_at_queue(&self, look: &Look<'_>, active: &ActiveRun) -> Result<Seen> {
        let queue = QueueName::Run(active.run.id);
        Ok(match look.backend.queue.emptiness(queue, look.now()).await? {
            Emptiness::Unsure(until) => Seen::Unsure(until),
            Emptiness::Empty => self.explain(look, active).await?.into(),
            // Rows have to be read for it: only on request.
            Emptiness::Messages if look.thorough => {
                let few = outnumbered(look.backend, active, look.now()).await?;
                few.map(|few| self.finding(active, few)).into()
            }
            Emptiness::Messages => Seen::Nothing,
        })
    }

    fn finding(&self, active: &ActiveRun, why: String) -> Finding {
        self.about().finding(Subject::from(key_of(active)), why, "sends a message for every task that waits")
    }

    async fn explain(&self, look: &Look<'_>, active: &ActiveRun) -> Result<Option<Finding>> {
        let key = key_of(active);
        if !any_unfinished(look.backend, key).await? {
            // Nothing to send: then it is the counters that are wrong.
            self.0.suspect(key.run, look.now());
            return Ok(None);
        }
        let (total, completed) = (active.stats.total, active.stats.counts.completed());
        let last = facts::last_event(look.backend, key, look.now()).await?;
        Ok(Some(self.about().finding(
            Subject::from(key),
            format!("{} of {total} tasks are unfinished and the queue is empty; {last}", total - completed),
            "sends a message for every unfinished task",
        )))
    }
}

fn has_work(active: &ActiveRun) -> bool {
    active.run.status == RunStatus::Running && active.stats.counts.completed() < active.stats.total
}

fn unfinished_tasks(key: RunKey, after: Option<TaskId>, limit: u32) -> TasksQuery {
    TasksQuery { key, filter: StatusFilter::Unfinished, after, limit, max_bytes: limits::RESULTS_PAGE_BYTES }
}

pub(super) async fn any_unfinished(backend: &Backend, key: RunKey) -> Result<bool> {
    Ok(!backend.store.tasks(unfinished_tasks(key, None, 1)).await?.is_empty())
}

fn waits_long(task: &Task, now: Timestamp) -> bool {
    task.status == TaskStatus::Pending && task.updated.after(limits::REF_WAITS_LONG) <= now
}

/// Why messages must be missing though the queue is not empty, if they are: more tasks than it holds messages have waited
/// for longer than a count of messages can be late (SPEC 6.8).
async fn outnumbered(backend: &Backend, active: &ActiveRun, now: Timestamp) -> Result<Option<String>> {
    let Depth { visible, hidden, .. } =
        backend.queue.depth(QueueName::Run(active.run.id), Reader::Role, now).await?;
    let messages = visible + hidden;
    let unfinished = active.stats.total.saturating_sub(active.stats.counts.completed());
    if active.run.paused || u64::from(unfinished) <= messages {
        return Ok(None);
    }
    let (mut after, mut waiting, mut oldest): (_, u64, Option<Task>) = (None, 0, None);
    loop {
        let page = unfinished_tasks(key_of(active), after, limits::SWEEP_STEP_ROWS);
        let tasks = backend.store.tasks(page).await?;
        let Some(last) = tasks.last() else { break };
        after = Some(last.id);
        for task in tasks.into_iter().filter(|task| waits_long(task, now)) {
            waiting += 1;
            if oldest.as_ref().is_none_or(|oldest| task.updated < oldest.updated) {
                oldest = Some(task);
            }
        }
    }
    Ok(oldest.filter(|_| waiting > messages).map(|oldest| {
        let (long, since) = (facts::span(limits::REF_WAITS_LONG), facts::span(oldest.updated.until(now)));
        format!(
            "{waiting} tasks have been pending for more than {long} and the queue holds only {messages} messages; \
             task {} has been pending for {since}",
            oldest.id
        )
    }))
}

/// All of them, however many: once some are there, the queue is not empty, and the rest would wait for these to be done. That
/// may take minutes, so this repair has a loop of its own.
async fn send(sweep: &Sweep<'_>, active: &ActiveRun, wanted: impl Fn(&Task) -> bool) -> Result<u64> {
    let (key, task_shard_count) = (key_of(active), active.job.spec.task_shard_count);
    let (mut after, mut sent) = (None, 0);
    loop {
        let page = unfinished_tasks(key, after, limits::SWEEP_STEP_ROWS);
        let tasks = sweep.backend.store.tasks(page).await?;
        let Some(last) = tasks.last() else { return Ok(sent) };
        after = Some(last.id);
        let tasks = tasks.iter().filter(|task| wanted(task));
        sent += send_refs(sweep, key.run, task_shard_count, tasks).await?;
        // There may be a million: of a run that ended meanwhile the queue may be gone, and must not come back.
        let of = sweep.backend.store.run(key.job, key.run).await?;
        if of.is_none_or(|of| of.run.status != RunStatus::Running) {
            return Ok(sent);
        }
    }
}
