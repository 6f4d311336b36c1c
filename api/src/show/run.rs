use super::Time;
use conveyor_domain::repair::by_class;
use conveyor_domain::{AccountFault, FailureReason, Run, RunFailure, RunStats, ShownTotal, Storage, headers};
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
        failure_reason: failure.map(|failure| word(failure.reason).into()),
        failure_detail: failure.map(|failure| RunFailure::cause(failure).into_owned()),
    }
}

fn word(reason: FailureReason) -> wire::RunFailureReason {
    match reason {
        FailureReason::Account(AccountFault::InsufficientCredits) => {
            wire::RunFailureReason::InsufficientCredits
        }
        FailureReason::Account(AccountFault::SubscriptionInactive) => {
            wire::RunFailureReason::SubscriptionInactive
        }
        FailureReason::Account(AccountFault::ApiKeyCapReached) => wire::RunFailureReason::ApiKeyCapReached,
        FailureReason::List(_) => wire::RunFailureReason::IngestFailed,
    }
}

fn stats(run: &Run, stats: &RunStats) -> wire::Stats {
    let shown = stats.shown();
    let ShownTotal { total, is_final } = run.shown_total(&shown);
    let counts = shown.counts;
    wire::Stats {
        total,
        total_is_final: (!is_final).then_some(false),
        completed: counts.completed(),
        successful: counts.successful,
        failed: counts.failed_total(),
        inconsistent: stats.is_inconsistent(),
        failure_reasons: by_class(&counts.failed).map(|(class, n)| (class.as_str().into(), n)).collect(),
        spend: wire::Spend::of(shown.spend),
    }
}
