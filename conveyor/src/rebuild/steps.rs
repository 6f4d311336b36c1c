//! The steps of a rebuild, in order (SPEC 6.18). Whatever one finds done, it leaves as it is.

use super::failure::{Failure, patiently};
use super::foresee::Foresight;
use super::found::{self, Found, Rows};
use super::notes::{self, Note};
use super::owner::{self, Owner, OwnerKey};
use super::refs::Unsent;
use super::report::Report;
use super::{RebuildArgs, Rebuilder};
use conveyor_api::Accepted;
use conveyor_domain::job::lifecycle::Decision;
use conveyor_domain::{Command, Job, JobStatus, Refusal, Run, RunStatus, Upload, limits, retention};
use conveyor_store::Error;
use conveyor_store::port::{JobView, RunView, Submission};

impl Rebuilder {
    pub(super) async fn rebuild(&self, args: &RebuildArgs) -> Result<Report, Failure> {
        if let Some(key) = &args.owner_key {
            owner::check(key)?;
        }
        let found = found::look(&self.backend, args.job, args.run, self.began).await?;
        self.check_age(&found)?;
        let before = match found.run() {
            Some(_) => Some(self.tally(found.key).await?),
            None => None,
        };
        let complete = before
            .as_ref()
            .is_some_and(|tally| !tally.run.is_ingesting() && tally.rows.all() >= tally.run.total);
        if !complete {
            found::check_source(&self.backend, &found.source).await?;
        }
        let made_anew = found.run().is_none() || notes::is_taken(&self.backend, args.job, Note::Anew).await?;
        let owner = owner::key(args, made_anew)?;
        if args.dry_run {
            let foresight = Foresight { before, complete, resumes: made_anew && args.resume };
            let mut report = self.foresee(&found, foresight, owner.as_ref()).await?;
            report.made_anew = made_anew;
            report.left_paused = made_anew && report.paused;
            report.owner = self.owned_by(owner.as_ref(), report.caller, made_anew, true).await?;
            return Ok(report);
        }
        let had_completed = before.as_ref().is_some_and(|tally| tally.run.status == RunStatus::Completed);
        let had_ended = before.as_ref().is_some_and(|tally| tally.run.status.is_terminal());
        let rows_before = before.map_or(0, |tally| u64::from(tally.rows.all()));

        let job = self.job_at_rest(&found, owner.as_ref()).await?;
        let mut report = Report::new(found.key, job.caller, false);
        report.made_anew = made_anew;
        report.owner = self.owned_by(owner.as_ref(), job.caller, made_anew, false).await?;

        let mut unsent = self.unsent(&found).await?;
        if !complete {
            self.write_rows(&found, &job, &mut unsent).await?;
        }
        let tally = self.tally(found.key).await?;
        report.total = u64::from(tally.run.total);
        report.rows_written = u64::from(tally.rows.all()).saturating_sub(rows_before);
        report.rows_missing = u64::from(tally.run.total.saturating_sub(tally.rows.all()));

        // First what was wrong before: counters that are too high already would reach the total too early.
        report.counters_corrected = self.prove(found.key, &job).await?;
        let bodies = self.bodies(found.key, tally.run.id_seed).await?;
        (report.objects, report.objects_unlabelled) = (bodies.objects, bodies.unlabelled);
        report.bodies = bodies.len() as u64;
        report.results_restored = self.give_bodies(found.key, &bodies).await?;
        if had_completed {
            report.outcomes_lost = self.give_up_lost(found.key).await?;
        }
        report.counters_corrected += self.prove(found.key, &job).await?;
        if had_ended {
            self.remove_queue(found.key).await?;
        } else {
            report.refs_sent = self.send_refs(found.key, &job, &unsent).await?;
        }
        self.let_go(&found, args.resume, &mut report).await?;
        Ok(report)
    }

    /// Nothing is begun that may not be ended. Of a job of which no row is left nobody knows how far it was, nor what of it
    /// was removed before the rest was lost.
    fn check_age(&self, found: &Found) -> Result<(), Failure> {
        match &found.rows {
            Rows::Kept(kept) => self.check_rows_kept(&kept.0, &kept.1),
            Rows::Lost(accepted) => {
                let Decision { job, run } = accepted.rows(accepted.caller_id);
                let some_may_be_gone = !retention::can_be_proved(&job, &run, true, self.began);
                if some_may_be_gone { Err(Failure::past_its_time()) } else { Ok(()) }
            }
        }
    }

    /// The job, there, with its run paused: nothing is fetched while bodies of it are looked for.
    async fn job_at_rest(&self, found: &Found, owner: Option<&OwnerKey>) -> Result<Job, Failure> {
        let (job, run) = match &found.rows {
            Rows::Lost(accepted) => return self.make_anew(accepted, owner).await,
            Rows::Kept(kept) => (&kept.0, &kept.1),
        };
        if let Some(key) = owner.filter(|key| key.by == Owner::Flag) {
            let caller = key.put(&self.backend, job.caller, self.clock.now()).await?;
            if caller != job.caller {
                return Err(Failure::usage(
                    "the job is there and somebody else's than the one of --owner-key; leave that out",
                ));
            }
        }
        if self.is_latest_and_live(job, run) && !run.paused {
            notes::take(&self.backend, job.id, Note::Paused).await?;
            self.command(job, Command::Pause).await?;
        }
        Ok(job.clone())
    }

    /// Upload slot and job under their old ids. The log of the ingest begins again.
    async fn make_anew(&self, accepted: &Accepted, owner: Option<&OwnerKey>) -> Result<Job, Failure> {
        let now = self.clock.now();
        let caller = match owner {
            Some(key) => key.put(&self.backend, accepted.caller_id, now).await?,
            None => accepted.caller_id,
        };
        let Decision { job, run } = accepted.rows(caller);
        let source = &accepted.source;
        let upload = Upload {
            staged: Some(source.staged.clone()),
            // Its old time is over: until the job has claimed it, a sweep would remove it, and the list with it. If this
            // is broken off here, there is time to repeat it.
            expires: now.after(limits::ROWS_KEPT),
            ..Upload::new(source.upload, caller, source.spec.clone(), job.created)
        };
        patiently(|| self.backend.store.create_upload(upload.clone(), u32::MAX)).await?;
        notes::take(&self.backend, job.id, Note::Anew).await?;
        let run = Run { paused: true, ..run };
        let acceptance = Submission::of_list(job.clone(), run, source.clone(), None);
        let accept = || async {
            match self.backend.store.submit(acceptance.clone()).await {
                // It is remembered as deleted.
                Err(Error::Conflict(_) | Error::Refused(Refusal::JobDeleted)) => Ok(false),
                other => other.map(|()| true),
            }
        };
        let deleted = || Failure::not_rebuildable("it was deleted");
        if !patiently(accept).await? {
            notes::drop_all(&self.backend, job.id).await?;
            return Err(deleted());
        }
        let view = patiently(|| self.backend.store.job(None, job.id)).await?.ok_or_else(deleted)?;
        if view.job.status == JobStatus::Deleted { Err(deleted()) } else { Ok(view.job) }
    }

    /// All rows of the list, as far as the run goes.
    async fn write_rows(&self, found: &Found, job: &Job, unsent: &mut Unsent) -> Result<(), Failure> {
        if self.tally(found.key).await?.run.is_ingesting() {
            // Refs are part of it, and the log says how far they are sent.
            self.ingest(found.key).await?;
        }
        let tally = self.tally(found.key).await?;
        if tally.rows.all() < tally.run.total {
            self.check_rows_kept(job, &tally.run)?;
            self.put_missing(found, job, &tally.run, unsent).await?;
        }
        Ok(())
    }

    /// Resumes what a rebuild paused, this one or one that was killed, and completes what is done. A job that was made anew
    /// may have been stopped or slowed down since its submit, so it goes on only if somebody says so (`resume`).
    async fn let_go(&self, found: &Found, resume: bool, report: &mut Report) -> Result<(), Failure> {
        let job = found.key.job;
        let ours = (report.made_anew && resume) || notes::is_taken(&self.backend, job, Note::Paused).await?;
        let view = patiently(|| self.backend.store.job(None, job)).await?;
        let mut view = view.ok_or_else(|| Failure::not_rebuildable("it was deleted meanwhile"))?;
        if let Some(RunView { run, .. }) = &view.latest
            && self.is_latest_and_live(&view.job, run)
            && view.job.latest_run == found.key.run
        {
            if ours && run.paused {
                view = self.command(&view.job, Command::Resume).await?.unwrap_or(view);
                report.resumed = true;
            }
            view = self.command(&view.job, Command::Drained).await?.unwrap_or(view);
        }
        notes::drop_all(&self.backend, job).await?;
        if let Some(run) = patiently(|| self.backend.store.run(job, found.key.run)).await? {
            (report.status, report.paused) =
                (run.run.status, run.run.paused && !run.run.status.is_terminal());
            report.left_paused = report.made_anew && report.paused;
        }
        report.caller = view.job.caller;
        Ok(())
    }

    pub(super) fn is_latest_and_live(&self, job: &Job, run: &Run) -> bool {
        job.latest_run == run.id && !run.status.is_terminal()
    }

    /// A command on the job's latest run. `None` if its state does not allow it: then there is nothing to be done.
    async fn command(&self, job: &Job, command: Command) -> Result<Option<JobView>, Failure> {
        let now = self.clock.now();
        let applied = patiently(|| async {
            match self.backend.store.apply(job.id, command.clone(), now).await {
                Err(Error::Refused(_)) => Ok(None),
                other => other.map(Some),
            }
        });
        applied.await
    }
}
