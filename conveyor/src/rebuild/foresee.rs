//! What a rebuild would do.

use super::Rebuilder;
use super::bodies::Bodies;
use super::failure::Failure;
use super::found::{Found, Rows};
use super::owner::OwnerKey;
use super::pages::Pages;
use super::report::Report;
use conveyor_domain::RunStatus;
use conveyor_store::port::{RunKey, StatusFilter};

impl Rebuilder {
    /// Changes nothing. `complete`: no row is missing.
    pub(super) async fn foresee(
        &self,
        found: &Found,
        complete: bool,
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
        let in_list = if complete { 0 } else { self.count_list(found, &spec).await? };
        let Some(run) = found.run() else {
            report.paused = true;
            (report.total, report.rows_written) = (in_list, in_list);
            report.results_restored = report.bodies;
            return Ok(report);
        };
        (report.status, report.paused) = (run.status, run.paused);
        report.total = run.total.into();
        let (there, unfinished) = self.count_there(found.key, &mut bodies).await?;
        report.rows_written = match run.is_ingesting() {
            true => in_list.saturating_sub(there),
            false => report.total.saturating_sub(there).min(in_list),
        };
        report.results_restored = bodies.len() as u64;
        if run.status == RunStatus::Completed {
            report.outcomes_lost = (unfinished + report.rows_written).saturating_sub(report.results_restored);
        }
        Ok(report)
    }

    /// How many rows there are, and how many of them have no end yet. Of the bodies, those that are needed are left.
    async fn count_there(&self, key: RunKey, bodies: &mut Bodies) -> Result<(u64, u64), Failure> {
        let (mut there, mut unfinished) = (0, 0);
        let mut pages = Pages::new(&self.backend, key, StatusFilter::All);
        loop {
            let page = pages.next().await?;
            if page.is_empty() {
                return Ok((there, unfinished));
            }
            there += page.len() as u64;
            for task in page {
                match task.status.is_terminal() {
                    true => bodies.forget(task.id),
                    false => unfinished += 1,
                }
            }
        }
    }
}
