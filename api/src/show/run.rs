use super::Time;
use conveyor_domain::{Run, RunFailure, RunStats, ShownTotal, Storage, headers};
use conveyor_store::port::{JobView, RunView};
use conveyor_wire as wire;

/// Whether readers see it. The row of one that was deleted and removed stays, so that nothing of it comes back.
pub(crate) fn is_there(run: &Run) -> bool {
    run.storage != Storage::Removed
}

/// The latest run of a job, if readers see one.
pub(crate) fn latest_run(view: &JobView) -> Option<wire::Run> {
    view.latest.as_ref().filter(|latest| is_there(&latest.run)).map(run)
}

pub(crate) fn run(RunView { run, stats: counted }: &RunView) -> wire::Run {
    // A run that has ended waits for nobody to resume it.
    let paused = run.paused && !run.status.is_terminal();
    let pause = run.doc.pause.as_ref().filter(|_| paused);
    let params = Some(headers::hidden(&run.doc.overrides)).filter(|params| !params.is_empty());
    let failure = run.failure.as_ref();
    wire::Run {
        run_id: run.id,
        job_id: run.job,
        run_sequence: run.sequence,
        status: run.status.into(),
        trigger: run.doc.trigger.into(),
        rerun_of: run.doc.rerun_of,
        zenrows_params: params.map(|params| params.into_owned()),
        stats: stats(run, counted),
        last_batch_received: run.latched,
        pause_state: paused.then(|| wire::PauseState::Paused.into()),
        pause_reason: pause
            .map(|pause| wire::PauseReason { code: pause.code.into(), detail: pause.detail.clone() }),
        ingest_status: run.ingest.map(wire::Open::from),
        created_at: Time(run.created),
        updated_at: Time(run.updated),
        failure_reason: failure.map(|failure| failure.shown().into()),
        failure_detail: failure.map(|failure| RunFailure::cause(failure).into_owned()),
    }
}

fn stats(run: &Run, stats: &RunStats) -> wire::Stats {
    let ShownTotal { total, is_final } = run.shown_total(&stats.shown());
    wire::Stats { total, total_is_final: (!is_final).then_some(false), ..(*stats).into() }
}
