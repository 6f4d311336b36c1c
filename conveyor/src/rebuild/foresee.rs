//! What a rebuild would do: the report that it would end with, from what is there now.

use super::Rebuilder;
use super::bodies::Bodies;
use super::failure::Failure;
use super::found::{Found, Rows};
use super::notes::{self, Note};
use super::owner::OwnerKey;
use super::pages::Pages;
use super::proof::size;
use super::report::Report;
use conveyor_domain::repair::proof::drift;
use conveyor_domain::{Job, Run, RunStatus};
use conveyor_store::port::{RunKey, StatusFilter, Tally};

/// What is known before anything is done.
pub struct Foresight {
    /// The rows as they are; `None` if all of them were lost, with their run.
    pub before: Option<Tally>,
    /// No row is missing.
    pub complete: bool,
    /// A run that is made anew goes on at once.
    pub resumes: bool,
}

/// Rows that are there.
#[derive(Default)]
struct There {
    rows: u64,
    unfinished: u64,
    /// Unfinished ones of which there is a body.
    with_body: u64,
}

impl Rebuilder {
    /// Changes nothing.
    pub(super) async fn foresee(
        &self,
        found: &Found,
        foresight: Foresight,
        owner: Option<&OwnerKey>,
    ) -> Result<Report, Failure> {
        let (caller, spec) = match &found.rows {
            Rows::Lost(accepted) => {
                let known = match owner {
                    Some(key) => key.find(&self.backend).await?,
                    None => None,
                };
                (known.unwrap_or(accepted.caller_id), accepted.spec.clone())
            }
            Rows::Kept(kept) => (kept.0.caller, kept.0.spec.clone()),
        };
        let mut report = Report::new(found.key, caller, true);
        let seed = found.run().map_or(found.key.run, |run| run.id_seed);
        let mut bodies = self.bodies(found.key, seed).await?;
        (report.objects, report.objects_unlabelled) = (bodies.objects, bodies.unlabelled);
        report.bodies = bodies.len() as u64;
        let in_list = if foresight.complete { 0 } else { self.count_list(found, &spec).await? };
        let (Rows::Kept(kept), Some(before)) = (&found.rows, &foresight.before) else {
            (report.total, report.rows_written) = (in_list, in_list);
            report.results_restored = report.bodies;
            report.resumed = foresight.resumes;
            let left = in_list.saturating_sub(report.results_restored);
            report.status = ended(RunStatus::Running, left == 0, !spec.submitted_open);
            report.paused = !report.resumed && !report.status.is_terminal();
            return Ok(report);
        };
        let (job, run) = (&kept.0, &kept.1);
        let there = self.count_there(found.key, &mut bodies).await?;
        report.total = if run.is_ingesting() { in_list.max(run.total.into()) } else { run.total.into() };
        report.rows_written = report.total.saturating_sub(there.rows).min(in_list);
        report.rows_missing = report.total.saturating_sub(there.rows + report.rows_written);
        report.results_restored = bodies.len() as u64;
        report.counters_corrected = size(&drift(&before.rows, &before.counters));
        let left = (there.unfinished + report.rows_written).saturating_sub(report.results_restored);
        if run.status == RunStatus::Completed {
            report.outcomes_lost = left;
        } else if !run.status.is_terminal() {
            report.refs_sent = self.foresee_refs(found.key, left, &there).await?;
        }
        self.foresee_end(job, run, foresight.resumes, left + report.rows_missing == 0, &mut report).await?;
        Ok(report)
    }

    /// Refs of rows that are written go with them.
    async fn foresee_refs(&self, key: RunKey, left: u64, there: &There) -> Result<u64, Failure> {
        if notes::is_taken(&self.backend, key.job, Note::Refs).await? {
            return Ok(left);
        }
        Ok(if self.has_messages(key).await? { 0 } else { there.unfinished - there.with_body })
    }

    /// What it would let go on, or complete.
    async fn foresee_end(
        &self,
        job: &Job,
        run: &Run,
        resumes: bool,
        drained: bool,
        report: &mut Report,
    ) -> Result<(), Failure> {
        (report.status, report.paused) = (run.status, run.paused);
        if self.is_latest_and_live(job, run) {
            let by_us = !run.paused || notes::is_taken(&self.backend, job.id, Note::Paused).await?;
            report.resumed = resumes || by_us;
            report.paused &= !report.resumed;
            let latched = run.latched || (run.is_ingesting() && !job.spec.submitted_open);
            report.status = ended(run.status, drained, latched);
        }
        report.paused &= !report.status.is_terminal();
        Ok(())
    }

    /// Of the bodies, those that are needed are left.
    async fn count_there(&self, key: RunKey, bodies: &mut Bodies) -> Result<There, Failure> {
        let mut there = There::default();
        let mut pages = Pages::new(&self.backend, key, StatusFilter::All);
        while let Some(page) = pages.next().await? {
            there.rows += page.len() as u64;
            for task in page {
                if task.status.is_terminal() {
                    bodies.forget(task.id);
                    continue;
                }
                there.unfinished += 1;
                there.with_body += u64::from(bodies.has(task.id));
            }
        }
        Ok(there)
    }
}

/// The status of a live run, once nothing is left to do for it.
fn ended(status: RunStatus, drained: bool, latched: bool) -> RunStatus {
    match (drained, latched) {
        (false, _) => status,
        (true, true) => RunStatus::Completed,
        (true, false) => RunStatus::Pending,
    }
}
