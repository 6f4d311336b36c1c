//! Refs of what is unfinished. A second ref of a task that is worked on would have it fetched twice, so they are sent only
//! where they may be missing.

use super::Rebuilder;
use super::failure::{Failure, patiently};
use super::found::Found;
use super::notes::{self, Note};
use super::pages::Pages;
use conveyor_domain::{Job, QueueName, TaskId, TaskRef, limits};
use conveyor_store::port::{Emptiness, RunKey, StatusFilter};

/// Whose refs may be missing.
#[derive(Debug)]
pub enum Unsent {
    /// Everybody's: a rebuild was killed while rows were written or refs sent.
    All,
    /// The queue was empty: those of the rows that were there then, by their indexes. `None`: of all rows.
    Older(Option<Vec<bool>>),
    /// They wait in the queue.
    Nothing,
}

impl Unsent {
    fn includes(&self, task: TaskId) -> bool {
        match self {
            Unsent::All | Unsent::Older(None) => true,
            Unsent::Older(Some(older)) => older.get(task.index() as usize) == Some(&true),
            Unsent::Nothing => false,
        }
    }

    /// Rows were written, with their refs: all that are not among these.
    pub fn all_but_written(&mut self, present: Vec<bool>) {
        if let Unsent::Older(older) = self {
            let was_there = |index: usize| older.as_ref().is_none_or(|older| older.get(index) == Some(&true));
            let both = present.iter().enumerate().map(|(index, there)| *there && was_there(index));
            let both = both.collect();
            *older = Some(both);
        }
    }
}

impl Rebuilder {
    /// Looked at before any row is written.
    pub async fn unsent(&self, found: &Found) -> Result<Unsent, Failure> {
        let job = found.key.job;
        let Some(run) = found.run().filter(|run| !run.status.is_terminal()) else {
            // Whoever reads the list sends all of them; and of a run that has ended nobody needs any.
            return Ok(Unsent::Nothing);
        };
        if notes::is_taken(&self.backend, job, Note::Refs).await? {
            return Ok(Unsent::All);
        }
        if self.has_messages(found.key).await? {
            return Ok(Unsent::Nothing);
        }
        notes::take(&self.backend, job, Note::Refs).await?;
        // The rest of a list that is read brings its own.
        Ok(Unsent::Older(run.is_ingesting().then(|| vec![true; run.next_index as usize])))
    }

    pub async fn has_messages(&self, key: RunKey) -> Result<bool, Failure> {
        let (queue, now) = (QueueName::Run(key.run), self.clock.now());
        Ok(patiently(|| self.backend.queue.emptiness(queue, now)).await? == Emptiness::Messages)
    }

    /// Sends a ref for every unfinished task that may have none. How many that were.
    pub async fn send_refs(&self, key: RunKey, job: &Job, unsent: &Unsent) -> Result<u64, Failure> {
        if matches!(unsent, Unsent::Nothing) {
            return Ok(0);
        }
        let bar = self.progress.bar("sending", 0);
        let task_shard_count = job.spec.task_shard_count;
        let mut pages = Pages::new(&self.backend, key, StatusFilter::Unfinished);
        let mut sent = 0;
        while let Some(page) = pages.next().await? {
            let ids = page.iter().map(|task| task.id).filter(|task| unsent.includes(*task));
            let bodies: Vec<String> =
                ids.map(|task| TaskRef { task, task_shard_count }.to_string()).collect();
            if bodies.is_empty() {
                continue;
            }
            let now = self.clock.now();
            patiently(|| self.backend.queue.send(QueueName::Run(key.run), bodies.clone(), now)).await?;
            sent += bodies.len() as u64;
            bar.inc(bodies.len() as u64);
        }
        Ok(sent)
    }

    /// Of a run that has ended: nobody reads it.
    pub async fn remove_queue(&self, key: RunKey) -> Result<(), Failure> {
        let queue = QueueName::Run(key.run);
        while !patiently(|| self.backend.queue.remove(queue, limits::SWEEP_STEP_ROWS)).await? {}
        Ok(())
    }
}
