use super::Time;
use super::spend::SpendJson;
use conveyor_domain::{
    FailureClass, IngestStatus, JobId, Params, PauseReason, Run, RunFailure, RunId, RunStats, RunStatus,
    ShownTotal, Storage, headers,
};
use conveyor_store::port::RunView;
use schemars::JsonSchema;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Whether readers see it. The row of one that was deleted and removed stays, so that nothing of it comes back; what runs of
/// a scheduled job are made of was never there for them.
pub(crate) fn is_there(run: &Run) -> bool {
    match run.storage {
        Storage::Kept | Storage::Expired => !run.is_template(),
        Storage::Removed => false,
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunJson<'a> {
    run_id: RunId,
    job_id: JobId,
    run_sequence: u32,
    status: RunStatus,
    #[schemars(extend("enum" = ["manual", "scheduled"]))]
    trigger: &'static str,
    /// The run whose tasks it took over, if it is a rerun.
    #[serde(skip_serializing_if = "Option::is_none")]
    rerun_of: Option<RunId>,
    /// Parameters of this run alone, which win over those of the job and of its tasks. Values of headers are not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    zenrows_params: Option<Cow<'a, Params>>,
    stats: StatsJson,
    last_batch_received: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["paused"]))]
    pause_state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pause_reason: Option<&'a PauseReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ingest_status: Option<IngestStatus>,
    created_at: Time,
    updated_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = RunFailure::WORDS))]
    failure_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_detail: Option<Cow<'a, str>>,
}

impl<'a> From<&'a RunView> for RunJson<'a> {
    fn from(RunView { run, stats }: &'a RunView) -> Self {
        RunJson {
            run_id: run.id,
            job_id: run.job,
            run_sequence: run.sequence,
            status: run.status,
            trigger: run.doc.trigger.as_str(),
            rerun_of: run.doc.rerun_of,
            zenrows_params: Some(headers::hidden(&run.doc.overrides)).filter(|params| !params.is_empty()),
            stats: StatsJson::new(run, stats),
            last_batch_received: run.latched,
            // A run that has ended waits for nobody to resume it.
            pause_state: (run.paused && !run.status.is_terminal()).then_some("paused"),
            pause_reason: run.doc.pause.as_ref().filter(|_| run.paused && !run.status.is_terminal()),
            ingest_status: run.ingest,
            created_at: Time(run.created),
            updated_at: Time(run.updated),
            failure_reason: run.failure.as_ref().map(RunFailure::word),
            failure_detail: run.failure.as_ref().map(RunFailure::cause),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct StatsJson {
    total: u32,
    /// False while it is not known how many tasks there will be; left out otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    total_is_final: Option<bool>,
    completed: u32,
    successful: u32,
    failed: u32,
    /// The counts contradict each other and are cut to fit (SPEC 6.14).
    #[serde(skip_serializing_if = "is_false")]
    inconsistent: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = {"enum": FailureClass::ALL.map(FailureClass::as_str)}))]
    failure_reasons: BTreeMap<&'static str, u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spend: Option<SpendJson>,
}

impl StatsJson {
    fn new(run: &Run, stats: &RunStats) -> Self {
        let shown = stats.shown();
        let ShownTotal { total, is_final } = run.shown_total(&shown);
        let RunStats { counts, spend, .. } = shown;
        let by_class = FailureClass::ALL.iter().map(|class| (class.as_str(), counts.failed[*class as usize]));
        StatsJson {
            total,
            total_is_final: (!is_final).then_some(false),
            completed: counts.completed(),
            successful: counts.successful,
            failed: counts.failed_total(),
            inconsistent: stats.is_inconsistent(),
            failure_reasons: by_class.filter(|(_, count)| *count > 0).collect(),
            spend: SpendJson::of(spend),
        }
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunsJson<'a> {
    pub runs: Vec<RunJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
