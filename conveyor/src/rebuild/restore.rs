//! Unfinished tasks get the end that is known of them.

use super::Rebuilder;
use super::bodies::Bodies;
use super::failure::{Failure, patiently};
use super::pages::Pages;
use conveyor_domain::{FailureClass, Outcome, Problem, Task, TaskId, limits};
use conveyor_store::port::{RunKey, StatusFilter};
use futures::{StreamExt, TryStreamExt, stream};

impl Rebuilder {
    /// Gives every unfinished task the body that there is of it. How many that were.
    pub async fn give_bodies(&self, key: RunKey, bodies: &Bodies) -> Result<u64, Failure> {
        self.end_unfinished("restoring", bodies.len() as u64, key, |task| bodies.end_of(key, task.id)).await
    }

    /// Of a run that had completed: whatever has no end had one, and it is lost. How many that were.
    pub async fn give_up_lost(&self, key: RunKey) -> Result<u64, Failure> {
        let problem = Problem::new(500, "outcome_lost", "The outcome of the task was lost").with_detail(
            "The run had completed when its rows were lost. The task failed, or its body was empty; which is not known.",
        );
        let lost = Outcome::Failed { class: FailureClass::Other, problem };
        self.end_unfinished("closing", 0, key, |_| Some(lost.clone())).await
    }

    async fn end_unfinished(
        &self,
        name: &'static str,
        expected: u64,
        key: RunKey,
        end_of: impl Fn(&Task) -> Option<Outcome>,
    ) -> Result<u64, Failure> {
        let bar = self.progress.bar(name, expected);
        let mut pages = Pages::new(&self.backend, key, StatusFilter::Unfinished);
        let mut given = 0;
        while let Some(page) = pages.next().await? {
            let ends: Vec<(TaskId, Outcome)> =
                page.iter().filter_map(|task| Some((task.id, end_of(task)?))).collect();
            let groups = ends.chunks(limits::SETTLE_GROUP_MAX).map(|group| async {
                let now = self.clock.now();
                let store = &self.backend.store;
                let answers = patiently(|| store.restore(key, self.worker, group.to_vec(), now)).await?;
                bar.inc(group.len() as u64);
                Ok::<_, Failure>(answers.into_iter().filter(|given| *given).count() as u64)
            });
            let at_once = self.backend.capabilities.settles_at_once.of_a_run;
            given += stream::iter(groups)
                .buffer_unordered(at_once)
                .try_fold(0, |all, of_group| async move { Ok(all + of_group) })
                .await?;
        }
        Ok(given)
    }
}
