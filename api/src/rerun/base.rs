//! What a full rerun is made of, if the latest run never saw the whole of its list (SPEC 6.19): tasks that were never written
//! must not be missing from the next run as well.

use crate::problem::{ApiError, Code, Result};
use crate::staged;
use crate::state::ApiState;
use conveyor_domain::ingest::Source;
use conveyor_domain::job::retention::rows_are_over;
use conveyor_domain::job::run::Expected;
use conveyor_domain::schedule::TaskSource;
use conveyor_domain::{IngestState, Job, Origin, Run, RunStatus, Selection, limits};
use conveyor_store::Error;
use conveyor_store::port::{Reader, RunKey, RunView};

/// What holds all tasks of the job.
pub(crate) enum Base {
    Run(Box<RunView>),
    /// Read anew, from its first record; so many tasks, if that is known.
    List(Box<Source>, Option<Expected>),
    /// What all runs of its schedule are made of.
    Template,
}

/// What a rerun of `latest`, which has ended, has to be made of.
pub(crate) async fn base_of(
    state: &ApiState,
    job: &Job,
    latest: &RunView,
    selection: &Selection,
) -> Result<Base> {
    let mut base = Box::new(latest.clone());
    for _ in 0..limits::REPLAY_CHAIN_MAX {
        // A run completes only behind the end of its list.
        if base.run.ingest.is_none() || base.run.status == RunStatus::Completed {
            return Ok(Base::Run(base));
        }
        let key = RunKey { job: job.id, run: base.run.id };
        let log = match state.list_stored(job.caller, state.store().ingest(key, Reader::Caller)).await {
            Ok(Some(ingest)) => IngestState::fold(&ingest.log).map_err(|why| damaged(latest, key, &why))?,
            Ok(None) => return Err(gone(latest)),
            Err(error @ Error::Corrupt(_)) => return Err(damaged(latest, key, &error)),
            Err(error) => return Err(error.into()),
        };
        if log.read_to_end {
            return Ok(Base::Run(base));
        }
        // First: whoever is sent to a full rerun must not be refused there for this. What ends the ingest of a replay is not in
        // a list that anybody could mend.
        if let (Origin::List(_), Some(fault)) = (&log.origin, log.fault)
            && fault.is_for_good()
        {
            let advice = format!("It cannot be taken as it is ({fault}): mend it, and submit it again.");
            return Err(not_read(latest, &advice));
        }
        if !selection.is_everything() {
            let advice = match (&log.origin, latest.run.doc.rerun_of) {
                // What was done before it stays done.
                (Origin::Run(_), Some(_)) => {
                    "Delete this run, and rerun the one before it with the filter; or rerun the job without a filter, which does every task again."
                }
                (Origin::Run(_), None) | (Origin::List(_), _) => {
                    "Rerun the job without a filter, which reads all of it."
                }
            };
            return Err(not_read(latest, advice));
        }
        match log.origin {
            Origin::List(source) => {
                let source = list(state, job, latest, *source).await?;
                // What its ingest counted holds for the same bytes.
                let counted = base.run.doc.expected.filter(|expected| expected.exact);
                let expected = counted.or_else(|| source.expected(&job.spec.params));
                return Ok(Base::List(Box::new(source), expected));
            }
            Origin::Run(replay) if job.spec.template_id() == Some(replay.run) => return Ok(Base::Template),
            Origin::Run(replay) => {
                let earlier = state.store().run(job.id, replay.run).await?;
                let earlier = earlier.filter(|view| is_kept(state, &view.run));
                base = Box::new(earlier.ok_or_else(|| gone(latest))?);
            }
        }
    }
    Err(gone(latest))
}

fn is_kept(state: &ApiState, run: &Run) -> bool {
    run.status != RunStatus::Deleted && !rows_are_over(run, state.now())
}

/// The job holds its upload for as long as one of its runs is kept; but on S3 uploads also go by age (SPEC 5.6).
async fn list(state: &ApiState, job: &Job, latest: &RunView, logged: Source) -> Result<Source> {
    let source = match job.spec.schedule.as_ref().map(|schedule| schedule.task_source()) {
        // Its list may have been copied to a place of its own since.
        Some(TaskSource::List(source)) => source.clone(),
        Some(TaskSource::Rows(_)) | None => logged,
    };
    let key = staged::key_of(&source.staged)?;
    match state.backend.blobs.get(&key, 0, source.staged.size.min(1)).await {
        Ok(_) => Ok(source),
        Err(Error::NotFound) => Err(gone(latest)),
        Err(error) => Err(error.into()),
    }
}

fn gone(latest: &RunView) -> ApiError {
    not_read(latest, "What is missing is no longer kept: submit the list again.")
}

/// Only the log says what of its list became tasks.
fn damaged(latest: &RunView, RunKey { job, run }: RunKey, why: &dyn std::error::Error) -> ApiError {
    tracing::error!(%job, %run, %why, "the log of an ingest cannot be read: nobody knows which of its rows are tasks");
    not_read(
        latest,
        &format!("The log of the ingest of run {run} cannot be read ({why}): submit the list again."),
    )
}

fn not_read(latest: &RunView, advice: &str) -> ApiError {
    let RunView { run, stats } = latest;
    let detail = format!(
        "The latest run is {} and ended before its list was read to the end: {} rows of it were read, {} of them became tasks. {advice}",
        run.status.as_str(),
        run.next_index,
        stats.total,
    );
    ApiError::new(Code::ListNotRead, detail)
}
